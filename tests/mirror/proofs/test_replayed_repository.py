"""A mirror of a site whose commits touch many pages at once: is it right about how fresh it is?

The site is a git repository, served on loopback at the commit of the moment and polled over real HTTP, by
the real loop and the real store; only the time is simulated. At many moments, from the first on, the mirror
is asked how fresh its copies are, and the repository knows.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from unstale.mirror.clock import SimulatedClock
from unstale.mirror.mirror import Mirror
from unstale.mirror.settings import GroupLimit, Http, Settings
from unstale.mirror.source import New

from .git_site import GitSite, git

DAY, START = 86400.0, 1.6e9
ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Look:
    """What the mirror said at a moment, and what was true."""

    said: float
    low: float
    high: float
    true: float

    @property
    def inside(self):
        return self.low - 1e-9 <= self.true <= self.high + 1e-9


def made_repository(folder, *, pages, days, seed):
    """Make a repository: each day single pages are edited, and now and then a commit touches most of them."""
    rng = np.random.default_rng(seed)
    lines = []
    for day in range(days + 1):
        if day == 0:
            touched = np.arange(pages)
        elif rng.random() < 0.15:
            touched = np.flatnonzero(rng.random(pages) < 0.8)
        else:
            touched = np.flatnonzero(rng.random(pages) < 0.01)
        when = f"{int(START + day * DAY)} +0000"
        lines += ["commit refs/heads/main", f"committer me <me@example.org> {when}", "data 1", "c"]
        for page in touched.tolist():
            text = f"page {page} of day {day}\n"
            lines += [f"M 100644 inline {page}.md", f"data {len(text)}", text]
    git(folder, "init", "-q", "-b", "main")
    git(folder, "fast-import", "--quiet", given="\n".join([*lines, ""]).encode())
    return folder


async def replayed(
    site_folder,
    folder,
    *,
    begin,
    end,
    polls_per_change,
    looks,
    most=150,
    suffix="",
    last_modified=False,
    ticks=50,
):
    """Mirror the pages that there are in the end; return what was said and true at moments, evenly spaced."""
    site = GitSite(site_folder, None, suffix, last_modified=last_modified)
    paths = site.there(end)
    paths = [paths[i] for i in np.random.default_rng(1).permutation(len(paths))[:most].tolist()]
    site.pages = {path: site.pages[path] for path in paths}
    budget = polls_per_change * site.changes(begin, end) / (end - begin)
    round_ = len(paths) / budget
    tick = round_ / ticks
    clock = site.clock = SimulatedClock(begin, grain=tick / 2.4)
    settings = Settings(
        budget=budget, reserve=round_, groups=(GroupLimit("*", concurrency=100),), concurrency=100,
        http=Http(robots=False), keep=1,
    )  # fmt: skip
    found, moments = [], np.linspace(begin, end, looks + 1)[1:].tolist()

    def look(event):
        if event.kind == "tick" and event.time >= moments[len(found) - looks] - tick and len(found) < looks:
            said = (event.data[name] for name in ("freshness", "low", "high"))
            found.append(Look(*said, site.true_freshness(paths, event.time)))

    with Mirror(folder / "mirror.db", settings=settings, clock=clock, tick=tick) as mirror:
        async with site.serving() as url:
            mirror.add_many(New(f"{url}/{path}") for path in paths)
            await mirror.arun(end, on_event=look)
    assert len(found) == looks
    return found


def judged(found):
    """Return how often the interval had the truth in it, and by how much too much was said on average."""
    for look in found:
        print(f"{look.said:.2f} ({look.low:.2f} to {look.high:.2f}), true {look.true:.2f}", look.inside)  # noqa: T201
    inside = float(np.mean([look.inside for look in found]))
    off = float(np.mean([look.said - look.true for look in found]))
    print(f"inside {inside:.2f}, off {off:+.3f}")  # noqa: T201  (shown with -s)
    return inside, off


def replayed_days(folder, seed, days=40):
    """Return how a mirror of such a repository judges itself, from its first day on."""
    (folder / "site").mkdir()
    site = made_repository(folder / "site", pages=30, days=days, seed=seed)
    return judged(
        asyncio.run(
            replayed(
                site, folder, begin=START, end=START + days * DAY, polls_per_change=1.0, looks=20, ticks=12
            )
        )
    )


def test_the_interval_knows_that_a_commit_touches_many_pages(tmp_path):
    """Also in the beginning, when all that is said of a page is what is expected of any.

    The bounds are those that eight such histories kept, of which this is the first: a history has about six
    commits that touch most pages, and all looks between two of them are right or wrong together.
    """
    inside, off = replayed_days(tmp_path, 0)
    assert inside >= 0.65
    assert abs(off) < 0.2


@pytest.mark.long
def test_eight_such_histories_have_the_truth_in_their_intervals(tmp_path):
    """On average 84 % of the intervals; without what they allow for the beginning 71 % had."""
    found = []
    for seed in range(8):
        (tmp_path / str(seed)).mkdir()
        found.append(replayed_days(tmp_path / str(seed), seed))
    inside, off = np.mean(found, axis=0)
    assert inside >= 0.8
    assert abs(off) < 0.1


@pytest.mark.long
@pytest.mark.parametrize(("polls_per_change", "last_modified"), [(1.0, False), (4.0, False), (1.0, True)])
def test_the_history_of_a_real_repository(tmp_path, polls_per_change, last_modified):
    """That of this one: 40 moments over the later part of its history."""
    if not (ROOT / ".git").exists() or len(times := git(ROOT, "log", "--format=%ct").split()) < 100:
        pytest.skip("the history of this repository is not here")
    first, last = int(times[-1]), int(times[0])
    found = asyncio.run(
        replayed(
            ROOT, tmp_path, begin=first + 0.3 * (last - first), end=float(last), looks=40,
            polls_per_change=polls_per_change, last_modified=last_modified,
        )
    )  # fmt: skip
    inside, off = judged(found)
    assert inside >= 0.75
    assert abs(off) < 0.1
