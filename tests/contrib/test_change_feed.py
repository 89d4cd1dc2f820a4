"""The changes of a mirror that is served, as pipelines read them."""

import pytest
from fetcher.conftest import serving

from unstale import InvalidInput, Mirror, Trouble
from unstale.contrib.change_feed import ChangeFeed
from unstale.dashboard.access_rules import AccessRules
from unstale.mirror.settings import Settings


def test_each_change_is_told_once(tmp_path):
    settings = Settings(budget=1000.0)
    texts = {"a": "1", "b": "1"}
    with Mirror(tmp_path / "mirror.db", settings=settings) as mirror:
        for name in ("a", "b"):
            mirror.add(f"python:{name}", poll=lambda name=name: texts[name])

        def see(count):
            while len(mirror.changes()) < count:
                mirror.step()

        with serving(mirror.store.url, settings, AccessRules()) as address:
            feed, only = ChangeFeed(address), ChangeFeed(address, ["python:b"])
            assert (feed.last(), feed.after(0)) == (0, ([], 0))
            see(2)
            first, last = feed.after(0)
            assert {(one.key, one.first) for one in first} == {("python:a", True), ("python:b", True)}
            assert last == feed.last() == 2
            texts["a"] = "2"
            see(3)
            changes, next_one = feed.after(last)
            assert [(one.key, one.first) for one in changes] == [("python:a", False)]
            assert only.after(last) == ([], next_one)
            assert feed.after(next_one) == ([], next_one)
    with pytest.raises(Trouble, match="cannot be asked"):
        feed.last()


def test_what_is_refused_says_why(tmp_path):
    rules = AccessRules("a-token-that-nobody-guesses")
    with serving(tmp_path / "mirror.db", Settings(budget=1.0), rules) as address:
        with pytest.raises(InvalidInput, match="401"):
            ChangeFeed(address).last()
        assert ChangeFeed(address, token=rules.token).last() == 0
    with pytest.raises(InvalidInput, match="server must be an address"):
        ChangeFeed("file:///etc/passwd")
