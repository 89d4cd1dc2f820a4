"""The real loop on simulated time: what it polls, when, and what it records."""

import asyncio
import math

import numpy as np
import pytest

from unstale import InvalidInput
from unstale.mirror.settings import GroupLimit, Rule
from unstale.mirror.source import Found, New
from unstale.mirror.store.sql.transaction import SqlTransaction

from .worlds import DAY, START, add, events_of, make, run


def test_a_new_element_is_polled_soon_and_its_copy_can_be_read(tmp_path):
    mirror, _ = make(tmp_path, content={"python:a": b"hello"})
    with mirror:
        add(mirror, "a")
        run(mirror, 600)
        copy = mirror.read("python:a")
        assert copy.body == b"hello"
        assert copy.version.first
        assert mirror.find("python:a").state == "ok"


def test_the_budget_is_spent_and_never_exceeded(tmp_path):
    mirror, world = make(tmp_path, budget=2000 / DAY)
    with mirror:
        add(mirror, *(f"h{i % 7}/{i}" for i in range(300)))
        run(mirror, DAY)
    times = np.sort([time for time, _ in world.polls])
    assert 0.98 * 2000 <= times.size <= 2000
    for window in (60.0, 600.0, 3600.0, 43200.0):
        most = max(np.searchsorted(times, t + window) - i for i, t in enumerate(times))
        assert most <= math.ceil(2000 * window / DAY)
    assert np.diff(times).max() < 3 * DAY / 2000  # nor are there gaps


def test_what_changes_at_a_medium_rate_is_polled_most_and_each_is_polled(tmp_path):
    def changing(every):
        return lambda now: f"{int((now - START) / every)}".encode()

    content = {f"python:never/{i}": b"x" for i in range(20)}
    content |= {f"python:daily/{i}": changing(DAY * (0.9 + 0.01 * i)) for i in range(20)}
    content |= {f"python:always/{i}": changing(10.0) for i in range(20)}
    mirror, world = make(tmp_path, budget=60 / DAY, content=content, tick=DAY / 10)
    with mirror:
        add(mirror, *(key.removeprefix("python:") for key in content))
        run(mirror, 24 * DAY)
        late = [key for time, key in world.polls if time > START + 12 * DAY]
        share = {kind: sum(kind in key for key in late) for kind in ("never", "daily", "always")}
        assert share["daily"] > 2 * share["never"]
        assert share["daily"] > 1.2 * share["always"]
        assert min(share.values()) > 0
        assert len({key for _, key in world.polls}) == 60


def test_a_rule_and_what_is_said_of_an_element_both_count(tmp_path):
    rules = (Rule("python:a/*", weight=5.0, max_age=3600.0), Rule("python:a/2", min_interval=60.0))
    mirror, world = make(tmp_path, rules=rules, budget=100 / DAY)
    with mirror:
        add(mirror, "a/1", "a/2", "b/1", *(f"c/{i}" for i in range(50)))
        one = mirror.add("python:a/1", weight=7.0)
        assert (one.weight, one.max_age) == (7.0, 3600.0)
        assert mirror.find("python:a/2").min_interval == 60.0
        assert mirror.find("python:b/1").weight == 1.0
        run(mirror, DAY)
        gaps = np.diff(world.times("python:a/1"))
        assert gaps.max() < 3600 + 120 + 2 * DAY / 100


def test_min_interval_holds(tmp_path):
    mirror, world = make(tmp_path, budget=1000 / DAY)
    with mirror:
        add(mirror, "a", min_interval=7200.0)
        run(mirror, DAY)
    assert np.diff(world.times("python:a")).min() >= 7200.0 - 1
    assert len(world.times("python:a")) >= 11


def test_windows_hold(tmp_path):
    mirror, world = make(tmp_path, budget=1000 / DAY)
    with mirror:
        add(mirror, "a", windows="all 02:00-04:00 UTC")
        run(mirror, 2 * DAY)
    hours = np.array([time % DAY / 3600 for time, _ in world.polls])
    assert hours.size > 10
    assert ((hours >= 2) & (hours < 4.02)).all()


