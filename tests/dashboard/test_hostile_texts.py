"""What strangers write is shown as text, in a real browser: no script of a page, a key or an error runs."""

import itertools
import threading
import time

import pytest
import uvicorn
from aiohttp import web
from mirror.sources.worlds import Server

from unstale import Mirror
from unstale.dashboard.access_rules import AccessRules
from unstale.dashboard.app import create_app
from unstale.dashboard.mirror_gateway import MirrorGateway
from unstale.mirror.settings import GroupLimit, Settings

from .test_browser import CHROMIUM, FLAGS, PATIENCE, playwright_api

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this system: apt install chromium"),
]
SCRIPT = "<script>window.name='run'</script><img src=x onerror=\"window.name='run'\">"
BREAK = f"'\"></title></pre></textarea>--></style>{{{{7*7}}}}{SCRIPT}"
"""It leaves whatever it may be written into."""


class Hostile(Server):
    """A server whose pages are made of scripts, and differ at each poll."""

    def __init__(self):
        super().__init__("text/html", validators=False)
        self.count = itertools.count()

    async def answer(self, request):
        number = next(self.count)
        if request.path == "/robots.txt":
            raise web.HTTPNotFound
        if request.path == "/error":
            return web.Response(status=500, reason=BREAK)
        if request.path == "/svg":
            body = f"<svg xmlns='http://www.w3.org/2000/svg' onload=\"window.name='run'\">{number}</svg>"
            return web.Response(body=body.encode(), content_type="image/svg+xml")
        if request.path == "/feed":
            link = f"http://{request.host}/k{BREAK}".replace("&", "&amp;").replace("<", "&lt;")
            body = f"<rss version='2.0'><channel><title>{number}</title><item><link>{link}</link></item>"
            body += "<item><link>javascript:window.name='run'</link></item></channel></rss>"
            return web.Response(body=body.encode(), content_type="application/rss+xml")
        lines = f"<title>{BREAK}</title><p>{number}{BREAK}</p>\n{SCRIPT}{number}\n"
        return web.Response(body=lines.encode(), content_type="text/html")


@pytest.fixture
def root(tmp_path):
    """The address of the dashboard of a mirror of such pages, and the numbers of its elements."""
    settings = Settings(budget=1e6, groups=(GroupLimit("*"),))
    server = Hostile()
    with server.running() as url, Mirror(tmp_path / "mirror.db", settings=settings) as mirror:
        for path in ("/page", "/error", "/svg"):
            mirror.add(f"{url}{path}", windows="")
        mirror.add(f"feed:{url}/feed")
        mirror.add(f"python:{BREAK}", poll=lambda: f"{SCRIPT}{next(server.count)}")
        mirror.add(f"{url}/grouped", group=BREAK)
        for _ in range(3):
            mirror.step()
            mirror.hint([element.key for element in mirror.elements()])
        gateway = MirrorGateway(Mirror(tmp_path / "mirror.db", settings=settings), fresh_for=0.2)
        dashboard = uvicorn.Server(
            uvicorn.Config(create_app(gateway, AccessRules()), port=0, log_level="error", ws="none")
        )
        serving = threading.Thread(target=dashboard.run, daemon=True)
        serving.start()
        while not dashboard.started:
            time.sleep(0.02)
        port = dashboard.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}", list(mirror.elements()), list(mirror.changes())
        dashboard.should_exit = True
        serving.join(20)


def test_no_script_of_a_stranger_runs(root):
    address, elements, versions = root
    assert len(versions) > len(elements)
    paths = ["/", "/elements", "/changes", "/what-if", "/changes.atom", "/changes.rss", "/changes.json"]
    paths += ["/api/status", "/api/elements", "/api/changes", "/nothing/%3Cscript%3Ealert(1)%3C/script%3E"]
    paths += ["/elements?q=%3Cscript%3Ewindow.name='run'%3C/script%3E&sort='%22%3E%3Cscript%3E"]
    for element in elements:
        paths += [f"/elements/{element.id}", f"/elements/{element.id}/remove", f"/api/elements/{element.id}"]
        paths.append(f"/copies/{element.key.replace('%', '%25').replace('?', '%3F').replace('#', '%23')}")
    paths += [f"/elements/{one.element}/versions/{one.id}" for one in versions]
    with playwright_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        context = browser.new_context()
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        asked, answers = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("dialog", lambda dialog: pytest.fail(f"a script says {dialog.message}"))
        for path in paths:
            page.evaluate("window.name = ''")
            try:
                answer = page.goto(f"{address}{path}")
            except playwright_api.Error as error:  # the browser saves it instead of showing it
                if "Download is starting" not in str(error):
                    raise
                continue
            answers.append(answer.status)
            page.wait_for_load_state("load")
            assert page.evaluate("window.name") == "", path
            assert not page.query_selector_all("img[src=x]") or "/copies/" in path, path
        browser.close()
    assert answers.count(200) > len(paths) / 2
    assert all(url.startswith((f"{address}/", "data:")) for url in asked), asked
