"""What a worker remembers between two turns, each part by itself."""

from math import inf

import pytest

from unstale.errors import Trouble
from unstale.mirror.engine.worker_state import Backlog, Chore, Chores, TroubleLog


class TestBacklog:
    def test_it_grows_when_it_ran_dry_though_there_was_more(self):
        backlog = Backlog(concurrency=10)
        backlog.more_to_come = True
        assert not backlog.is_low(51)
        assert backlog.is_low(50)
        assert backlog.is_low(9)
        backlog.adapt(given_back=False)
        assert backlog.size == 150
        backlog.adapt(given_back=False)
        assert backlog.size == 150

    def test_it_is_never_low_when_there_is_nothing_more(self):
        backlog = Backlog(concurrency=10)
        assert not backlog.is_low(0)
        backlog.adapt(given_back=False)
        assert backlog.size == 100

    def test_it_shrinks_when_polls_come_late_down_to_what_keeps_all_busy(self):
        backlog = Backlog(concurrency=80)
        backlog.adapt(given_back=False)
        assert backlog.size == 160
        for _ in range(3):
            backlog.adapt(given_back=True)
        assert backlog.size == 160

    def test_it_has_a_largest_size(self):
        backlog = Backlog(concurrency=10)
        backlog.more_to_come = True
        for _ in range(30):
            backlog.is_low(0)
            backlog.adapt(given_back=False)
        assert backlog.size == 5000


class TestChores:
    def test_each_comes_at_its_own_interval(self):
        chores = Chores(Chore("often", 2.0), Chore("seldom", 5.0, first=3.0), now=100.0)
        done = [
            (name, now)
            for now in range(100, 111)
            for name in ("often", "seldom")
            if chores.is_due(name, float(now))
        ]
        assert [now for name, now in done if name == "often"] == [100, 102, 104, 106, 108, 110]
        assert [now for name, now in done if name == "seldom"] == [103, 108]

    @pytest.mark.parametrize("now", [-1e9, 1e9])
    def test_they_begin_anew_when_the_clock_was_set(self, now):
        chores = Chores(Chore("often", 2.0), Chore("seldom", 5.0, first=3.0), now=100.0)
        chores.is_due("often", 100.0)
        chores.restart(now)
        assert chores.is_due("often", now)
        assert not chores.is_due("seldom", now)
        assert chores["seldom"].due == now + 3.0


class TestTroubleLog:
    @pytest.fixture
    def told(self):
        return []

    @pytest.fixture
    def troubles(self, told):
        return TroubleLog(
            lambda kind, words: told.append((kind, words)), {"store": "it works", "copies": "they do"}
        )

    def test_the_same_words_are_told_once_until_it_is_over(self, troubles, told):
        for words in ("full", "full", "read-only", "full"):
            troubles.add("store", Trouble(words), 1.0)
        assert "store" in troubles
        troubles.end("store")
        troubles.end("store")
        assert "store" not in troubles
        troubles.add("store", Trouble("full"), 2.0)
        assert told == [
            ("trouble", "full"), ("trouble", "read-only"), ("recovered", "it works"), ("trouble", "full"),
        ]  # fmt: skip

    def test_pauses_grow_and_begin_anew(self, troubles):
        pauses = []
        for _ in range(9):
            troubles.add("store", Trouble("full"), 1.0)
            troubles.add("copies", Trouble("full"), 1.0)
            pauses.append(troubles.pause)
        assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
        troubles.end("store")
        troubles.add("store", Trouble("full"), 1.0)
        assert troubles.pause == 0.5

    def test_what_had_begun_before_the_latest_trouble_proves_nothing(self, troubles, told):
        troubles.add("copies", Trouble("full"), 10.0)
        troubles.end("copies", 9.0)
        assert "copies" in troubles
        troubles.move(-3600.0)
        troubles.end("copies", -3595.0)
        assert "copies" in troubles
        troubles.end("copies", -3589.0)
        assert told == [("trouble", "full"), ("recovered", "they do")]

    def test_an_error_without_words_is_told_by_its_name(self, troubles, told):
        troubles.add("copies", OSError(), -inf)
        assert told == [("trouble", "OSError()")]
