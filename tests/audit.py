"""``make audit``: bandit over the source, and pip-audit over what is installed.

Ruff checks the same rules as bandit in ``make lint``, under names that begin with S, and a line that is an
exception says so with ``noqa: S...`` and, where it is not plain, why. Here each finding of bandit must be
such an exception. Three rules are left out: B101, since assertions tell mypy what is known and guard nothing;
B403 and B404, since they mark imports, and each use of pickle and subprocess is a finding of its own.
"""

import json
import linecache
import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
UNREACHABLE = re.compile(
    r"ConnectionError|Failed to establish|Max retries|could not be audited|urlopen|ServiceError"
)


def run(*command):
    """Run a tool of this environment."""
    return subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)


def code():
    """Return what bandit found beside the exceptions."""
    told = run("bandit", "-q", "-r", str(SOURCE), "-f", "json", "-s", "B101,B403,B404")
    found = json.loads(told.stdout)
    if found["errors"]:
        return [str(error) for error in found["errors"]]
    unknown = []
    for one in found["results"]:
        rule, path, last = f"S{one['test_id'][1:]}", one["filename"], max(one["line_range"])
        lines = [linecache.getline(path, number) for number in (*range(one["line_number"], last + 1),)]
        if not any("noqa" in line and rule in line for line in lines):
            unknown.append(f"{path}:{one['line_number']}: {one['test_id']} {one['issue_text']}")
    print(f"audit: bandit: {len(found['results'])} findings, {len(unknown)} of them are no known exceptions")
    return unknown


def packages():
    """Return packages with known vulnerabilities; say which could not be looked up."""
    told = run("pip_audit", "--local", "--progress-spinner", "off", "-f", "json")
    try:
        known = json.loads(told.stdout)["dependencies"]
    except (ValueError, KeyError):
        why = (told.stderr.strip().splitlines() or ["it said nothing"])[-1]
        if not UNREACHABLE.search(told.stderr):
            return [f"pip-audit failed: {why}"]
        print(
            f"audit: pip-audit cannot reach the list of vulnerabilities; nothing was looked up: {why[:200]}"
        )
        return []
    skipped = [one["name"] for one in known if "skip_reason" in one]
    print(f"audit: pip-audit: {len(known) - len(skipped)} packages looked up, {len(skipped)} could not be")
    return [
        f"{one['name']} {one['version']}: {flaw['id']}, mended in {flaw['fix_versions'] or 'no version'}"
        for one in known
        for flaw in one.get("vulns", [])
    ]


if __name__ == "__main__":
    problems = code() + packages()
    print("\n".join(problems))
    sys.exit(bool(problems))
