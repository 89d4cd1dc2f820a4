"""What lists name: a list that names without end takes neither the budget nor the place of others."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest

from unstale.mirror.engine import discovery, worker
from unstale.mirror.engine.discovery import Discovery
from unstale.mirror.engine.discovery_limits import DiscoveryRoom
from unstale.mirror.mirror import Mirror
from unstale.mirror.settings import DiscoveryLimits, GroupLimit, Settings
from unstale.mirror.source import Found, New

from .worlds import DAY, START, add, make, run

GOOD = [f"good{i}/page" for i in range(6)]
SPACED = (GroupLimit("*", spacing=1.0, concurrency=2),)


def naming(name, links, hosts=30, *, endless):
    """Return what a feed brings: so many links, others at each poll or always the same."""
    polls = [0]

    def poll(_):
        start = polls[0] * links if endless else 0
        polls[0] += 1
        names = (f"python:{name}{i % hosts}/{i}" for i in range(start, start + links))
        return Found("changed", "200 OK", body=f"{polls[0]}".encode(), traffic=500,
                     discovered=tuple(New(key, "python") for key in names))  # fmt: skip

    return poll


def shares(world, since=0.0):
    """Return which part of the polls each kind of host had."""
    kinds = Counter(
        key.split(":")[1].split("/")[0].rstrip("0123456789")
        for time, key in world.polls
        if time >= START + since
    )
    return {kind: count / kinds.total() for kind, count in kinds.items()}


def played(folder, feed, seconds=60.0, **more):
    content = {f"python:{key}": (lambda now: str(now // 60).encode()) for key in GOOD}
    content |= {"python:feed/0": feed, **more}
    folder.mkdir(exist_ok=True)
    mirror, world = make(folder, content=content, budget=10.0, tick=None, groups=SPACED)
    with mirror:
        add(mirror, *(key.removeprefix("python:") for key in content))
        run(mirror, seconds)
    return world


def test_a_feed_that_names_others_at_each_poll_leaves_good_pages_their_share(tmp_path):
    """Before lists took turns, good pages had 4 % here: 24 polls of 596."""
    calm = played(tmp_path / "calm", naming("link", 10, endless=False))
    attacked = played(tmp_path / "attacked", naming("link", 1000, endless=True))
    assert shares(attacked)["good"] >= 0.9 * shares(calm)["good"]
    assert shares(attacked, since=30.0)["good"] >= 0.45
    assert shares(attacked)["link"] >= 0.4  # half of the budget is for what is new


@pytest.mark.parametrize("reserve", [0.0, pytest.param(30.0, marks=pytest.mark.long)])
def test_what_is_new_has_the_share_that_is_said(tmp_path, reserve):
    """While others are worth their polls: here they change every five seconds, and no limit holds them up."""
    good = {f"python:good{i}/page": lambda now: str(now // 5).encode() for i in range(40)}
    content = good | {"python:feed/0": naming("link", 1000, endless=True)}
    mirror, world = make(
        tmp_path, content=content, budget=10.0, tick=None, reserve=reserve, groups=SPACED,
        discovery=DiscoveryLimits(poll_share=0.2),
    )  # fmt: skip
    with mirror:
        add(mirror, *(key.removeprefix("python:") for key in content))
        run(mirror, 50.0)
    # What came first, before others were due, counts as theirs for a while.
    assert shares(world, since=20.0)["link"] == pytest.approx(0.2, abs=0.02)


def test_one_list_does_not_take_the_turns_of_another(tmp_path):
    world = played(
        tmp_path,
        naming("link", 1000, endless=True),
        **{"python:other/0": naming("paper", 60, endless=False)},
    )
    first = {key for time, key in world.polls if key.startswith("python:paper") and time < START + 40.0}
    assert len(first) >= 50


def test_what_a_list_named_is_worth_as_much_as_anything_once_it_has_been_seen(tmp_path):
    world = played(tmp_path, naming("link", 100, endless=False), seconds=60.0)
    late = shares(world, since=45.0)
    assert late["link"] > 0.6
    assert sum(key.startswith("python:link") for _, key in world.polls) > 200


def test_a_list_alone_stands_back_behind_nobody(tmp_path):
    mirror, world = make(
        tmp_path,
        content={"python:feed/0": naming("link", 400, hosts=400, endless=False)},
        budget=10.0,
        tick=None,
    )
    with mirror:
        add(mirror, "feed/0")
        run(mirror, 30.0)
    assert len(world.times("python:feed/0")) < 0.2 * len(world.polls)
    assert sum(1 for _ in world.polls) == pytest.approx(300, abs=10)


# --- limits of discovery


def listing(folder, names, *, content=None, days=1.0, **limits):
    """Return a mirror after so many days with a list, which names what ``names`` says."""

    def poll(_):
        told = tuple(New(f"python:{name}", "python") for name in names)
        return Found("changed", "200 OK", body=b"the same", discovered=told)

    mirror, world = make(
        folder,
        content={"python:list/0": poll, **(content or {})},
        budget=400 / DAY,
        discovery=DiscoveryLimits(**limits),
    )
    add(mirror, "list/0")
    run(mirror, days * DAY)
    return mirror, world


@pytest.mark.parametrize(
    ("limits", "there"),
    [({"list": 20}, 20), ({"via": 20}, 20), ({"total": 21}, 20), ({"host": 7}, 14), ({}, 60)],
    ids=str,
)
def test_what_is_beyond_a_limit_is_left_out_and_told(tmp_path, limits, there):
    mirror, _ = listing(tmp_path, [f"{'ab'[i % 2]}/{i}" for i in range(60)], **limits)
    with mirror:
        assert sum(element.via is not None for element in mirror.elements()) == there
        told = mirror.status().trouble
        assert len(told) == bool(limits)
        for name in limits:
            assert f"python:list/0: {60 - there} of what it names are left out" in told[0]
            assert f"set {name} below [discovery] in mirror.toml" in told[0]


def test_what_waits_comes_in_as_others_are_polled(tmp_path):
    mirror, _ = listing(tmp_path, [f"a/{i}" for i in range(60)], days=2.0, waiting=10)
    with mirror:
        assert sum(element.via is not None for element in mirror.elements()) == 60
        assert not mirror.status().trouble


def test_a_list_of_which_nothing_is_ever_seen_loses_what_waits(tmp_path):
    names = [f"a/{i}" for i in range(1000)]
    gone = {f"python:{name}": Found("gone", "404 Not Found") for name in names}
    mirror, _ = listing(tmp_path, names, content=gone, days=2.0)
    with mirror:
        counts = mirror.status().elements
        assert counts.get("new", 0) <= 100
        assert "none of its elements has a copy" in mirror.status().trouble[0]


def test_what_users_add_is_not_limited(tmp_path):
    mirror, _ = make(tmp_path, discovery=DiscoveryLimits(list=1, host=1, via=1, total=1, waiting=1))
    with mirror:
        add(mirror, *(f"a/{i}" for i in range(30)))
        assert len(list(mirror.elements())) == 30


def test_limits_of_lists_that_lists_name_are_shared(tmp_path):
    def index(_):
        return Found(
            "changed",
            "200 OK",
            body=b"x",
            discovered=tuple(New(f"python:part/{i}", "python") for i in range(4)),
        )

    def part(i):
        return lambda _: Found(
            "changed",
            "200 OK",
            body=b"x",
            discovered=tuple(New(f"python:page/{i}-{k}", "python") for k in range(30)),
        )

    content = {"python:list/0": index, **{f"python:part/{i}": part(i) for i in range(4)}}
    mirror, _ = make(tmp_path, content=content, budget=400 / DAY, discovery=DiscoveryLimits(via=50))
    with mirror:
        add(mirror, "list/0")
        run(mirror, DAY)
        assert sum(element.via is not None for element in mirror.elements()) == 50


@pytest.fixture
def taken(monkeypatch):
    """How many elements were named in each transaction, if it takes no other list from 16 on."""
    counts = []
    real = Discovery.record

    def record(self, t, finished, now, **how):
        counts.append(sum(len(one.found.discovered) for one in finished if one.found is not None))
        real(self, t, finished, now, **how)

    monkeypatch.setattr(Discovery, "record", record)
    monkeypatch.setattr(worker, "DISCOVERED_AT_ONCE", 16)
    return counts


def test_many_lists_at_once_come_in_one_after_the_other(tmp_path, taken):
    """Ten lists of 10,000 kept a runner in one transaction for seconds, and from ending."""
    feeds = {f"python:feed{n}/0": naming(f"of{n}-", 8, endless=False) for n in range(5)}
    mirror, _ = make(tmp_path, content=feeds, budget=1e6, tick=None)
    with mirror:
        add(mirror, *(key.removeprefix("python:") for key in feeds))
        mirror.step()
        assert len(list(mirror.elements())) == 5 + 5 * 8
    assert max(taken) == 16


def test_a_worker_that_leaves_takes_short_lists_and_has_the_others_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(discovery, "_DISCOVERED_WHEN_LEAVING", 16)
    feeds = {f"python:feed{n}/0": naming(f"of{n}-", 8, endless=False) for n in range(5)}
    mirror, _ = make(tmp_path, content=feeds, budget=1e6, tick=None)
    with mirror:
        add(mirror, *(key.removeprefix("python:") for key in feeds))
        lists = [element.id for element in mirror.elements()]
        found = naming("x", 8, endless=False)(0)
        again = []
        finished = [
            SimpleNamespace(
                found=replace(found, discovered=tuple(New(f"python:{n}-{i}/x", "python") for i in range(8))),
                outcome="changed",
                lease=SimpleNamespace(
                    slot=SimpleNamespace(element=one), known=SimpleNamespace(key=f"python:{n}")
                ),
            )
            for n, one in enumerate(lists)
        ]
        with mirror.store.begin() as t:
            real = t.read_again
            t.read_again = lambda ids: again.extend(ids) or real(ids)
            mirror._discovery.record(t, finished, START, leaving=True)
        assert again == lists[2:]
        assert len(list(mirror.elements())) == 5 + 2 * 8


def test_what_is_new_gets_no_hints(tmp_path):
    """A list whose entries are all new gave a hint for each, which took as long as adding them."""
    named = [f"python:x/{n}" for n in range(3)]
    found = replace(
        naming("x", 0, endless=False)(0),
        discovered=tuple(New(key, "python") for key in named),
        hints=tuple((key, START) for key in named),
    )
    mirror, _ = make(tmp_path, content={"python:feed/0": b"x"}, budget=10.0, tick=None)
    with mirror:
        add(mirror, "feed/0", "x/0")
        (feed,) = [element.id for element in mirror.elements() if element.key == "python:feed/0"]
        lease = SimpleNamespace(
            slot=SimpleNamespace(element=feed), known=SimpleNamespace(key="python:feed/0")
        )
        edits = []
        with mirror.store.begin() as t:
            real = t.edit
            t.edit = lambda some: edits.extend(some) or real(some)
            mirror._discovery.record(t, [SimpleNamespace(found=found, outcome="changed", lease=lease)], START)
        ids = {element.key: element.id for element in mirror.elements()}
        assert set(named) <= ids.keys()
        assert [edit[1] for edit in edits if edit[0] == "hint"] == [ids["python:x/0"]]


def test_ever_new_shapes_of_addresses_take_bounded_work(tmp_path, monkeypatch):
    """Links with parameters of ever new names had all pages of their host looked at for each of them."""
    looks = []
    with Mirror(tmp_path / "mirror.db", settings=Settings(budget=1.0)) as mirror:
        room = DiscoveryRoom(DiscoveryLimits(pattern=3))
        root = mirror.add("http://a.example/")
        with mirror.store.begin() as t:
            real = t.elements

            def elements(*given, **how):
                looks.extend([1] * ("pattern" in how))
                return real(*given, **how)

            monkeypatch.setattr(t, "elements", elements)

            def admitted(*names):
                wishes = [mirror._discovery.addition(New(f"http://a.example/{name}"), {}) for name in names]
                return len(room.admitted(t, root.id, wishes, START, followed=True)[0])

            assert admitted(*(f"x?s{number}a{'b' * number}=1" for number in range(600))) == 600
            assert 0 < len(looks) <= 101
            assert admitted(*(f"x?zzz={number}" for number in range(10))) == 3
