"""Indexes for retrieval, in the real LangChain and LlamaIndex with stores in memory."""

import json
import subprocess
import time
from pathlib import Path

import pytest
from fetcher.conftest import serving

from unstale import InvalidInput, Mirror
from unstale.contrib.rag import IndexSync
from unstale.contrib.rag.index_sync import text_of
from unstale.dashboard.access_rules import AccessRules
from unstale.mirror.settings import Settings

from .conftest import adapter, until, write_blocks

SETTINGS = Settings(budget=1000.0)
OTHERS = [f"python:z{i}" for i in range(12)]
KINDS = {"langchain": "langchain_core", "llamaindex": "llama_index.core"}
PROGRAMS = {"langchain": "langchain_index.py", "llamaindex": "llama_index_sync.py"}


class Pages:
    """A mirror of texts that the test changes."""

    def __init__(self, mirror):
        self.mirror, self.texts = mirror, {"python:a": "one", "python:b": "two", "python:c": "three"}
        self.texts |= {key: f"text of {key}" for key in OTHERS}
        for key in self.texts:
            mirror.add(key, poll=lambda key=key: self.texts[key])
        self._seen(len(self.texts))

    def _seen(self, count):
        until(lambda: self.mirror.step() and len(self.mirror.changes()) >= count)

    def change(self, key, text):
        count = len(self.mirror.changes())
        self.texts[key] = text
        self.mirror.hint([key])
        self._seen(count + 1)

    def do(self, what):
        """Do what a program asks for."""
        if what == "change a while it is indexed":
            self.change("python:a", "one, but new")
        elif what == "change b":
            self.change("python:b", "two, but new")
        elif what == "remove c":
            self.mirror.remove(["python:c"])
        else:
            self.mirror.remove(OTHERS)


@pytest.fixture
def pages(tmp_path):
    with Mirror(tmp_path / "mirror.db", settings=SETTINGS) as mirror:
        yield Pages(mirror)


@pytest.mark.parametrize("content", [b"", b"<!-- -->", b"\0", b"<p>\xff" + b"<a b=c>" * 5, b"<" * 1000])
def test_a_page_without_text_stops_nothing(content):
    assert len(text_of(content, "text/html")) < 1001


def test_hostile_pages_are_read_within_limits():
    """The time for a tag grew with the square of its attributes, and 20 MB of tags took 1.2 GB."""
    began = time.process_time()
    assert text_of(b"<a " + b" ".join(b"a%d=1" % i for i in range(100_000)) + b">x", "text/html") == ""
    assert len(text_of(b"a<br>" * 1_600_000, "text/html")) < 4_000_000
    assert time.process_time() - began < 5.0  # of this process


@pytest.mark.parametrize("kind", ["langchain", pytest.param("llamaindex", marks=pytest.mark.long)])
def test_an_index_follows_the_mirror_whatever_is_interrupted(tmp_path, pages, kind):
    programs = adapter(kind, KINDS[kind])
    with serving(pages.mirror.store.url, SETTINGS, AccessRules()) as address:
        line = [programs / "python", Path(__file__).parent / "rag_programs.py", kind, address, tmp_path]
        with subprocess.Popen(  # noqa: S603
            line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as program:
            told = {}
            for said in program.stdout:
                told = json.loads(said)
                if "please" in told:
                    pages.do(told["please"])
                    program.stdin.write("done\n")
                    program.stdin.flush()
            assert program.wait(120) == 0, program.stderr.read()
    others = [[key, f"text of {key}"] for key in OTHERS]
    rest = sorted([["python:b", "two"], ["python:c", "three"], *others])
    assert told["first"] == [15, 0]
    assert sorted(told["while"]) == sorted([["python:a", "one"], *rest])
    assert told["behind"] == 0  # the mirror has seen a later version
    assert told["second"] == [1, 0]
    assert sorted(told["after"]) == sorted([["python:a", "one, but new"], *rest])
    assert told["crashed"] == told["after"]  # the old version is still found
    assert told["third"] == [1, 0]
    new = [["python:a", "one, but new"], ["python:b", "two, but new"]]
    assert sorted(told["recovered"]) == sorted([*new, ["python:c", "three"], *others])
    assert told["nothing"] == 0
    assert all(0 < fresh <= 1 for fresh in told["fresh"].values())
    assert told["removed"] == 1
    assert sorted(told["left"]) == sorted([*new, *others])
    assert "12 of 14 elements of the index are gone" in told["guard"]
    assert (told["guarded"], told["all"]) == (14, 12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_programs_of_the_page_run(tmp_path, pages, kind):
    programs = adapter(kind, KINDS[kind])
    write_blocks("index-for-retrieval.md", tmp_path)
    with serving(pages.mirror.store.url, SETTINGS, AccessRules()) as address:
        line = [programs / "python", PROGRAMS[kind], address, "one"]
        done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Synced(put=15, same=0, deleted=0)")


class Nowhere:
    """An index that takes everything and keeps nothing."""

    def put(self, texts):
        pass

    def delete(self, keys):
        pass


def test_a_state_that_is_none_is_refused(tmp_path, pages):
    with serving(pages.mirror.store.url, SETTINGS, AccessRules()) as address:
        file = tmp_path / "state.json"
        assert IndexSync(address, Nowhere(), file).sync().put == 15
        for text in (file.read_text()[:-9], "[]", '{"version": 9, "after": 1, "indexed": {}}'):
            file.write_text(text)
            with pytest.raises(InvalidInput, match="was cut, or is of another version"):
                IndexSync(address, Nowhere(), file)
        with pytest.raises(InvalidInput, match="most_deleted must be a share"):
            IndexSync(address, Nowhere(), tmp_path / "other", most_deleted=2.0)
