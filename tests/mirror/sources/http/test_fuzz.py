"""Whatever comes back, a poll does not raise, what it tells can be stored, and the next poll works."""

import asyncio
import json

import pytest
from example_counts import percent
from hypothesis import given, settings
from hypothesis import strategies as st

from .conftest import Visitor
from .hostile import Hostile, answer, then_close

names = st.sampled_from([
    "Content-Type", "Content-Length", "Content-Encoding", "Transfer-Encoding", "ETag", "Last-Modified",
    "Location", "Retry-After", "Date", "Set-Cookie", "Connection", "Cache-Control", "Upgrade", "X-Odd",
])  # fmt: skip
values = (
    st.binary(max_size=40)
    | st.sampled_from(
        [b"gzip", b"chunked", b"0", b"5", b"-1", b"close", b'"x"', b"/good", b"http://[", b"text/html"]
    )
    | st.sampled_from(
        [b"text/html; charset=\xff", b"Thu, 01 Jan 1970 00:00:00 GMT", b"1e9", b"max-age=x", b"//", b"?"]
    )
)
statuses = st.sampled_from(
    [b"200", b"204", b"206", b"301", b"302", b"304", b"404", b"429", b"503", b"100", b"101"]
)
heads = st.builds(
    lambda version, status, reason, lines: b"%s %s %s\r\n%s\r\n" % (version, status, reason, b"".join(lines)),
    st.sampled_from([b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2", b"http/1.1", b"HTTP/9.9", b""]),
    statuses | st.binary(max_size=4),
    st.binary(max_size=20),
    st.lists(
        st.builds(lambda name, value: name.encode() + b": " + value + b"\r\n", names, values), max_size=6
    ),
)
answers = st.binary(max_size=200) | st.builds(lambda head, body: head + body, heads, st.binary(max_size=60))


class World:
    """One server and one source for all examples."""

    def __init__(self, scratch):
        self.loop = asyncio.new_event_loop()
        self.server, self.visitor = (
            Hostile({"/good": answer(b"good")}),
            Visitor(scratch),
        )

    def __enter__(self):
        self.loop.run_until_complete(self.server.__aenter__())
        self.visitor.among({})  # redirects to anywhere end there
        return self

    def __exit__(self, *_):
        self.loop.run_until_complete(self.visitor.__aexit__())
        self.loop.run_until_complete(self.server.__aexit__())
        self.loop.close()

    def poll(self, path, **more):
        return self.loop.run_until_complete(self.visitor.poll(self.server.url(path), **more))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with World(tmp_path_factory.mktemp("scratch")) as world:
        yield world


def storable(found):
    """Check that a store can keep it: PostgreSQL takes neither NUL nor halves of characters."""
    kept = [found.detail, found.media_type, found.validators, dict(found.meta), found.moved]
    assert json.loads(json.dumps(kept, ensure_ascii=False).encode()) == kept
    assert "\\u0000" not in json.dumps(kept).replace("\\\\", "")
    assert found.detail.isprintable()
    assert found.detail
    assert len(json.dumps(kept)) < 50_000


@given(answers)
@settings(max_examples=percent(150))
def test_any_answer(world, data):
    world.server.pages["/odd"] = then_close(data)
    first = world.poll("/odd")
    storable(first)
    second = world.poll("/odd", before=first)  # what it gave as validators can be sent
    storable(second)
    good = world.poll("/good")
    assert good.outcome == "changed", good.detail
    assert good.body == b"good"


@given(st.dictionaries(names, values, max_size=8), st.binary(max_size=50))
def test_any_headers_on_a_connection_that_is_kept(world, headers, body):
    headers["Content-Length"] = str(len(body)).encode()
    lines = b"".join(
        name.encode() + b": " + value.replace(b"\n", b"") + b"\r\n" for name, value in headers.items()
    )
    world.server.pages["/odd"] = b"HTTP/1.1 200 OK\r\n" + lines + b"\r\n" + body
    storable(world.poll("/odd"))
    assert world.poll("/good", timeout=5.0).body == b"good"


@pytest.mark.long
@given(answers)
def test_any_answer_at_length(world, data):
    test_any_answer.hypothesis.inner_test(world, data)
