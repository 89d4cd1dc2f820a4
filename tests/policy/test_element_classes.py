"""Classes without being asked for: what is alike has one prior, and only what is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale import InvalidInput, Learning
from unstale.policy.class_tree import BETWEEN_LEVELS, ClassTree
from unstale.policy.element_classes import FEWEST_ELEMENTS, MOST_CLASSES

ROUNDS = 12


def heard(learning, rates, rounds=ROUNDS, seed=0):
    """Let each element be polled once in each round, which takes a unit of time."""
    rng = np.random.default_rng(seed)
    everyone = np.arange(rates.size)
    for _ in range(rounds):
        changed = rng.random(rates.size) < -np.expm1(-rates)
        learning.learn(everyone, np.ones(rates.size), changed)
    return learning


def names(learning):
    tree = learning.policy.table.tree
    return {tree.name(k) for k, one in enumerate(tree.classes) if one is not None and k}


def folders(count=30):
    """Return paths of two folders of two hosts, and rates that are ten times as high in one."""
    paths = [f"{host}/{folder}" for host in "ab" for folder in ("slow", "fast") for _ in range(count)]
    spread = np.random.default_rng(7).gamma(4.0, 0.25, len(paths))
    return paths, spread * np.where([path.endswith("fast") for path in paths], 1.0, 0.1)


def test_a_new_page_is_like_those_of_its_folder():
    paths, rates = folders()
    learning = heard(Learning(rates.size, rates.size, paths=paths), rates)
    learning.add(3, paths=["a/slow", "a/fast/deeper", "c/unknown"])
    slow, fast, other = learning.learner.law(0.0, rates.size + np.arange(3)).rate
    assert 0.05 < slow < 0.2
    assert 0.6 < fast < 1.6
    without = heard(Learning(rates.size, rates.size), rates)
    without.add(1)
    alone = float(without.learner.law(0.0, np.array([rates.size])).rate[0])
    assert slow < 0.5 * alone < 0.5 * fast * 2.0
    assert 0.05 < other < 1.6


@pytest.mark.parametrize("seed", range(8))
def test_what_is_not_alike_by_folder_has_no_classes(seed):
    paths = [f"{host}/{folder}" for host in "abc" for folder in "xyz" for _ in range(25)]
    rates = np.random.default_rng(seed).gamma(0.7, 0.7, len(paths))
    learning = heard(Learning(rates.size, rates.size, paths=paths), rates, seed=seed)
    assert not names(learning)  # so the polls are those of a learner without paths


def test_what_becomes_alike_goes_back():
    paths, rates = folders()
    learning = heard(Learning(rates.size, rates.size, paths=paths), rates)
    assert names(learning)
    heard(learning, np.full(rates.size, 0.5), rounds=150, seed=1)
    assert not names(learning)


def test_a_few_elements_are_no_class():
    paths, rates = folders(count=FEWEST_ELEMENTS // 2 - 1)
    assert not names(heard(Learning(rates.size, rates.size, paths=paths), rates))


def test_there_are_never_too_many():
    count = MOST_CLASSES + 20
    paths = np.repeat([f"host{k}" for k in range(count)], FEWEST_ELEMENTS).tolist()
    rates = np.repeat(2.0 * np.exp(np.linspace(-4.0, 0.0, count)), FEWEST_ELEMENTS)
    learning = heard(Learning(rates.size, rates.size, paths=paths), rates, rounds=10)
    assert 5 < len(names(learning)) < MOST_CLASSES
    assert learning.learner.class_count <= MOST_CLASSES


def test_it_goes_on_after_a_state():
    paths, rates = folders()
    learning = heard(Learning(rates.size, rates.size, paths=paths), rates)
    again = Learning.resume(learning.state())
    assert names(again) == names(learning)
    heard(learning, rates, seed=3)
    heard(again, rates, seed=3)
    np.testing.assert_array_equal(again.learner.law(0.0).rate, learning.learner.law(0.0).rate)
    polls, same = again.polls(1.0), learning.polls(1.0)
    np.testing.assert_array_equal(polls.elements, same.elements)


def hourly(learning, hours, days, seed=0):
    """Let 25 elements of each of two hosts be polled six times a day; they change once a day, at an hour."""
    rng = np.random.default_rng(seed)
    everyone, last = np.arange(50), np.zeros(50)
    moments = np.concatenate([np.full(25, hour / 24.0) for hour in hours])
    for day in range(days):
        for k in range(6):
            time = day + (k + rng.random(50)) / 6.0
            change = np.floor(time - moments) + moments + 0.05 * rng.random(50)
            changed = (change > last) & (change <= time)
            ages = np.where(changed, time - change, np.nan)
            learning.learn(everyone, time - last, changed, time=time, modified=ages)
            last = time
    return learning


def test_hosts_with_other_hours_are_classes_of_their_own():
    paths = ["a"] * 25 + ["b"] * 25
    learning = hourly(Learning(50, 300.0, paths=paths, day=1.0), (3, 15), 5)
    assert len(names(learning)) == 1
    levels = learning.policy.known.clocks.rhythms.levels
    night, noon = (levels[int(learning.learner.classes_of(np.array([k]))[0])] for k in (0, 49))
    assert night[:24].argmax() in {3, 4}
    assert noon[:24].argmax() in {15, 16}


def test_hosts_with_the_same_hours_are_not():
    learning = hourly(Learning(50, 300.0, paths=["a"] * 25 + ["b"] * 25, day=1.0), (3, 3), 5)
    assert not names(learning)
    assert learning.policy.known.clocks.trials.leads()


def test_trials_go_on_after_a_state():
    learning = hourly(Learning(50, 300.0, paths=["a"] * 25 + ["b"] * 25, day=1.0), (3, 3), 3)
    again = Learning.resume(learning.state())
    assert again.policy.known.clocks.trials.leads() == learning.policy.known.clocks.trials.leads()
    assert len(again.policy.known.clocks.trials.leads()) == 2


def test_paths_are_checked():
    with pytest.raises(InvalidInput, match="paths must be one text for each of the 2 elements"):
        Learning(2, 1.0, paths=["a"])
    with pytest.raises(InvalidInput, match="give one of the two"):
        Learning(1, 1.0, paths=["a"], classes=[0])
    with pytest.raises(InvalidInput, match=r"ClassTree\.text"):
        ClassTree.read(b'{"nodes": 3}')


PATHS = st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=4), min_size=1, max_size=12)


@given(PATHS, st.data())
def test_an_element_belongs_to_the_finest_class_on_its_path(paths, data):
    tree = ClassTree()
    nodes = [tree.number(BETWEEN_LEVELS.join(path)) for path in paths]
    for node in data.draw(st.lists(st.sampled_from(nodes), unique=True)):
        tree.split(node)
    for one in data.draw(st.lists(st.sampled_from(range(len(tree.classes))), unique=True)):
        if one:
            tree.merge(one)
    again = ClassTree.read(tree.text(every_node=True))
    own = {one.node: k for k, one in enumerate(tree.classes) if one is not None}
    for path, node in zip(paths, nodes, strict=True):
        above = [tree.number(BETWEEN_LEVELS.join(path[:k])) if k else 0 for k in range(len(path), -1, -1)]
        assert tree.class_of[node] == next(own[one] for one in above if one in own)
        assert again.class_of[again.number(BETWEEN_LEVELS.join(path))] == tree.class_of[node]
