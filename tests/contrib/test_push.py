"""Push hints, from a hub and a site on loopback that do as real ones do."""

import asyncio
import hashlib
import hmac
import http.server
import json
import shlex
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from contextlib import ExitStack, contextmanager

import pytest

from unstale import InvalidInput, Mirror
from unstale.contrib.push import PushReceiver, Secrets, connections
from unstale.contrib.push.hub_links import in_content, in_headers
from unstale.contrib.push.subscriptions import Subscriptions
from unstale.contrib.push.webhooks import read_index_now, read_repository
from unstale.mirror.settings import Http, Settings

from .conftest import HOWTO, until, write_blocks

KEY = "0123456789abcdef"
SECRET = "a secret of sixteen"  # noqa: S105


class HubAndSite(http.server.ThreadingHTTPServer):
    """A feed that names a hub, and the hub, which verifies who subscribes and signs what it sends."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server_port}"
        self.asked, self.lease, self.in_header = [], 600, False

    def verify(self, said, mode="subscribe", topic=None):
        """Come back to a subscriber; return whether it repeats the challenge."""
        query = {
            "hub.mode": mode, "hub.topic": topic or said["hub.topic"], "hub.challenge": "c" * 30,
            "hub.lease_seconds": str(self.lease),
        }  # fmt: skip
        status, text = request(said["hub.callback"] + "?" + urllib.parse.urlencode(query))
        return status == 200 and text == "c" * 30

    def send(self, said, method="sha256", secret=None):
        """Send what is new; return the status."""
        body = b"<feed>new</feed>"
        digest = hmac.new((secret or said["hub.secret"]).encode(), body, method).hexdigest()
        return request(said["hub.callback"], body, {"X-Hub-Signature": f"{method}={digest}"})[0]


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        site = self.server
        link = "" if site.in_header else f'<link rel="hub" href="{site.address}/hub"/>'
        body = (
            f'<feed xmlns="http://www.w3.org/2005/Atom"><title>a</title>{link}'
            f'<link rel="self" href="{site.address}/feed"/><id>x</id></feed>'
        )
        if self.path == f"/{KEY}.txt":
            body = KEY
        elif self.path != "/feed":
            return self.send_error(404)
        self.send_response(200)
        self.send_header("Content-Type", "application/atom+xml")
        self.send_header("Content-Length", str(len(body)))
        if site.in_header:
            self.send_header("Link", f'</hub>; rel="hub", <{site.address}/feed>; rel="self"')
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body.encode())
        return None

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self):
        size = int(self.headers["Content-Length"])
        said = dict(urllib.parse.parse_qsl(self.rfile.read(size).decode()))
        self.send_response(202)
        self.end_headers()
        self.server.asked.append(said)
        if said["hub.mode"] == "subscribe":
            threading.Thread(target=self.server.verify, args=(said,), daemon=True).start()

    def log_message(self, *_):
        pass


def request(url, body=None, headers=None):
    asked = urllib.request.Request(url, body, headers or {})  # noqa: S310
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:  # noqa: S310
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@contextmanager
def receiving(mirror, file, secrets=None):
    """Run a receiver in a thread, at a port that its public address names; gives it and the address."""
    from socket import socket

    with socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address, bound, told = f"http://127.0.0.1:{port}", threading.Event(), []
    receiver = PushReceiver(mirror, file, address, secrets=secrets or Secrets(), on_event=told.append)
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    job = receiver.run("127.0.0.1", port, stop, started=lambda _: bound.set())
    thread = threading.Thread(target=loop.run_until_complete, args=(job,), daemon=True)
    thread.start()
    assert bound.wait(60)
    try:
        yield receiver, address, loop
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(60)
        loop.close()


@pytest.fixture(scope="module")
def site():
    with HubAndSite() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def mirror(tmp_path):
    settings = Settings(budget=1000.0, http=Http(private=True))
    with Mirror(tmp_path / "mirror.db", settings=settings) as mirror:
        yield mirror


def hints(mirror):
    """Return the keys that were hinted, and by which channel."""
    with mirror.store.begin() as t:
        edits = [one for one in t.edits(0) if one.kind == "hint"]
        elements = t.numbered([one.subject for one in edits])
    return [(elements[one.subject].key, one.channel) for one in edits]


@pytest.mark.parametrize("in_header", [False, True])
def test_a_hub_is_found_asked_confirmed_renewed_and_believed_if_it_signs(tmp_path, mirror, site, in_header):
    site.in_header, file, key = in_header, tmp_path / "push.json", f"{site.address}/feed"
    site.asked.clear()
    mirror.add(f"feed:{key}")
    until(lambda: mirror.step() and mirror.changes())
    with receiving(mirror, file) as (receiver, address, loop):
        one = until(lambda: receiver.subscriptions.of(key))
        until(lambda: one.state == "active" and not one.pending)
        (said,) = site.asked
        assert said["hub.topic"] == f"{site.address}/feed"
        assert said["hub.callback"] == f"{address}/websub/{one.path}"
        assert len(one.path) >= 32
        assert file.stat().st_mode & 0o777 == 0o600
        # nobody else can subscribe us, unsubscribe us, or name another topic
        assert not site.verify(said)
        assert not site.verify(said, mode="unsubscribe")
        assert request(f"{address}/websub/guessed?hub.mode=subscribe&hub.challenge=x")[0] == 404
        assert request(f"{address}/websub/guessed", b"x")[0] == 410
        # what is signed is a hint; what is not is taken with the same words, and dropped
        assert site.send(said, secret="another") == 202  # noqa: S106
        assert request(said["hub.callback"], b"<feed/>")[0] == 202
        assert hints(mirror) == []
        assert site.send(said, method="sha1") == site.send(said) == 202
        assert hints(mirror) == [(key, "websub")] * 2
        # the lease is about to end
        one.until = mirror.clock.now() + 0.1 * one.lease
        asyncio.run_coroutine_threadsafe(receiver._subscriber.turn(), loop).result(60)
        until(lambda: len(site.asked) == 2 and not one.pending)
        assert one.until > mirror.clock.now() + 0.9 * site.lease
        assert site.asked[1]["hub.secret"] == said["hub.secret"]
        too_large = request(said["hub.callback"], b"x" * 5_100_000)
        assert too_large[0] == 413
    (kept,) = Subscriptions(file)  # a restart goes on with it
    assert (kept.state, kept.path, kept.secret) == ("active", one.path, said["hub.secret"])


def test_a_damaged_copy_of_a_feed_stops_nobody(tmp_path, mirror, site):
    key = f"{site.address}/feed"
    mirror.add(f"feed:{key}")
    until(lambda: mirror.step() and mirror.changes())
    mirror.copies.place.path(mirror.read(key).version.digest).write_bytes(b"x")
    with receiving(mirror, tmp_path / "push.json") as (receiver, _, loop):
        asyncio.run_coroutine_threadsafe(receiver._subscriber.turn(), loop).result(60)
        assert len(receiver.subscriptions) == 0


def test_a_feed_leads_to_no_private_hub(tmp_path, site):
    site.in_header = False
    with Mirror(tmp_path / "mirror.db", settings=Settings(budget=1000.0)) as mirror:
        mirror.add(f"feed:{site.address}/feed")  # a user named it, so it may be polled; its hub may not
        until(lambda: mirror.step() and mirror.changes())
        site.asked.clear()
        with receiving(mirror, tmp_path / "push.json") as (receiver, _, _):
            one = until(lambda: receiver.subscriptions.of(f"{site.address}/feed"))
            until(lambda: one.detail)
    assert "private" in one.detail
    assert (one.state, site.asked) == ("asked", [])


def test_webhooks_and_index_now_hint_what_they_name(tmp_path, mirror, site):
    repository = "https://github.com/owner/name"
    files = [f"{repository}/blob/main/docs/a.md", f"{repository}/blob/main/b.md"]
    others = [repository, f"{repository}s", "https://raw.githubusercontent.com/owner/name/main/docs/a.md"]
    lab = "https://gitlab.example.org/group/project"
    mine = f"{site.address}/page"
    mirror.add_many([*map(_new, [*files, *others, lab, mine])])
    secrets = Secrets(github=SECRET, gitlab=SECRET, indexnow=True)
    with receiving(mirror, tmp_path / "push.json", secrets) as (_, address, _):
        body = json.dumps({
            "repository": {"html_url": repository},
            "commits": [{"added": [], "modified": ["docs/a.md"], "removed": []}],
        }).encode()  # fmt: skip
        right = "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        for wrong in (
            "",
            "sha256=",
            right[:-1] + "x",
            "sha1=" + hmac.new(SECRET.encode(), body, "sha1").hexdigest(),
        ):
            assert request(f"{address}/github", body, {"X-Hub-Signature-256": wrong})[0] == 403
        assert request(f"{address}/github", body, {"X-Hub-Signature-256": right})[0] == 200
        assert sorted(hints(mirror)) == [(key, "github") for key in sorted([files[0], others[0], others[2]])]
        body = json.dumps({"project": {"web_url": lab}}).encode()
        assert request(f"{address}/gitlab", body, {"X-Gitlab-Token": SECRET + "x"})[0] == 403
        assert request(f"{address}/gitlab", body, {"X-Gitlab-Token": SECRET})[0] == 200
        assert hints(mirror)[-1] == (lab, "gitlab")
        said = {"host": site.address[7:], "key": KEY, "urlList": [mine, f"{site.address}/none"]}
        assert request(f"{address}/indexnow", json.dumps(said).encode())[0] == 200
        assert hints(mirror)[-1] == (mine, "indexnow")
        query = urllib.parse.urlencode({"url": mine, "key": "another-key"})
        assert request(f"{address}/indexnow?{query}") == (
            403,
            f"{site.address}/another-key.txt does not hold the key",
        )
        foreign = {**said, "urlList": ["https://elsewhere.example/"]}
        for wrong in (foreign, {**said, "key": "x"}, {**said, "urlList": "x"}, [1]):
            assert request(f"{address}/indexnow", json.dumps(wrong).encode())[0] == 400
        unknown = {"url": "http://127.0.0.1:1/x", "key": KEY}  # its host would be asked for the key
        assert request(f"{address}/indexnow?{urllib.parse.urlencode(unknown)}")[0] == 422
    assert len(hints(mirror)) == 5


def test_strangers_cannot_make_it_ask_a_site_again_and_again(tmp_path, mirror, site):
    """Each submission with a new key was a request to the site, in our name."""
    mine = f"{site.address}/page"
    mirror.add(mine)
    with receiving(mirror, tmp_path / "push.json", Secrets(indexnow=True)) as (receiver, address, _):
        asked = []
        session = receiver._subscriber.session

        def counted():
            asked.append(1)
            return session()

        receiver._subscriber.session = counted
        for i in range(20):
            query = urllib.parse.urlencode({"url": mine, "key": f"invented-{i}"})
            assert request(f"{address}/indexnow?{query}")[0] == 403
        assert len(asked) == 5
        where = {"url": mine, "key": KEY, "keyLocation": f"{site.address}/delete?id=1"}
        assert request(f"{address}/indexnow?{urllib.parse.urlencode(where)}")[0] == 400


def test_connections_that_say_nothing_make_room(tmp_path, mirror, monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 20)
    with receiving(mirror, tmp_path / "push.json") as (receiver, address, _), ExitStack() as opened:
        for i in range(60):
            there = urllib.parse.urlsplit(address)
            one = opened.enter_context(socket.create_connection((there.hostname, there.port)))
            one.sendall(b"POST /github HTTP/1.1\r\nHost: a" if i % 2 else b"")
        assert request(f"{address}/websub/none")[0] == 404
        assert len(receiver._connections._begun) <= 20


@pytest.mark.parametrize(
    ("path", "headers", "body", "status"),
    [
        ("/github", {"X-Hub-Signature-256": b"sha256=\xff\xe9"}, b"{}", 403),
        ("/gitlab", {"X-Gitlab-Token": b"\xff\xe9"}, b"{}", 403),
        ("/websub/{path}", {"X-Hub-Signature": b"sha256=\xff"}, b"<feed/>", 202),
        ("/github", {}, b'{"repository": {"html_url": "http://[/a"}}', 400),
        ("/github", {}, b'{"repository": {"html_url": "http://a/\\ud800"}}', 200),
        (
            "/github",
            {},
            b'{"repository": {"html_url": "http://a/b"}, "commits": [{"added": ["\\ud800"]}]}',
            200,
        ),
        ("/indexnow", {}, b'{"url": "http://a/b", "key": "0123456789", "host": "\\ud800"}', 400),
        ("/indexnow", {}, b'{"url": "http://a\\ud800/b", "key": "0123456789"}', 422),
        ("/indexnow", {}, b'{"url": "http://a/\\u0000", "key": "0123456789"}', 422),
        ("/indexnow", {}, b'{"url": "http://a/b", "key": "0123456789", "keyLocation": "http://[/"}', 400),
        ("/indexnow", {}, b'{"url": 1' + b"0" * 5000 + b"}", 400),
    ],
)
def test_no_message_breaks_it(receiver, path, headers, body, status):
    """Bytes above 127 in a signature, half characters and broken addresses were answered with 500."""
    address, its_path = receiver
    if path == "/github" and not headers:
        digest = hmac.new(SECRET.encode(), body, "sha256").hexdigest()
        headers = {"X-Hub-Signature-256": f"sha256={digest}".encode()}
    there = urllib.parse.urlsplit(address)
    lines = [f"POST {path.format(path=its_path)} HTTP/1.1".encode(), b"Host: a", b"Connection: close"]
    lines += [name.encode() + b": " + value for name, value in headers.items()]
    lines += [b"Content-Length: %d" % len(body), b"", body]
    with socket.create_connection((there.hostname, there.port)) as one:
        one.sendall(b"\r\n".join(lines))
        assert int(one.makefile("rb").read().split(b" ", 2)[1]) == status


@pytest.fixture(scope="module")
def receiver(tmp_path_factory):
    folder = tmp_path_factory.mktemp("receiver")
    with Mirror(folder / "mirror.db", settings=Settings(budget=1.0)) as mirror:
        secrets = Secrets(github=SECRET, gitlab=SECRET, indexnow=True)
        mirror.add("feed:http://a/")
        with receiving(mirror, folder / "push.json", secrets) as (one, address, _):
            wanted = one.subscriptions.wanted("http://a/", "http://a/", "http://hub.example/")
            wanted.state, wanted.until = "active", 1e12
            yield address, wanted.path


def _new(key):
    from unstale.mirror.source import New

    return New(key)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\xff\xfe", b"<" * 40_000, b"<a>" * 10_000, b"<link rel=hub href='file:///x'>",
        b"<link rel=hub href='http://[x'>", b"<http://[x>; rel=hub",
    ],
)  # fmt: skip
def test_what_names_no_hub(content):
    """A broken address ended `unstale push`, for all."""
    assert in_content(content, "https://a.example/").hub == ""
    assert in_headers([content.decode("latin-1")], "https://a.example/").hub == ""


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"repository": {"html_url": 1}}', b"[" * 100_000])
def test_what_is_no_message_of_a_repository(body):
    with pytest.raises(InvalidInput):
        read_repository(body)


def test_a_key_speaks_for_its_folder_only():
    said = {"key": KEY, "keyLocation": f"https://a.example/mine/{KEY}.txt"}
    assert read_index_now({**said, "urlList": ["https://a.example/mine/x"]}).host == "a.example"
    with pytest.raises(InvalidInput, match="cannot speak for"):
        read_index_now({**said, "urlList": ["https://a.example/yours"]})


def test_a_file_of_subscriptions_that_is_none_is_left_alone(tmp_path):
    file = tmp_path / "push.json"
    for text, why in [("{", "is no file of subscriptions"), ('{"version": 9}', "of version 9")]:
        file.write_text(text)
        with pytest.raises(InvalidInput, match=why):
            Subscriptions(file)
        assert file.read_text() == text


def test_the_command_of_the_page_takes_hints(tmp_path):
    page = (HOWTO / "push-hints.md").read_text()
    write_blocks("push-hints.md", tmp_path)
    (tmp_path / "secret.txt").write_text(SECRET)
    (line,) = [line for line in page.splitlines() if line.startswith("unstale push")]
    command = [sys.executable, "-m", *shlex.split(line), "--port", "0", "--json"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as receiver:  # noqa: S603
        address = f"http://127.0.0.1:{json.loads(receiver.stdout.readline())['port']}"
        assert request(f"{address}/github", b"{}")[0] == 403
        assert request(f"{address}/gitlab", b"{}")[0] == 403
        receiver.terminate()
        assert receiver.wait(60) == 0
