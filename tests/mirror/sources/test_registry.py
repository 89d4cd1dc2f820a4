"""Sources are found by name, and by what a key looks like; a broken one harms nobody else."""

import asyncio
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from unstale import InvalidInput
from unstale.mirror.settings import Settings
from unstale.mirror.source import Known, Terms
from unstale.mirror.sources import registry
from unstale.mirror.sources.registry import load_sources, source_for, source_named

TERMS = Terms(Path(), max_size=1000, timeout=1.0)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Install packages that register sources."""
    monkeypatch.syspath_prepend(str(tmp_path))
    made = []

    def install(name, sources, code=""):
        folder = tmp_path / f"{name.replace('-', '_')}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = "\n".join(f"{key} = {value}" for key, value in sources.items())
        (folder / "entry_points.txt").write_text(f"[unstale.sources]\n{lines}\n")
        module = next(iter(sources.values())).partition(":")[0]
        if code:
            (tmp_path / f"{module}.py").write_text(code)
            made.append(module)
        registry._names.cache_clear()

    yield install
    registry._names.cache_clear()
    for module in made:
        sys.modules.pop(module, None)


GOOD = """
class Source:
    def __init__(self, settings): self.settings = settings
    def key(self, text, options): return text
    def group(self, key, options): return "pigeons"
    async def poll(self, known, terms): raise NotImplementedError
    async def close(self): pass
"""


def test_all_that_come_with_unstale_are_registered_and_load():
    sources = load_sources(Settings())
    assert set(sources) >= {"feed", "file", "http", "python", "sitemap", "sql"}
    assert len(sources) == len(set(sources))
    for name in sources:
        assert not isinstance(sources[name], registry.BrokenSource), sources[name].why
        assert sources[name] is sources[name]
    asyncio.run(sources.close())
    asyncio.run(sources.close())


def test_a_third_party_registers_its_own(package):
    package("unstale-pigeon", {"pigeon": "pigeon_source:Source"}, GOOD)
    settings = Settings(lease=7.0)
    source = load_sources(settings)["pigeon"]
    assert source.group("x", {}) == "pigeons"
    assert source.settings is settings
    assert source_for("pigeon:coop 3") == ("pigeon", "pigeon:coop 3")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import nothing_of_that_name", "No module named 'nothing_of_that_name'"),
        ("def Source(settings): raise RuntimeError('no coop')", "RuntimeError: no coop"),
        ("def Source(settings): return object()", "has no key and no group and no poll and no close"),
        ("Sauce = 1", "AttributeError"),
        ("Source = 1", "TypeError"),
    ],
)
def test_a_broken_one_breaks_its_own_elements_only(package, code, words):
    package("unstale-broken", {"broken": "broken_source:Source"}, code)
    sources = load_sources(Settings())
    with pytest.raises(InvalidInput, match="'unstale-broken'") as error:
        sources["broken"].key("x", {})
    assert words in str(error.value)
    found = asyncio.run(sources["broken"].poll(Known("x"), TERMS))
    assert found.outcome == "failed"
    assert words in found.detail
    assert "'unstale-broken'" in found.detail
    assert sources["broken"].group("x", {})
    assert sources["python"].key("x", {}) == "python:x"
    asyncio.run(sources.close())


def test_nobody_replaces_our_sources(package):
    package("unstale-impostor", {"http": "impostor:Source"}, GOOD)
    assert load_sources(Settings())["http"].group("http://example.org/", {}) == "http:example.org"


def test_two_packages_that_quarrel_are_both_named(package):
    package("unstale-a", {"pigeon": "pigeon_a:Source"}, GOOD)
    package("unstale-b", {"pigeon": "pigeon_b:Source"}, GOOD)
    with pytest.raises(InvalidInput, match="unstale-a and unstale-b"):
        load_sources(Settings())["pigeon"].key("x", {})


def test_sources_are_loaded_when_asked_for(package):
    package("unstale-lazy", {"lazy": "lazy_source:Source"}, GOOD)
    sources = load_sources(Settings())
    assert "lazy" in sources
    assert list(sources)
    assert "lazy_source" not in sys.modules
    assert sources["lazy"]
    assert "lazy_source" in sys.modules


def test_an_element_of_a_source_that_is_no_more_says_so():
    sources = load_sources(Settings())
    found = asyncio.run(source_named(sources, "pigeon").poll(Known("x"), TERMS))
    assert found.outcome == "failed"
    assert "there is no source 'pigeon'" in found.detail
    assert source_named(sources, "python") is sources["python"]
    with pytest.raises(KeyError):
        sources["pigeon"]


@pytest.mark.parametrize(
    ("text", "source", "rest"),
    [
        ("https://example.org/a", "http", None),
        ("HTTP://EXAMPLE.ORG", "http", None),
        ("  https://example.org/a\n", "http", "https://example.org/a"),
        ("feed:https://example.org/rss", "feed", "https://example.org/rss"),
        ("feed://example.org/rss", "feed", "//example.org/rss"),
        ("sitemap:/srv/sitemap.xml", "sitemap", "/srv/sitemap.xml"),
        ("python:rates", "python", None),
        ("warehouse#orders", "sql", None),
        ("sql:warehouse#orders", "sql", "warehouse#orders"),
        ("sqlite:///shop.db#orders", "sql", None),
        ("postgresql+psycopg://user@host/db#orders", "sql", None),
        ("mysql://host/db#a", "sql", None),
        ("/srv/data.csv", "file", None),
        ("./a#b", "file", None),
        ("../x", "file", None),
        ("~/x", "file", None),
        (".", "file", None),
        ("file:///srv/data.csv", "file", None),
        ("s3://bucket/key", "file", None),
        ("gs://bucket/key", "file", None),
        ("memory://x", "file", None),
        ("zip://a.csv::/srv/x.zip", "file", None),
    ],
)
def test_keys_suggest_their_source(text, source, rest):
    assert source_for(text, {}) == (source, text if rest is None else rest)


def test_a_file_that_is_there_needs_no_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").touch()
    (tmp_path / "odd:name").touch()
    assert source_for("data.csv") == ("file", "data.csv")
    assert source_for("odd:name") == ("file", "odd:name")
    assert source_for("data", {"tree": True}) == ("file", "data")


@pytest.mark.parametrize("text", ["~nobody-of-this-name#t", "~nobody-of-this-name/a.db#t"])
def test_the_home_of_nobody_is_a_file_that_is_not_there(text):
    """A line of a stranger's list ended the whole import with an error of the standard library."""
    assert source_for(text) == ("file", text)
    with pytest.raises(InvalidInput, match="there is no such user"):
        load_sources(Settings())["file"].key(text, {})


