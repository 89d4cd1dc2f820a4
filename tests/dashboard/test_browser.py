"""The dashboard in a real browser, by keyboard: Chromium of the system, driven by Playwright.

Needs Chromium: ``apt install chromium`` (or ``chromium-browser``). Nothing is downloaded.
"""

import itertools
import re
import shutil
import threading
import time

import pytest
import uvicorn

from unstale import Mirror
from unstale.dashboard.access_rules import AccessRules
from unstale.dashboard.app import create_app
from unstale.dashboard.mirror_gateway import MirrorGateway
from unstale.mirror.settings import Composed, Reads, Settings

playwright_api = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: pip install playwright"
)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no Chromium on this system; install it: apt install chromium"
)
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
]  # fmt: skip
PATIENCE = 120_000


class Running:
    """A mirror of texts that change, which somebody runs, and its dashboard."""

    def __init__(self, folder):
        self.contents = {}
        made = Composed("the quarterly report of everything that is on these pages", ("python:page 0*",))
        settings = Settings(budget=15.0, composed=(made,), reads=Reads(users="header:X-User"))
        self.mirror = Mirror(folder / "mirror.db", settings=settings, sample_every=0.5)
        for n in range(60):
            key = f"python:page {n:02d}"
            self.mirror.add(key, poll=lambda n=n: self.content(n), weight=1.0 + n % 7)
        self.mirror.add("python:" + "x" * 900, poll=lambda: str(time.time()), weight=9.0)
        self._runner = threading.Thread(target=self.mirror.run, daemon=True)
        self._runner.start()
        self.reader = Mirror(folder / "mirror.db", settings=settings)
        app = create_app(
            MirrorGateway(Mirror(folder / "mirror.db", settings=settings), fresh_for=0.2), AccessRules()
        )
        self._server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", ws="none"))
        self._serving = threading.Thread(target=self._server.run, daemon=True)
        self._serving.start()
        while not self._server.started:
            time.sleep(0.02)
        self.root = f"http://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}"

    def content(self, n):
        version = int(time.time() / (2 + n % 11))
        return f"a line that stays\nversion {version} of page {n}\nthe last line\n"

    def close(self):
        self.mirror.stop()
        self._runner.join(20)
        self._server.should_exit = True
        self._serving.join(20)
        self.reader.close()
        self.mirror.close()


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    made = Running(tmp_path_factory.mktemp("browser"))
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and len(made.reader.changes(limit=100)) < 70:
        time.sleep(0.3)
    yield made
    made.close()


@pytest.fixture(scope="module")
def browser():
    with playwright_api.sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield made
        made.close()


@pytest.fixture
def page(browser, running):
    """Return a page that must not complain, nor ask anybody else for anything."""
    context = browser.new_context(base_url=running.root, viewport={"width": 1280, "height": 900})
    made = context.new_page()
    made.set_default_timeout(PATIENCE)
    complaints, asked = [], []
    made.on("console", lambda m: complaints.append(m.text) if m.type in {"error", "warning"} else None)
    made.on("pageerror", lambda error: complaints.append(str(error)))
    made.on("request", lambda request: asked.append(request.url))
    yield made
    context.close()
    assert not complaints
    assert asked
    assert all(url.startswith(running.root + "/") for url in asked)


