"""Install what adapters are tested against, each in an environment of its own above .venv: make adapters.

They bring several hundred packages, of versions that suit them; so nothing of .venv is changed by them.
"""

import subprocess
import sys
import time
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BELOW = Path(sys.prefix)


def main() -> int:
    """Install those that are named, or all; tests of one that cannot be installed are skipped."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    known = [name.removeprefix("adapter-") for name in groups if name.startswith("adapter-")]
    wrong = 0
    for name in sys.argv[1:] or known:
        place = BELOW / "adapters" / name
        began = time.monotonic()
        venv.create(place, with_pip=False, symlinks=True)
        (site,) = place.glob("lib/python3*/site-packages")
        (below,) = BELOW.glob("lib/python3*/site-packages")
        (site / "below.pth").write_text(f"import site; site.addsitedir({str(below)!r})\n")
        pip = [str(place / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "-qq"]
        line = [*pip, "install", *groups[f"adapter-{name}"]]
        done = subprocess.run(line, stderr=subprocess.PIPE, text=True, check=False)
        said = f"in {time.monotonic() - began:.0f} s"
        if done.returncode:
            said = f"could NOT be installed: {done.stderr.strip()[-500:]}"
        print(f"adapters: {name} {said}", flush=True)
        wrong += done.returncode != 0
    return wrong


if __name__ == "__main__":
    sys.exit(main())