def test_a_pipe_is_not_waited_for(tmp_path):
    """A stranger's list that named one (``/a/pipe#t``) was never done."""
    os.mkfifo(tmp_path / "pipe")
    assert source_for(f"{tmp_path}/pipe#t") == ("file", f"{tmp_path}/pipe#t")


def test_a_table_may_be_named_by_the_file_of_its_database(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect("shop.db")) as shop:
        shop.execute("CREATE TABLE orders (id INTEGER)")
    (tmp_path / "text.db").write_text("no database")
    (tmp_path / "shop.db#kept").touch()
    key = f"sqlite:///{tmp_path}/shop.db#orders"
    for text in ("shop.db#orders", "./shop.db#orders", f"{tmp_path}/shop.db#orders"):
        assert source_for(text) == ("sql", key)
    assert source_for("./shop.db#kept") == ("file", "./shop.db#kept")
    assert source_for("./text.db#orders") == ("file", "./text.db#orders")
    assert source_for("shop#orders") == ("sql", "shop#orders")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("example.org", "write https://example.org for a page, ./example.org for a file"),
        ("localhost:8000/a", "lacks its beginning; write http://localhost:8000/a for a page"),
        ("example.org:8443", "lacks its beginning; write https://example.org:8443 for a page"),
        ("127.0.0.1:8000/a", "write http://127.0.0.1:8000/a for a page"),
        ("gopher://example.org", "begins with gopher:, which no source knows; known are http: and https:"),
        ("gopher://example.org", "there are browser, feed, file, http, python, sitemap, sql"),
        ("x" * 5000, "neither an address nor a file"),
        ("a\0b", "neither an address nor a file"),
    ],
)
def test_what_suggests_nothing_is_refused_with_advice(text, words):
    with pytest.raises(InvalidInput, match=words.replace("(", r"\(")):
        source_for(text)


def test_the_advice_names_the_sources_of_others(package):
    package("unstale-pigeon", {"pigeon": "pigeon_source:Source"}, GOOD)
    with pytest.raises(InvalidInput, match="pigeon:, python:"):
        source_for("gopher://example.org")
