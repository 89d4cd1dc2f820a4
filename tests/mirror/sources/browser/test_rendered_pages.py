"""Pages in a real Chromium, served by a real server on this machine: friendly ones, and hostile ones."""

import asyncio
import contextlib
import itertools
import json
import shutil
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from unstale.errors import InvalidInput
from unstale.mirror.mirror import Mirror
from unstale.mirror.settings import Browser, GroupLimit, Http, Settings
from unstale.mirror.source import Known, Terms
from unstale.mirror.sources.browser.options import RenderOptions
from unstale.mirror.sources.browser.processes import descendants
from unstale.mirror.sources.browser.source import BrowserSource, _compared

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install playwright")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this system"),
]
PUBLIC = ("public.example", "rebind.example")
"""Names that the tests take for public; they lead to the server on this machine."""

SHELL = "<title>Shop</title><div id=app></div><script>setTimeout(() => app.innerHTML = '<p>one two three'"
PAGES = {
    "/plain": "<title>Plain</title><p>one two three four five",
    "/shell": f"{SHELL}, 50)</script>",
    "/more": """<p id=app>few</p><button id=more onclick="app.innerHTML += ' many words'">more</button>""",
    "/never": "<p>words<script>setInterval(() => fetch('/plain'), 100)</script>",
    "/endless": "<p>words<script>while (true) {}</script>",
    "/dialogs": "<script>alert(1); onbeforeunload = () => 'stay'; window.open('/plain')</script><p>after",
    "/account": "<p id=account>hello",
    "/stores": "<p id=account>hello<script>localStorage.x = '\\u4e00'.repeat(2000000)</script>",
    "/large": "<script>document.write('<p>' + 'x'.repeat(3000000))</script>",
    "/inside": "<p>secret",
    "/login": "<form>who are you",
    "/flip": "<p>flipped",
    "/rebind": "<p>words<script>fetch('/flip').then(() => fetch('/inside'))</script>",
}


class Site:
    """A server; it says who asked it for what."""

    def __init__(self):  # noqa: C901  (an answer for each path)
        site = self
        self.asked, self.told, self.flipped = [], [], False

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):  # noqa: C901  (an answer for each path)
                path = self.path.partition("?")[0]
                site.asked.append((self.headers.get("Host", "").partition(":")[0], path))
                if (key := self.headers.get("X-Key")) and path != "/favicon.ico":
                    site.told.append((self.headers["Host"].partition(":")[0], path, key))
                status, kind, more = 200, "text/html", {}
                body = PAGES.get(path, "").encode()
                site.flipped = site.flipped or path == "/flip"
                if path == "/download":
                    kind, body = "application/octet-stream", b"x" * 1000
                    more["Content-Disposition"] = "attachment; filename=x.bin"
                elif path == "/members":
                    if "session=good" not in self.headers.get("Cookie", ""):
                        status, more["Location"] = 302, "/login"
                    else:
                        more["Set-Cookie"], body = "seen=1; Max-Age=9999", b"<p id=account>members only"
                elif path == "/hostile":
                    inside = f"127.0.0.1:{self.server.server_port}"
                    body = f"""<p>words<img src="http://{inside}/inside"><iframe src="http://{inside}/inside">
                        </iframe><script>fetch("http://{inside}/inside"); new WebSocket("ws://{inside}/inside");
                        navigator.sendBeacon("http://{inside}/inside")</script>""".encode()
                elif path == "/redirect":
                    status, more["Location"] = 302, f"http://127.0.0.1:{self.server.server_port}/inside"
                elif path == "/away":
                    status, more["Location"] = 302, f"http://public.example:{self.server.server_port}/echo"
                elif path == "/echo":
                    body = f"<title>{self.headers.get('X-Key')}</title><p>words".encode()
                elif path == "/stream":
                    body = b"<p>" + b"y" * 3_000_000
                elif not body:
                    status = 404
                self.send_response(status)
                for name, value in {"Content-Type": kind, "Content-Length": len(body), **more}.items():
                    self.send_header(name, str(value))
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        self.servers = [self.server, ThreadingHTTPServer(("127.0.0.2", self.port), Handler)]
        """The second one passes for public."""
        self.threads = [threading.Thread(target=one.serve_forever, args=(0.05,)) for one in self.servers]
        for server, thread in zip(self.servers, self.threads, strict=True):
            server.daemon_threads = True
            thread.start()

    def close(self):
        for server, thread in zip(self.servers, self.threads, strict=True):
            server.shutdown()
            thread.join()
            server.server_close()