def tab_to(page, selector, *, most=150):
    """Press Tab until something has the focus."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("s => document.activeElement?.matches(s) ?? false", selector):
            return
    pytest.fail(f"{selector} cannot be reached by Tab")


def focused(page, selector):
    return page.evaluate("s => document.activeElement?.matches(s) ?? false", selector)


def test_the_overview_updates_by_itself(page):
    page.goto("/")
    before = page.inner_text("#live")
    page.wait_for_function("old => document.getElementById('live').innerText !== old", arg=before)
    assert page.inner_text(".big").endswith("%")
    page.focus("#freshness-table summary")
    page.keyboard.press("Enter")
    tab_to(page, "#live a")
    before = page.inner_text("#live")
    page.wait_for_function("old => document.getElementById('live').innerText !== old", arg=before)
    assert page.get_attribute("#freshness-table", "open") is not None  # what was open stays open
    assert focused(page, "#live a")  # and the focus stays where it was


def test_the_overview_can_be_paused(page):
    page.goto("/")
    tab_to(page, "#pause")
    page.keyboard.press("Enter")
    assert page.get_attribute("#pause", "aria-pressed") == "true"
    page.wait_for_timeout(300)  # what was on its way
    before = page.inner_text("#live")
    page.wait_for_timeout(3000)
    assert page.inner_text("#live") == before


def test_figures_under_the_pointer_are_told(page):
    page.goto("/what-if")
    page.locator("#what-if-chart").hover(position={"x": 300, "y": 100})
    told = page.locator("#what-if-chart text.cross").text_content()
    rows = page.locator("#what-if-table tr[data-x]").evaluate_all(
        "rows => rows.map(row => `${row.cells[0].textContent} · ${row.cells[1].textContent}`)"
    )
    assert told in rows
    page.locator("h1").hover()
    assert page.locator(".cross").count() == 0


def test_the_first_stop_leads_to_the_content(page):
    page.goto("/elements")
    page.keyboard.press("Tab")
    assert focused(page, ".skip")
    page.keyboard.press("Enter")
    assert focused(page, "main")


def test_an_element_is_found_and_its_difference_read_and_a_hint_sent(page, running):
    page.goto("/")
    page.keyboard.press("/")
    page.keyboard.type("page 04")
    page.keyboard.press("Enter")
    page.wait_for_url("**/elements?search=page+04")
    tab_to(page, "table.elements a.key")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1.key")
    assert page.inner_text("h1") == "python:page 04"
    assert page.locator("#poll-line").is_visible()
    number = int(page.url.rsplit("/", 1)[1])
    deadline = time.monotonic() + 120
    while page.locator("td a", has_text="difference").count() == 0 and time.monotonic() < deadline:
        page.wait_for_timeout(500)
        page.reload()
    tab_to(page, "td a[href*='/versions/']")
    page.keyboard.press("Enter")
    page.wait_for_selector("pre.difference")
    assert "version" in page.inner_text("pre.difference ins >> nth=0")
    assert "version" in page.inner_text("pre.difference del >> nth=0")
    assert page.inner_text("pre.difference ins .ears >> nth=0").strip() == "added:"
    page.go_back()
    tab_to(page, "#hint")
    page.keyboard.press("Enter")
    page.wait_for_url("**?said=hint")
    assert "has the hint" in page.inner_text("[role=status]")
    with running.reader.store.begin() as t:
        hints = [edit for edit in t.edits(0) if edit.kind == "hint"]
    assert (hints[-1].subject, hints[-1].channel) == (number, "dashboard")


def test_a_budget_is_tried_and_applied(page, running):
    page.goto("/what-if")
    tab_to(page, "#budget")
    page.keyboard.type("40/s")
    page.keyboard.press("Enter")
    page.wait_for_url("**budget=40*")
    assert "40 polls/second" in page.inner_text("#verdict-title")
    tab_to(page, "#slider")
    before = page.inner_text("#verdict")
    for _ in range(20):
        page.keyboard.press("ArrowLeft")
    page.wait_for_function("old => document.getElementById('verdict').innerText !== old", arg=before)
    page.wait_for_function("document.getElementById('verdict-title').innerText.includes('You try')")
    page.wait_for_timeout(500)
    tab_to(page, "#apply")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/what-if/apply"))
    assert page.inner_text("h1").startswith("Set the budget to")
    assert running.reader.status().budget == pytest.approx(15.0)  # only asked yet
    assert not focused(page, "main button")  # nothing is set by pressing Enter once too often
    tab_to(page, "main button")
    page.keyboard.press("Enter")
    page.wait_for_url("**/what-if?said=applied")
    deadline = time.monotonic() + 120
    while running.reader.status().budget == pytest.approx(15.0) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert running.reader.status().budget < 40.0
    assert running.reader.status().budget != pytest.approx(15.0)


def test_an_element_is_added_by_keyboard(page, running):
    page.goto("/")
    tab_to(page, "#to-add")
    page.keyboard.press("Enter")
    page.wait_for_url("**/elements#new-key")
    page.wait_for_selector("#new-key:focus")
    page.keyboard.type("https://example.org/docs/typed")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/elements/\d+"))
    assert running.reader.find("https://example.org/docs/typed").group == "http:example.org"
    running.reader.remove(["https://example.org/docs/typed"])


def test_an_element_is_added_by_touch(browser, running):
    context = browser.new_context(
        base_url=running.root, viewport={"width": 390, "height": 800}, has_touch=True
    )
    touched = context.new_page()
    touched.set_default_timeout(PATIENCE)
    touched.goto("/elements")
    touched.tap("#to-add")
    touched.wait_for_selector("#new-key:focus")
    touched.keyboard.type("https://example.org/docs/touched")
    touched.tap("#add button")
    touched.wait_for_url(re.compile(r"/elements/\d+"))
    assert running.reader.find("https://example.org/docs/touched").group == "http:example.org"
    running.reader.remove(["https://example.org/docs/touched"])
    context.close()


def test_what_is_made_from_several_and_who_reads_are_shown(page):
    for _ in range(3):
        page.request.get("/copies/python:page%2003", headers={"X-User": "ann"})
    page.goto("/")
    page.wait_for_selector("#readers")
    page.wait_for_selector(".reader")
    row = page.locator("section[aria-labelledby=composed] tbody tr")
    assert re.fullmatch(r"the quarterly report .*\s+10\s+all\s+[\d.]+\s?%", row.inner_text())
    assert "ann" in page.locator("section[aria-labelledby=readers]").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_a_telephone(browser, running, scheme):
    number = next(iter(running.reader.elements())).id
    version = running.reader.find("python:page 00").version
    context = browser.new_context(
        base_url=running.root, viewport={"width": 360, "height": 740}, color_scheme=scheme
    )
    page = context.new_page()
    for address in (
        "/", "/what-if?budget=60/s", "/elements", f"/elements/{number}",
        f"/elements/{number}/versions/{version}", "/changes", "/docs",
        "/what-if/apply?budget=50/s", f"/elements/{number}/remove", "/nothing",
        "/rules", f"/elements/{number}/edit", f"/elements/{number}/noise", "/notify",
    ):  # fmt: skip
        page.goto(address)
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, address
    context.close()


@pytest.mark.parametrize("width", [360, 1280])
def test_labels_are_beside_lines_and_fields_in_a_row(browser, running, width):
    context = browser.new_context(base_url=running.root, viewport={"width": width, "height": 740})
    page = context.new_page()
    number = running.reader.find("python:page 05").id
    for address in ("/", "/what-if", "/what-if?objective=age", f"/elements/{number}"):
        page.goto(address)
        gaps = page.evaluate(_GAPS)
        assert gaps or address.startswith("/elements"), address
        assert all(gap > 0 for gap in gaps), (address, gaps)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    tops = page.locator("svg.chart text.mark").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect()).map(box => [box.left, box.right])"
    )
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(sorted(tops))), tops
    page.goto("/elements?sort=weight&down=1")
    heights = page.locator("table a.key").evaluate_all("all => all.map(one => one.offsetHeight)")
    assert max(heights) <= 2.5 * min(heights)
    assert not page.evaluate(_BOXES_ON_STATES)
    fields = page.locator(".filter select, .filter input:visible, .filter button").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect()).map(box => box.bottom)"
    )
    if width > 1000:
        assert max(fields[:3]) - min(fields[:3]) < 0.6, fields
    context.close()


_BOXES_ON_STATES = """() => [...document.querySelectorAll("tr:has(.choose)")].filter((row) => {
  const box = row.querySelector(".choose input").getBoundingClientRect();
  const state = row.querySelector("td > *").getBoundingClientRect();
  return box.bottom > state.top && box.top < state.bottom && box.right > state.left && box.left < state.right;
}).length"""
_GAPS = """() => [...document.querySelectorAll("svg.chart")].flatMap((svg) => {
  const left = svg.querySelector("line.base").getBoundingClientRect().left;
  const edge = svg.getBoundingClientRect().left - 0.5;
  return [...svg.querySelectorAll("text.y")].map((one) => one.getBoundingClientRect())
    .map((box) => Math.min(left - box.right, box.left - edge));
})"""


def test_pages_are_useful_without_a_script(browser, running):
    context = browser.new_context(base_url=running.root, java_script_enabled=False)
    page = context.new_page()
    page.goto("/")
    assert page.inner_text(".big").endswith("%")
    assert page.locator("#freshness-chart path.line").count() >= 1
    page.goto("/what-if")
    page.fill("#freshness", "50")
    page.press("#freshness", "Enter")
    assert page.locator("#verdict .big").is_visible()
    assert page.locator("#slider").is_hidden()
    assert page.locator("#pause").count() == 0
    context.close()


def test_a_rule_is_made_and_undone_by_keyboard(page, running):
    def tags():
        return {one.tags for one in running.reader.elements("python:page 0*")}

    page.goto("/rules")
    page.focus("#match")
    page.keyboard.type("python:page 0*")
    for _ in range(9):  # selector, ignore, change, threshold, weight, max_age, min_interval, group, tags
        page.keyboard.press("Tab")
    page.keyboard.type("quarterly")
    page.keyboard.press("Enter")
    page.wait_for_url("**/rules?changed=10", wait_until="commit")
    assert tags() == {("quarterly",)}
    page.focus("form[action='/undo'] button")
    page.keyboard.press("Enter")
    page.wait_for_url("**said=undone", wait_until="commit")
    assert tags() == {()}


def test_text_can_be_read(browser, running):
    """Contrast of text to its ground, by WCAG 2: at least 4.5."""
    for scheme in ("light", "dark"):
        context = browser.new_context(base_url=running.root, color_scheme=scheme)
        page = context.new_page()
        number = next(iter(running.reader.elements())).id
        more = ("/rules", f"/elements/{number}/edit", "/notify")
        for address in ("/", "/what-if?budget=60/s", "/changes", "/elements", *more):
            page.goto(address)
            worst = page.evaluate(_CONTRAST)
            assert worst["ratio"] >= 4.5, (scheme, address, worst)
        context.close()


_CONTRAST = """() => {
  const numbers = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, n) => sum + v * [0.2126, 0.7152, 0.0722][n], 0);
  const ground = (node) => {
    for (let one = node; one; one = one.parentElement) {
      const colour = numbers(getComputedStyle(one).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  let worst = { ratio: 21 };
  for (const node of document.querySelectorAll("body *:not(svg *)")) {
    const said = [...node.childNodes].some((one) => one.nodeType === 3 && one.data.trim());
    if (!said || !node.checkVisibility()) continue;
    const [a, b] = [light(numbers(getComputedStyle(node).color)), light(ground(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < worst.ratio) worst = { ratio, text: node.textContent.trim().slice(0, 60), tag: node.tagName };
  }
  return worst;
}"""
