"""Pages that change at each look do not starve quiet ones, from the beginning on."""

from collections import Counter
from itertools import count

from .worlds import DAY, START, add, make

QUIET, NOISY = 18, ("python:noisy/a", "python:noisy/b")


def test_two_pages_that_change_at_each_look_do_not_starve_the_others(tmp_path):
    looks = count()
    content = dict.fromkeys(NOISY, lambda _: str(next(looks)).encode())
    mirror, world = make(tmp_path, content=content, budget=20 * 24 / DAY, reserve=DAY, tick=60.0)
    with mirror:
        add(mirror, *(f"quiet/{n}" for n in range(QUIET)), "noisy/a", "noisy/b")
        mirror.run(until=START + DAY)
    polls = [key for _, key in world.polls]
    assert len(polls) >= QUIET + 2 + 288
    first = len(set(polls))
    assert first == QUIET + 2
    assert len(set(polls[:first])) == first  # all first copies come before any second one
    soon, later = Counter(polls[first : first + 36]), Counter(polls[first : first + 288])
    assert sum(soon[key] for key in NOISY) <= 12, soon
    assert len(soon) == first, "each was looked at again"
    least = min(later[key] for key in set(polls) - set(NOISY))
    assert least >= 288 / first / 2, later
