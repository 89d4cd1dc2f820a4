"""The Python clients, against a server on loopback; both are asked the same."""

import asyncio
import http.server
import threading
from inspect import iscoroutinefunction

import pytest

from unstale import AsyncFetcher, Fetcher, InvalidInput, Trouble
from unstale.fetcher import AddAnswer, FetchLease, ReportAnswer

from .conftest import EDIT, LEASE

NOT_HERE = "only pages, feeds and sitemaps can be added here; for others there is 'unstale add'"


class Waiting:
    """An asynchronous client whose answers are waited for."""

    def __init__(self, *arguments, **more):
        self._client = AsyncFetcher(*arguments, **more)
        self._loop = asyncio.new_event_loop()

    def __getattr__(self, name):
        method = getattr(self._client, name)
        assert iscoroutinefunction(method)
        return lambda *arguments, **more: self._loop.run_until_complete(method(*arguments, **more))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
        self._loop.close()


both = pytest.mark.parametrize("client", [Fetcher, Waiting])


@both
def test_polls_are_taken_and_reported(served, client):
    with client(served.address, "one", token=EDIT) as fetcher:
        addresses = [f"https://{host}.example/index" for host in "abcd"]
        assert fetcher.add([*addresses, "file:///etc/passwd"]) == AddAnswer(
            added=4, refused={"file:///etc/passwd": NOT_HERE}
        )
        assert fetcher.add(addresses) == AddAnswer(known=4)
        taken = served.leased(fetcher.lease, 4)
        assert sorted(lease.key for lease in taken) == addresses
        assert {lease.group for lease in taken} == {f"http:{host}.example" for host in "abcd"}
        large = b"0123456789" * 150_000
        results = [
            taken[0].changed(large, media_type="text/plain", links=[f"{taken[0].key}/more"]),
            taken[1].changed(b"small", keep=False, validators={"etag": "x"}, modified=1.6e9),
            taken[2].gone(detail="404"),
            taken[3].failed(detail="reset", began=taken[3].slot),
        ]
        assert fetcher.report(results) == ReportAnswer(recorded=4)
        assert fetcher.report(results) == ReportAnswer(again=4)
        assert fetcher.lease(5, groups=["http:none.example"], each=1, seconds=5) == []
    mirror = served.mirror
    assert mirror.read(taken[0].key).body == large
    assert mirror.find(taken[1].key).validators == {"etag": "x"}
    assert mirror.find(taken[1].key).version is None
    assert mirror.find(f"{taken[0].key}/more").via == taken[0].element
    assert sorted(poll.outcome for poll in mirror.polls()) == ["failed", "gone", "new", "new"]


@both
def test_many_results_go_in_as_few_requests_as_can_be(served, client):
    with client(served.address, "one", token=EDIT) as fetcher:
        fetcher.add([f"https://a.example/{i}" for i in range(5)])
        taken = served.leased(fetcher.lease, 5)
        done = fetcher.report([one.changed(b"%d" % one.element * 250_000) for one in taken])
        assert done == ReportAnswer(recorded=5)
    assert all(served.mirror.read(one.key).body for one in taken)


@both
def test_what_is_refused_says_why(served, client):
    with client(served.address, "one", token=LEASE) as fetcher:
        with pytest.raises(InvalidInput, match="this token is to lease only"):
            fetcher.add(["https://a.example/"])
        with pytest.raises(InvalidInput, match="422: count"):
            fetcher.lease(0)
        done = fetcher.report([FetchLease(1, 1.0, "https://a.example/").gone()])
        assert done.refused == {1: "it is not leased to this fetcher, or not any more"}
    with client(served.address, "one") as fetcher, pytest.raises(InvalidInput, match="a token is needed"):
        fetcher.lease()


@both
def test_what_can_be_tried_again_is_trouble(served, client):
    class Gateway(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.send_response(502)
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Gateway) as proxy:
        threading.Thread(target=proxy.handle_request, daemon=True).start()
        address = f"http://127.0.0.1:{proxy.server_port}"
        with client(address, "one") as fetcher, pytest.raises(Trouble, match="no JSON"):
            fetcher.lease()
    with client(address, "one") as fetcher, pytest.raises(Trouble, match="cannot be asked"):
        fetcher.lease()
    del served


def test_a_connection_that_was_closed_is_opened_again(served):
    with Fetcher(served.address, "one", token=LEASE) as fetcher:
        assert fetcher.lease() == []
        fetcher._connection.sock.shutdown(2)
        assert fetcher.lease() == []


@pytest.mark.parametrize("server", ["", "127.0.0.1:8321", "ftp://a.example", "http://"])
def test_servers_that_are_none(server):
    with pytest.raises(InvalidInput, match="server must be an address"):
        Fetcher(server, "one")


def test_changed_needs_something():
    with pytest.raises(InvalidInput, match="changed needs the content"):
        FetchLease(1, 1.0, "a").changed()