def test_a_failing_element_backs_off_and_nothing_learned_is_lost(tmp_path):
    state = {"ok": True}
    content = {"python:a": lambda now: str(int(now // 7200)).encode() if state["ok"] else OSError("down")}
    mirror, world = make(tmp_path, budget=200 / DAY, content=content, tick=1800.0)
    with mirror:
        add(mirror, "a", *(f"b/{i}" for i in range(10)))
        run(mirror, 3 * DAY)
        before = mirror.explain("python:a")
        state["ok"] = False
        start = mirror.clock.now()
        run(mirror, DAY)
        tried = [time for time in world.times("python:a") if time > start]
        assert 4 <= len(tried) <= 12
        assert np.diff(tried).max() > 5 * np.diff(tried).min()
        failing = mirror.find("python:a")
        assert failing.state == "failing"
        assert "OSError: down" in failing.detail
        assert mirror.read("python:a").body  # the last copy stays
        others = [time for time, key in world.polls if time > start and key != "python:a"]
        assert len(others) > 150
        state["ok"] = True
        run(mirror, 2 * DAY)
        after = mirror.explain("python:a")
        assert mirror.find("python:a").state == "ok"
        assert after.rate == pytest.approx(before.rate, rel=1.0)


def test_what_is_gone_keeps_its_copy_and_is_looked_for_less_and_less(tmp_path):
    state = {"there": True}
    content = {"python:a": lambda _: b"here" if state["there"] else Found("gone", "404 Not Found")}
    mirror, world = make(tmp_path, budget=12 / DAY, content=content, tick=4 * 3600.0)
    with mirror:
        add(mirror, "a")
        run(mirror, 3600)
        state["there"] = False
        run(mirror, 10 * DAY)
        assert mirror.find("python:a").state == "gone"
        assert mirror.read("python:a").body == b"here"
        assert np.diff(world.times("python:a"))[-1] > DAY
        state["there"] = True
        mirror.hint(["python:a"])
        run(mirror, DAY)
        assert mirror.find("python:a").state == "ok"


def test_one_group_that_must_wait_does_not_hold_up_the_others(tmp_path):
    content = {"python:busy/0": Found("failed", "429 Too Many Requests", wait=3 * 3600.0)}
    mirror, world = make(tmp_path, budget=1000 / DAY, content=content)
    with mirror:
        add(mirror, *(f"busy/{i}" for i in range(20)), *(f"calm/{i}" for i in range(20)))
        run(mirror, 3600)
        hit = world.times("python:busy/0")[0]
        busy = [time for time, key in world.polls if "busy" in key and time > hit + 61]
        calm = [time for time, key in world.polls if "calm" in key and time > hit]
        assert not busy
        assert len(calm) > 25
        told = {group.name: group for group in mirror.status().groups}
        assert told["group:busy"].blocked_until == pytest.approx(hit + 3 * 3600, abs=1)
        assert "429" in told["group:busy"].why
        run(mirror, 4 * 3600)
        assert any("busy" in key and time > hit + 3 * 3600 for time, key in world.polls)


def test_spacing_and_concurrency_of_groups_hold(tmp_path):
    limits = (GroupLimit("group:slow", spacing=30.0), GroupLimit("group:one", concurrency=1))
    mirror, world = make(tmp_path, budget=1.0, groups=limits, tick=5.0)
    world.takes = 20.0
    with mirror:
        add(
            mirror,
            *(f"slow/{i}" for i in range(50)),
            *(f"one/{i}" for i in range(50)),
            *(f"z/{i}" for i in range(9)),
        )
        run(mirror, 1800)
    slow = np.sort([time for time, key in world.polls if "slow" in key])
    one = np.sort([time for time, key in world.polls if "one" in key])
    assert np.diff(slow).min() >= 30.0
    assert slow.size > 40
    assert np.diff(one).min() >= 20.0
    assert one.size > 40


def test_hints_are_followed_if_they_prove_right_and_not_if_they_do_not(tmp_path):
    changes = {f"python:{kind}/{i}": 0 for kind in ("good", "bad") for i in range(30)}
    content = {key: (lambda _, key=key: str(changes[key]).encode()) for key in changes}
    mirror, world = make(tmp_path, budget=60 / DAY, content=content, tick=DAY / 25)
    rng = np.random.default_rng(1)
    waits = {"good": [], "bad": []}
    with mirror:
        add(mirror, *(key.removeprefix("python:") for key in changes))
        for day in range(15):
            told = {kind: f"python:{kind}/{rng.integers(30)}" for kind in ("good", "bad")}
            for key in changes:
                if key == told["good"] or ("bad" in key and rng.random() < 1 / 30):
                    changes[key] += 1
            now = mirror.clock.now()
            for kind, key in told.items():
                mirror.hint([key], channel=kind)
            run(mirror, DAY)
            if day >= 7:
                for kind, key in told.items():
                    after = [time for time in world.times(key) if time > now]
                    waits[kind].append((min(after) if after else now + DAY) - now)
        assert np.median(waits["good"]) < 0.1 * DAY
        assert np.median(waits["bad"]) > 2 * np.median(waits["good"])


def test_reads_make_elements_matter(tmp_path):
    content = {
        f"python:{i}": (lambda now, i=i: str(int((now + 977 * i) // 20000)).encode()) for i in range(40)
    }
    mirror, world = make(tmp_path, budget=40 / DAY, content=content, importance="reads", tick=DAY / 5)
    with mirror:
        add(mirror, *(key.removeprefix("python:") for key in content))
        run(mirror, 3 * DAY)
        for _ in range(30):
            mirror.read("python:7")
        run(mirror, 20 * DAY)
        polls = {key: len(world.times(key)) for key in content}
        assert polls["python:7"] > 3 * np.median(list(polls.values()))


def test_elements_that_come_and_go_while_it_runs(tmp_path):
    mirror, world = make(tmp_path, budget=1000 / DAY)
    with mirror:
        add(mirror, *(f"a/{i}" for i in range(20)))
        run(mirror, 3600)
        mirror.remove(["python:a/3"])
        add(mirror, "late/1")
        run(mirror, 3600)
        gone = mirror.clock.now() - 3600
        assert not [time for time in world.times("python:a/3") if time > gone]
        assert len(world.times("python:late/1")) >= 1
        assert world.times("python:late/1")[0] < gone + 600
        with pytest.raises(InvalidInput, match=r"did you mean python:late/1\?"):
            mirror.find("python:lat/1")


def test_many_new_elements_get_half_of_the_budget_and_no_more(tmp_path):
    mirror, world = make(tmp_path, budget=1000 / DAY, tick=1800.0)
    with mirror:
        add(mirror, *(f"old/{i}" for i in range(50)))
        run(mirror, DAY)
        start = mirror.clock.now()
        add(mirror, *(f"new/{i}" for i in range(2000)))
        run(mirror, DAY)
        since = [key for time, key in world.polls if time >= start]
        first = len({key for key in since if "new" in key})
        assert 0.4 < first / len(since) < 0.6


def test_it_goes_on_where_it_was_after_a_restart(tmp_path):
    content = {
        f"python:{i}": (lambda now, i=i: str(int((now + 9 * i) // (7000 * (i + 1)))).encode())
        for i in range(30)
    }
    mirror, world = make(tmp_path, budget=60 / DAY, content=content, tick=DAY / 20)
    with mirror:
        add(mirror, *(str(i) for i in range(30)))
        run(mirror, 7 * DAY)
        known = [mirror.explain(f"python:{i}").rate for i in range(30)]
        clock = mirror.clock
    polled = [time for time, _ in world.polls]
    again, world = make(tmp_path, budget=60 / DAY, content=content, tick=DAY / 20, clock=clock)
    with again:
        assert [again.explain(f"python:{i}").rate for i in range(30)] == pytest.approx(known)
        clock_now = clock.now()
        run(again, DAY)
        late = [time for time, _ in world.polls]
        assert len(late) <= 60
        assert late[0] >= polled[-1] + DAY / 60 * 0.99
        assert clock_now >= polled[-1]


def test_there_is_no_burst_after_downtime_and_the_backlog_is_worked_off_by_worth(tmp_path):
    content = {
        f"python:{i}": (lambda now, i=i: str(int((now + 99 * i) // 40000)).encode()) for i in range(40)
    }
    mirror, world = make(tmp_path, budget=40 / DAY, content=content, tick=DAY / 10)
    with mirror:
        for i in range(40):
            add(mirror, str(i), weight=10.0 if i < 5 else 1.0)
        run(mirror, 10 * DAY)

        async def sleep():
            await mirror.clock.until(mirror.clock.now() + 10 * DAY)

        import asyncio

        asyncio.run(sleep())
        start = mirror.clock.now()
        run(mirror, DAY)
        since = [(time, key) for time, key in world.polls if time >= start]
        assert len(since) <= 40
        first = {int(key.split(":")[1]) for _, key in since[:8]}
        assert len(first & set(range(5))) >= 4


def test_what_a_source_raises_is_a_failure_of_that_element_alone(tmp_path):
    content = {"python:bad": RuntimeError("boom"), "python:good": b"fine"}
    mirror, _ = make(tmp_path, content=content)
    with mirror:
        add(mirror, "bad", "good")
        run(mirror, 3600)
        assert mirror.find("python:bad").detail == "the source 'python' failed: RuntimeError: boom"
        assert mirror.read("python:good").body == b"fine"
        neglected = {one.key: one.why for one in mirror.status().neglected}
        assert "boom" in neglected["python:bad"]


def test_content_that_only_looks_new_is_no_change(tmp_path):
    content = {"python:a": lambda now: Found("changed", body=str(now).encode(), fingerprint="same")}
    mirror, _ = make(tmp_path, content=content)
    with mirror:
        add(mirror, "a")
        run(mirror, 3600)
        assert [poll.outcome for poll in mirror.polls("python:a")][-1] == "new"
        assert {poll.outcome for poll in mirror.polls("python:a")[:-1]} == {"unchanged"}
        assert len(mirror.changes()) == 1
        assert not list(mirror.copies.scratch.iterdir())


def test_a_change_without_content_is_a_failure(tmp_path):
    mirror, _ = make(tmp_path, content={"python:a": Found("changed")})
    with mirror:
        add(mirror, "a")
        run(mirror, 600)
        assert "without content" in mirror.find("python:a").detail


def test_an_outcome_that_is_none_is_a_failure(tmp_path):
    mirror, _ = make(tmp_path, content={"python:a": Found("ok", body=b"x")})
    with mirror:
        add(mirror, "a")
        run(mirror, 60.0)
        assert mirror.find("python:a").detail == "the source 'python' said 'ok', which is no outcome"


def test_elements_that_are_added_or_removed_while_all_are_read(tmp_path, monkeypatch):
    mirror, _ = make(tmp_path)
    with mirror:
        add(mirror, *(str(i) for i in range(30)))
        run(mirror, 3600.0)
        for there in (10, 50):  # of 30, when they were counted
            fresh = mirror.status().freshness.value
            monkeypatch.setattr(SqlTransaction, "count", lambda _, n=there: {"ok": n})
            assert mirror.status().freshness.value == fresh
            assert mirror.what_if().optimal.size == 41
            monkeypatch.undo()
            run(mirror, 3600.0)


def test_discovered_elements_are_added_and_those_no_longer_named_looked_at(tmp_path):
    state = {"names": ["1", "2", "3", "4"]}
    content = {
        "python:list": lambda _: Found(
            "changed", body=repr(state["names"]).encode(), complete=True,
            discovered=tuple(New(f"python:item/{name}", "python") for name in state["names"]),
        )
    }  # fmt: skip
    mirror, world = make(tmp_path, budget=100 / DAY, content=content, tick=1800.0)
    with mirror:
        add(mirror, "list")
        run(mirror, DAY)
        assert {element.key for element in mirror.elements("python:item/*")} == {
            f"python:item/{i}" for i in "1234"
        }
        assert mirror.find("python:item/1").via == mirror.find("python:list").id
        state["names"] = ["1", "2", "3"]
        world.content["python:item/4"] = Found("gone", "404")
        run(mirror, DAY)
        assert mirror.find("python:item/4").state == "gone"


def test_another_budget_counts_at_once(tmp_path):
    mirror, world = make(tmp_path, budget=100 / DAY, tick=1800.0)
    with mirror:
        add(mirror, *(str(i) for i in range(30)))
        run(mirror, DAY)
        mirror.set_budget(1000 / DAY)
        run(mirror, DAY)
        assert sum(time > START + DAY for time, _ in world.polls) > 900


def test_a_budget_of_bytes_holds(tmp_path):
    content = {
        f"python:{i}": (lambda now, i=i: bytes([int(now) % 251]) * (1000 * (1 + i % 9))) for i in range(60)
    }
    mirror, _ = make(tmp_path, budget=None, byte_budget=2e6 / DAY, content=content, tick=1800.0)
    with mirror:
        add(mirror, *(str(i) for i in range(60)))
        run(mirror, 2 * DAY)
        polls = mirror.polls(limit=100_000)
        moved = sum(poll.traffic for poll in polls if poll.time > START + DAY)
        assert 0.9 * 2e6 < moved <= 2.02e6
        assert mirror.status().byte_budget == pytest.approx(2e6 / DAY)


def test_an_audit_agrees_with_what_was_expected(tmp_path):
    rng = np.random.default_rng(3)
    starts = rng.uniform(0, 1e5, 250)
    every = rng.lognormal(np.log(DAY), 1.0, 250)
    content = {
        f"python:{i}": (lambda now, i=i: str(int((now + starts[i]) // every[i])).encode()) for i in range(250)
    }
    mirror, _ = make(tmp_path, budget=250 / DAY, content=content, tick=DAY / 10)
    with mirror:
        add(mirror, *(str(i) for i in range(250)))
        run(mirror, 8 * DAY)
        audit = mirror.audit(200, seed=2)
        assert audit.sample == 200
        assert abs(audit.predicted - audit.true) < 0.12
        assert mirror.status().audit == audit


@pytest.mark.parametrize(
    "bad", [{"weight": -1.0}, {"max_age": 0.0}, {"jitter": 2.0}, {"windows": "whenever"}]
)
def test_nonsense_about_an_element_is_refused(tmp_path, bad):
    mirror, _ = make(tmp_path)
    with mirror, pytest.raises(InvalidInput, match=next(iter(bad))):
        add(mirror, "a", **bad)


def test_a_budget_must_be_more_than_nothing(tmp_path):
    with pytest.raises(InvalidInput, match="budget must be more than 0"):
        make(tmp_path, budget=0.0)


@pytest.mark.long
def test_jitter_makes_intervals_differ(tmp_path):
    gaps = {}
    for jitter in (0.0, 0.5):
        folder = tmp_path / str(jitter)
        folder.mkdir()
        mirror, world = make(folder, budget=200 / DAY, tick=1200.0)
        with mirror:
            add(mirror, *(str(i) for i in range(20)), jitter=jitter)
            run(mirror, 4 * DAY)
            late = [
                np.diff([t for t in world.times(f"python:{i}") if t > START + 2 * DAY]) for i in range(20)
            ]
            gaps[jitter] = float(np.mean([each.std() / each.mean() for each in late]))
    assert gaps[0.5] > 2 * gaps[0.0]


def test_hints_from_a_file_are_read_once_and_whole_lines_only(tmp_path):
    path = tmp_path / "hints.txt"
    mirror, world = make(tmp_path, budget=48 / DAY, hint_file=str(path), tick=600.0)
    with mirror:
        add(mirror, *(str(i) for i in range(40)))
        run(mirror, DAY)
        path.write_text(
            '# who may have changed\npython:7\n{"key": "python:9"}\nno such key\n{"key": 3}\npython:1'
        )
        start = mirror.clock.now()
        run(mirror, DAY / 3)
        first = [key for time, key in world.polls if time > start][:4]
        assert {"python:7", "python:9"} <= set(first)
        assert mirror.explain("python:1").hints == 0
        with path.open("a") as file:
            file.write("1\n")
        start = mirror.clock.now()
        run(mirror, DAY / 3)
        assert "python:11" in [key for time, key in world.polls if time > start][:4]


def test_copies_that_are_lost_are_fetched_again_though_the_source_says_unchanged(tmp_path):
    mirror, world = make(tmp_path, budget=200 / DAY, content={"python:a": b"hello"})

    async def poll(known, _):
        return (
            Found("unchanged", "304")
            if known.validators
            else Found("changed", body=b"hello", validators={"etag": 1})
        )

    world.poll = poll
    with mirror:
        add(mirror, "a")
        run(mirror, 3600)
        digest = mirror.read("python:a").version.digest
        mirror.copies.delete([digest])
        events = events_of(mirror, 3600)
        assert mirror.read("python:a").body == b"hello"
        assert any("1 copy is missing" in event.detail for event in events)
        assert mirror.store.check() == []


@pytest.mark.parametrize(("tidy_every", "least", "most"), [(60.0, 1, 2), (DAY, 20, 24)])
def test_old_versions_are_kept_until_the_store_is_tidied(tmp_path, tidy_every, least, most):
    content = {"python:a": lambda now: str(now).encode()}
    mirror, _ = make(tmp_path, budget=48 / DAY, content=content, tidy_every=tidy_every, keep=1)
    with mirror:
        add(mirror, "a")
        run(mirror, DAY / 2)
        assert least <= len(mirror.changes()) <= most


def test_where_a_group_cannot_keep_up_with_max_age_all_its_elements_get_their_turn(tmp_path):
    limits = (GroupLimit("*", spacing=500.0),)
    mirror, world = make(tmp_path, budget=1.0, groups=limits, tick=100.0)
    with mirror:
        add(mirror, *(f"a/{i}" for i in range(6)), max_age=1500.0)
        run(mirror, DAY / 2)
    polls = [len(world.times(f"python:a/{i}")) for i in range(6)]
    assert min(polls) > 0.7 * max(polls)


def test_the_next_runner_does_not_share_with_one_who_was_killed(tmp_path):
    mirror, world = make(tmp_path, budget=1000 / DAY)
    with mirror:
        add(mirror, *(str(i) for i in range(20)))
        with mirror.store.begin() as t:
            t.alive("who was killed", START, START + 1e6)
        run(mirror, DAY / 10)
    assert len(world.polls) >= 95
    assert world.polls[0][0] < START + 1.0


def test_a_budget_that_is_raised_counts_at_the_next_tick(tmp_path):
    """Ticks become shorter then, and nothing is waited for that was meant for the longer ones."""
    mirror, world = make(tmp_path, tick=None, budget=0.1)
    with mirror:
        add(mirror, *(f"a/{i}" for i in range(40)))

        async def raise_budget():
            await mirror.clock.until(START + 101.3)
            mirror.set_budget(budget=50.0)

        async def both():
            task = asyncio.create_task(raise_budget())
            await mirror.arun(START + 115.0)
            await task

        asyncio.run(both())
    after = np.array([time - START for time, _ in world.polls if time > START + 101.3])
    assert after[0] < 107.0  # a tick was five seconds
    assert np.diff(after).max() < 1.0