class Running:
    """One browser and one event loop for all tests."""

    def __init__(self, folder):
        self.site, self.folder = Site(), folder
        self.loop = asyncio.new_event_loop()
        (folder / "logins").mkdir()
        limits = Browser(seconds=60.0, bytes=2_000_000, logins=str(folder / "logins"))
        settings = Settings(http=Http(robots=False), browser=limits)
        self.source = BrowserSource(
            settings, lookup=self.lookup, public=lambda address: address != "127.0.0.1"
        )

    def lookup(self, host, port):  # noqa: ARG002
        if host == "rebind.example" and not self.site.flipped:  # public at first, then private
            return ["127.0.0.2"]
        return ["127.0.0.2" if host == "public.example" else "127.0.0.1"]

    def poll(self, path, host="localhost", max_size=2_000_000, validators=(), **options):
        known = Known(f"http://{host}:{self.site.port}{path}", options, dict(validators))
        terms = Terms(self.folder, max_size, 120.0)
        self.site.asked.clear()
        return self.loop.run_until_complete(self.source.poll(known, terms))

    def close(self):
        root = self.source.chromium._root
        self.loop.run_until_complete(self.source.close())
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        self.site.close()
        assert not root or not descendants(root)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    made = Running(tmp_path_factory.mktemp("browser"))
    yield made
    made.close()


def test_only_a_shell_is_rendered_and_that_is_learned(running):
    first = running.poll("/plain")
    assert (first.outcome, first.validators["shell"]) == ("changed", False)
    assert b"one two three four" in first.body
    again = running.poll("/plain", validators=first.validators)
    assert again.traffic < first.traffic  # no browser
    assert len(running.site.asked) == 1
    shell = running.poll("/shell")
    assert shell.validators["shell"] is True
    assert b"one two three" in shell.body
    assert shell.meta["title"] == "Shop"
    assert "rendered in" in shell.detail
    same = running.poll("/shell", validators=shell.validators)
    assert same.fingerprint == shell.fingerprint
    assert same.traffic > 1000  # bytes and seconds


@pytest.mark.long
def test_clicks_and_waits(running):
    found = running.poll("/more", click=["#more"], wait="#app")
    assert b"few many words" in found.body
    nothing = running.poll("/more", click="#nothing")
    assert nothing.outcome == "failed"
    assert nothing.detail == "click: the selector '#nothing' finds nothing on the page within 10 seconds"


@pytest.mark.long
def test_a_page_that_never_settles_is_read_and_that_is_told(running):
    found = running.poll("/never", render="always")
    assert found.outcome == "changed"
    assert "it never settled, and was read after 5 seconds" in found.detail


def test_no_page_reaches_a_private_address_that_nobody_named(running):
    found = running.poll("/hostile", host="public.example", render="always")
    assert b"words" in found.body
    assert running.site.asked[0] == ("public.example", "/hostile")
    assert all(path != "/inside" for _, path in running.site.asked)
    redirect = running.poll("/redirect", host="public.example", render="always")
    assert redirect.outcome in {"failed", "refused"}
    assert all(path != "/inside" for _, path in running.site.asked)
    # a name that is public at first, and private when the page asks again
    found = running.poll("/rebind", host="rebind.example", render="always")
    assert (found.outcome, running.site.flipped) == ("refused", True)
    assert all(path != "/inside" for _, path in running.site.asked)
    again = running.poll("/inside", host="rebind.example", render="always")
    assert (again.outcome, again.detail) == ("refused", "rebind.example is a private address")
    assert not running.site.asked


@pytest.mark.long
def test_headers_go_to_the_host_of_the_page_alone_and_are_not_shown(running, monkeypatch):
    monkeypatch.setenv("PAGE_KEY", "s3cret-of-a-page")
    headers = {"X-Key": "${PAGE_KEY}"}
    running.site.told.clear()
    away = running.poll("/away", render="always", headers=headers)
    assert away.outcome == "changed", away.detail
    assert ("public.example", "/echo") in running.site.asked
    assert running.site.told == [("localhost", "/away", "s3cret-of-a-page")]  # and not where it leads
    assert away.origins == tuple(
        f"http://{one}:{running.site.port}" for one in ("localhost", "public.example")
    )
    echo = running.poll("/echo", render="always", headers=headers)
    assert running.site.told[1:] == [("localhost", "/echo", "s3cret-of-a-page")]
    assert echo.meta["title"] == "***"


def test_dialogs_popups_and_downloads_hold_up_nobody(running):
    found = running.poll("/dialogs", render="always")
    assert found.outcome == "changed"
    assert b"after" in found.body
    assert "download" in running.poll("/download", render="always").detail


@pytest.mark.long
def test_what_is_too_large_is_not_read(running):
    assert "more than 2,000,000 bytes once it is rendered" in running.poll("/large", render="always").detail
    stream = running.poll("/stream", render="always")
    assert (stream.outcome, stream.detail) == ("failed", "it asks for more than 2,000,000 bytes")


@pytest.mark.long
def test_a_screenshot_is_a_version(running):
    found = running.poll("/plain", screenshot=True)
    assert (found.media_type, found.body[:4]) == ("image/png", b"\x89PNG")
    assert running.poll("/plain", screenshot=True).fingerprint == found.fingerprint


