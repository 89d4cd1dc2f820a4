"""A mirror as the frontier of a crawler, by gRPC, with a client that behaves as StormCrawler does."""

import json
import subprocess
import threading
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

from unstale import Mirror
from unstale.mirror.config.file import load

from .conftest import adapter, write_blocks
from .test_scrapy import LIMITS, Site

CRAWLER = Path(__file__).with_name("storm_crawler.py")


@pytest.fixture
def site():
    with Site() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@contextmanager
def frontier(programs, folder):
    """Serve the mirror of a folder as a frontier; gives the port."""
    line = [programs / "python", "-m", "unstale", "serve", "--mirror", str(folder), "--port", "0"]
    with subprocess.Popen(  # noqa: S603
        [*line, "--urlfrontier", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            told = process.stdout.readline()
            assert told.startswith("URLFrontier on 127.0.0.1:"), told + process.stderr.read()
            yield int(told.rpartition(":")[2])
        finally:
            process.terminate()


def test_a_crawler_fetches_what_the_mirror_decides(tmp_path, site):
    programs = adapter("urlfrontier", "grpc")
    write_blocks("urlfrontier.md", tmp_path, quick=("3600/h", "100/s"))
    file = tmp_path / "mirror.toml"
    file.write_text(file.read_text() + LIMITS)
    config = load(file)
    with Mirror(config.store, settings=config.settings, copies=config.copies) as mirror:
        planner = threading.Thread(target=mirror.run, daemon=True)
        planner.start()
        with frontier(programs, tmp_path) as port:
            done = subprocess.run(  # noqa: S603
                [programs / "python", CRAWLER, str(port), site.address],
                capture_output=True, text=True, check=False, timeout=300,
            )  # fmt: skip
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        polls = Counter(poll.outcome for poll in mirror.polls(limit=10_000))
        mirror.stop()
        planner.join(30)
        with mirror.store.begin() as t:
            (group,) = t.groups()
    paths = ["/", "/broken", "/changing", "/lost", "/still"]
    assert told["urls"] == sorted(site.address + path for path in paths)
    assert told["depths"] == {path: "1" if path != "/" else "0" for path in paths}  # metadata comes back
    assert told["refused"] == {"never leased": 1, "wrong": 1}
    assert told["batched"] == [0, 1]
    assert (told["size"], told["deleted"], told["count"]) == (5, 5, 1)
    assert (told["queues"], told["unblocked"], told["status"]) == (["127.0.0.1"], [], "known")
    assert (told["crawls"], told["inactive"], told["active"]) == (["DEFAULT"], 0, False)
    assert told["errors"] == ["UNIMPLEMENTED", "NOT_FOUND", "INVALID_ARGUMENT"]
    assert polls["new"] == 3
    assert {"changed", "unchanged", "gone", "failed"} <= polls.keys()
    assert sum(polls.values()) == sum(site.looks.values())
    assert group.spacing == pytest.approx(7.0)


def test_a_mirror_that_polls_itself_is_no_frontier(tmp_path):
    programs = adapter("urlfrontier", "grpc")
    (tmp_path / "mirror.toml").write_text("[mirror]\nbudget = '1/s'\n")
    line = [programs / "python", "-m", "unstale", "serve", "--mirror", str(tmp_path), "--urlfrontier", "0"]
    done = subprocess.run(  # noqa: S603
        [*line, "--port", "0"], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode != 0
    assert "this mirror polls itself" in done.stderr


def test_the_compiled_definition_is_that_of_the_text():
    """Names and numbers in the text are those that the compiled definition has."""
    place = Path(__file__).parents[2] / "src" / "unstale" / "contrib" / "urlfrontier"
    programs = adapter("urlfrontier", "grpc")
    code = (
        "from unstale.contrib.urlfrontier.messages import methods, message\n"
        "print(*sorted(methods()))\n"
        "print(*sorted(f'{f.name}={f.number}' for f in message('URLInfo').DESCRIPTOR.fields))"
    )
    done = subprocess.run([programs / "python", "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    names, fields = done.stdout.splitlines()
    text = (place / "urlfrontier.proto").read_text()
    assert names.split() == sorted(
        line.split()[1].partition("(")[0] for line in text.splitlines() if " rpc " in line
    )
    assert fields.split() == ["crawlID=4", "key=2", "metadata=3", "url=1"]
