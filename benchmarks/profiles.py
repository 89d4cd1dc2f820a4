"""Profiles: how fast access logs are read and counted, beside the plainest loops over the same file, and in
how much memory."""

import gzip
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks import peak
from benchmarks.timing import at_least, required, side_by_side
from unstale.estimation import Profile, UserProfiles
from unstale.tables import AccessLog

LINES = 1_000_000
LONG = 10_000_000
LEAST = 0.5
"""Million lines per second that are required."""
MEMORY = 0.6
"""GiB that ten million lines may take at most."""
BEGIN = 1_767_225_600
KEYS = 200_000
PATTERN = re.compile(rb'(\S+) \S+ (\S+) \[([^\]]*)\] "(\S+) (\S+)[^"]*" (\d{3}) ')


def run() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        formats(folder)
        long(folder)


def drawn(count: int) -> tuple[list[int], list[int]]:
    """Elements by Zipf's law, and statuses."""
    rng = np.random.default_rng(1)
    return np.minimum(rng.zipf(1.3, count), KEYS).tolist(), rng.choice([200, 200, 304, 404], count).tolist()


def combined(count: int) -> Iterator[str]:
    agent = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
    for i, (key, status) in enumerate(zip(*drawn(count), strict=True)):
        stamp = time.strftime("%d/%b/%Y:%H:%M:%S", time.gmtime(BEGIN + i // 20))
        request = f"GET /articles/{key}/title-of-it?page={key % 3} HTTP/1.1"
        yield (
            f'192.0.2.{i % 251} - - [{stamp} +0000] "{request}" {status} {key % 9000} '
            f'"https://example.org/" "{agent}"\n'
        )


def objects(count: int) -> Iterator[str]:
    for i, (key, status) in enumerate(zip(*drawn(count), strict=True)):
        row = {"time": BEGIN + i // 20, "url": f"/articles/{key}", "user": f"u{i % 251}", "status": status}
        yield json.dumps(row) + "\n"


def rows(count: int) -> Iterator[str]:
    yield "key,time,user\n"
    for i, key in enumerate(drawn(count)[0]):
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(BEGIN + i // 20))
        yield f"/articles/{key},{stamp},u{i % 251}\n"


def profiled(path: Path) -> Profile:
    profile = Profile(30 * 86400.0)
    for part in AccessLog(str(path)).read():
        profile.count(part.keys, part.times, part.counts, places=part.places)
    return profile


def profiled_by_user(path: Path) -> UserProfiles:
    profiles = UserProfiles(30 * 86400.0)
    for part in AccessLog(str(path), users=True).read():
        assert part.users is not None
        profiles.count(part.users, part.keys, part.times, user_places=part.user_places, places=part.places)
    return profiles


def plain_pass(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)


def by_pattern(path: Path) -> dict[bytes, int]:
    """What one would write: a regular expression, and a count for each key; times are not even read."""
    counts: dict[bytes, int] = {}
    with path.open("rb") as file:
        for line in file:
            found = PATTERN.match(line)
            if found and found[6][:1] in b"23":
                counts[found[5]] = counts.get(found[5], 0) + 1
    return counts


def formats(folder: Path) -> None:
    log, packed, lines, table = (folder / name for name in ("a.log", "a.log.gz", "a.jsonl", "a.csv"))
    for path, made in ((log, combined), (lines, objects), (table, rows)):
        with path.open("w") as file:
            file.writelines(made(LINES))
    packed.write_bytes(gzip.compress(log.read_bytes(), 1))
    profile, counts = profiled(log), by_pattern(log)
    assert len(profile) == len(counts)
    assert sum(counts.values()) == round(_undecayed(log).total)
    jobs = {
        "combined log format": lambda: profiled(log),
        "  gzipped": lambda: profiled(packed),
        "  by user": lambda: profiled_by_user(log),
        "JSON lines": lambda: profiled(lines),
        "CSV": lambda: profiled(table),
        "a regular expression": lambda: by_pattern(log),
        "for line in file": lambda: plain_pass(log),
    }
    took = side_by_side(*jobs.values(), repeat=3)
    size = log.stat().st_size / LINES
    print(
        f"\nprofiles: {LINES:,} lines, {size:.0f} bytes each in combined log format; million lines per second"
    )
    for name, seconds in zip(jobs, took, strict=True):
        print(f"  {name:<24} {LINES / seconds / 1e6:6.2f}")
    print(f"  combined log format: {at_least(LINES / took[0] / 1e6, LEAST, 'million lines per second')}")
    print(f"  beside the regular expression: {took[5] / took[0]:.1f} times as fast")


def _undecayed(path: Path) -> Profile:
    profile = Profile()
    for part in AccessLog(str(path)).read():
        profile.count(part.keys, part.times, places=part.places)
    return profile


def long(folder: Path) -> None:
    path = folder / "long.log"
    text = "".join(combined(LINES // 10))
    with path.open("w") as file:
        for i in range(LONG * 10 // LINES):
            file.write(text.replace("/articles/", f"/articles/{i % 50}-"))
    got = peak.run(sys.executable, "-m", "unstale", "profile", str(path), "--json", "--top", "1")
    answer = json.loads(got.output)
    assert answer["lines"] == LONG
    print(
        f"\nunstale profile: {LONG:,} lines, {answer['elements']:,} elements, "
        f"{LONG / got.seconds / 1e6:.2f} million lines per second with the start of the program"
    )
    print(f"  memory {required(got.peak / peak.GIB, MEMORY, 'GiB')}")