def test_a_login_is_kept_and_its_end_is_told_in_a_line(running):
    path = running.folder / "logins" / "shop.json"
    cookie = {"name": "session", "value": "good", "domain": "localhost", "path": "/", "expires": -1}
    cookie |= {"httpOnly": True, "secure": False, "sameSite": "Lax"}
    path.write_text(json.dumps({"cookies": [cookie], "origins": []}))
    found = running.poll("/members", login="shop", logged_in="#account")
    assert b"members only" in found.body
    kept = json.loads(path.read_text())
    assert {one["name"] for one in kept["cookies"]} == {"session", "seen"}  # what the site has set is kept
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text(json.dumps({"cookies": [{**cookie, "value": "old"}], "origins": []}))
    told = running.poll("/members", login="shop").detail
    at = f"http://localhost:{running.site.port}/login"
    assert told == f"the login 'shop' has expired (it leads to {at}): save it anew"
    path.write_text(json.dumps({"cookies": [{**cookie, "expires": 5}], "origins": []}))
    assert "all its cookies have expired" in running.poll("/members", login="shop").detail
    path.write_text("{")
    assert (
        "is no saved login; save it with: playwright codegen" in running.poll("/members", login="shop").detail
    )
    assert "there is no login 'none'" in running.poll("/members", login="none").detail


def test_a_page_that_stores_much_does_not_spoil_its_login(running):
    path = running.folder / "logins" / "fat.json"
    kept = json.dumps({"cookies": [], "origins": [{"origin": "http://localhost:1", "localStorage": []}]})
    path.write_text(kept)
    assert running.poll("/stores", login="fat").outcome == "changed"
    assert path.read_text() == kept  # what is larger would not be read again
    assert running.poll("/account", login="fat").outcome == "changed"


def test_a_hostile_page_is_compared_with_its_rendering_in_a_child_process():
    page = b"a<br>" * 1_600_000
    began = time.process_time()
    assert asyncio.run(_compared(page, page)) is False
    assert time.process_time() - began < 5.0  # of this process; a thread took minutes, and gigabytes


def test_a_script_without_end_costs_its_own_poll_only(running):
    keep = running.source._settings
    running.source._settings = replace(keep, browser=replace(keep.browser, seconds=8.0))

    async def both():
        hostile = Known(f"http://localhost:{running.site.port}/endless", {"render": "always"})
        good = Known(f"http://localhost:{running.site.port}/plain", {"render": "always"})
        terms = Terms(running.folder, 2_000_000, 120.0)
        ended = asyncio.ensure_future(running.source.poll(hostile, terms))
        first = await running.source.poll(good, terms)
        found = await ended
        return found, first, await running.source.poll(good, terms)

    try:
        found, _, after = running.loop.run_until_complete(both())
    finally:
        running.source._settings = keep
    assert (found.outcome, found.detail) == ("failed", "not rendered within 8 seconds")
    assert after.outcome == "changed"  # in the same browser, or in a new one


def test_a_browser_that_grows_is_killed_and_started_again(running):
    chromium = running.source.chromium
    keep = chromium._settings
    assert running.poll("/plain", render="always").outcome == "changed"
    before = chromium._root
    chromium._settings = replace(keep, memory=1_000_000)
    try:
        found = running.poll("/never", render="always")
    finally:
        chromium._settings = keep
    assert "it had more than 1 MB of memory" in found.detail

    async def gone():
        async with asyncio.timeout(60.0):
            while descendants(before):  # noqa: ASYNC110  (processes set no event)
                await asyncio.sleep(0.05)

    running.loop.run_until_complete(gone())
    assert running.poll("/plain", render="always").outcome == "changed"
    assert chromium._root != before


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"render": "never"}, "render must be auto or always"),
        ({"clik": "#x"}, "'clik' is not an option of rendered pages; did you mean 'click'?"),
        ({"login": "../x"}, "login must be a name of letters"),
        ({"logged_in": "#x"}, "logged_in says whether a login is good"),
        ({"wait": ""}, "wait must be a CSS selector"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, told):
    with pytest.raises(InvalidInput, match="^" + told.replace("?", r"\?")):
        RenderOptions.of(options)


@pytest.mark.long
def test_polls_of_the_same_mirror_keep_their_schedule_while_the_browser_hangs_and_is_killed(
    running, tmp_path
):
    """A mirror with pages that hang the browser, and one that is polled each two seconds as any other."""
    limits = Browser(seconds=5.0, concurrency=1)
    settings = Settings(
        budget=100.0, reserve=0.0, http=Http(robots=False), browser=limits, groups=(GroupLimit("*"),)
    )
    here = f"http://localhost:{running.site.port}"
    failed, plain = [], []

    def note(event):
        if event.kind == "poll" and event.key.endswith("/plain"):
            plain.append(event.data["began"])
        elif event.kind == "poll":
            failed.append(event.detail)
        if len(failed) >= 3 and len(plain) >= 8:
            mirror.stop()

    with Mirror(tmp_path / "mirror.db", settings=settings) as mirror:
        for number in range(3):
            mirror.add(f"browser:{here}/endless?{number}", render="always")
        mirror.add(f"{here}/plain", max_age=2.0, min_interval=2.0)
        mirror.run(mirror.clock.now() + 240.0, on_event=note)
    assert len(failed) >= 3
    assert all("not rendered within" in one or "killed" in one or "not begun" in one for one in failed)
    gaps = sorted(later - one for one, later in itertools.pairwise(plain))
    assert len(plain) >= 8
    assert gaps[len(gaps) // 2] < 4.0  # each two seconds, though three polls of five seconds hang meanwhile
