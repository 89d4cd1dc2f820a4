"""Every page is there, whole and harmless, whatever is in the mirror."""

import re
import time
from contextlib import contextmanager
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.conftest import HOSTILE, TestClient, client_of, first_copies
from unstale import Mirror, quantities
from unstale.dashboard.access_rules import AccessRules
from unstale.dashboard.app import create_app
from unstale.dashboard.guard import csrf_token
from unstale.dashboard.mirror_gateway import MirrorGateway
from unstale.dashboard.pages import filters
from unstale.dashboard.pages import what_if_values as trying
from unstale.dashboard.pages.diff_html import difference_html
from unstale.mirror.settings import Rule, Settings
from unstale.mirror.source import Found

VOID = {"area", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}
SVG_VOID = {"circle", "line", "path", "rect"}
PAGES = ["/", "/?span=hour", "/what-if", "/elements", "/changes", "/docs", "/fragments/overview"]


class Page(HTMLParser):
    """What is on a page; complains of tags that do not match."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.stack, self.text = [], [], ""
        self.feed(text)
        self.close()
        assert not self.stack

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.stack, f"</{tag}> without <{tag}>"
        assert self.stack.pop() == tag

    def handle_data(self, data):
        self.text += data

    def all(self, *names):
        return [attrs for tag, attrs in self.tags if tag in names]


def checked(answer, *, whole=True, status=200):
    """Return a page that is as every page must be."""
    assert answer.status_code == status, answer.text[:2000]
    page = Page(answer.text)
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids)), sorted(one for one in ids if ids.count(one) > 1)
    for tag, attrs in page.tags:
        assert "style" not in attrs, tag
        assert not any(name.startswith("on") for name in attrs), tag
        assert tag not in {"style", "iframe", "object", "embed"}
        for name in ("aria-labelledby", "aria-describedby"):
            assert all(one in ids for one in attrs.get(name, "").split()), attrs
        if "for" in attrs:
            assert attrs["for"] in ids
        address = attrs.get("href") or attrs.get("src") or attrs.get("action")
        if address:
            assert address.startswith(("/", "#")), address
            assert not address.startswith("//"), address
    for attrs in page.all("form"):
        assert attrs["method"] in {"get", "post"}
    if whole:
        for landmark in ("main", "header", "footer", "nav", "h1"):
            assert page.all(landmark), landmark
        assert len(page.all("main")) == len(page.all("h1")) == 1
        assert page.all("script") == [{"src": "/static/dashboard.js", "defer": None}]
        assert page.all("html")[0]["lang"] == "en"
        assert page.all("a")[0]["href"] == "#content"
    tables, captions = len(page.all("table")), len(page.all("caption"))
    assert tables == captions
    labelled = {attrs["for"] for attrs in page.all("label")}
    for attrs in page.all("input", "select"):
        assert attrs.get("type") == "hidden" or attrs["id"] in labelled, attrs
    return page


class Web:
    """A source whose pages are as they are told."""

    def __init__(self):
        self.pages = {}

    def key(self, text, _):
        return text

    def group(self, key, _):
        return "group:" + key.removeprefix("python:")[:200]

    async def poll(self, known, _):
        found = self.pages.get(known.key, Found("failed", HOSTILE))
        return found() if callable(found) else found

    async def close(self):
        pass


@pytest.fixture
def hostile(tmp_path):
    """Return a client of the dashboard of a mirror with what nobody should mirror, and the mirror."""
    web = Web()
    count = 0

    def page():
        nonlocal count
        count += 1
        body = f"line\n{HOSTILE} {count}\nend </pre></script>\n"
        return Found(
            "changed", HOSTILE, body=body.encode(), media_type="text/plain" + HOSTILE, meta={"title": HOSTILE}
        )

    settings = Settings(budget=1000.0)
    sources = {"python": web}
    keys = [
        f"python:{HOSTILE}",
        "python:javascript:alert(1)",
        "python:\u202eevil\x1b[0m",
        "python:" + "x" * 2000,
    ]
    with Mirror(tmp_path / "mirror.db", settings=settings, sources=sources) as mirror:
        for key in keys:
            web.pages[key] = page
            mirror.add(key)
        mirror.add(f"python:failing {HOSTILE}")
        for _ in range(3):
            mirror.hint([one.key for one in mirror.elements() if one.state == "ok"])
            mirror.step()
        gateway = MirrorGateway(
            Mirror(tmp_path / "mirror.db", settings=settings, sources=sources), fresh_for=0.0
        )
        app = create_app(gateway, AccessRules())
        with TestClient(app, base_url="http://127.0.0.1:8321", follow_redirects=False) as client:
            yield client, mirror


def addresses_of(mirror):
    found = list(PAGES)
    for element in mirror.elements():
        found += [f"/elements/{element.id}", f"/elements/{element.id}/remove"]
        with mirror.store.begin() as t:
            found += [f"/elements/{element.id}/versions/{v.id}" for v in t.versions(element=element.id)]
    return found


@pytest.mark.parametrize("address", PAGES)
def test_pages_of_an_empty_mirror(tmp_path, address):
    gateway = MirrorGateway(Mirror(tmp_path / "mirror.db"), fresh_for=0.0)
    with TestClient(create_app(gateway, AccessRules()), base_url="http://127.0.0.1") as client:
        checked(client.get(address), whole="fragments" not in address)


def test_pages_of_a_small_mirror(ask, mirror):
    client = ask()
    for address in [*addresses_of(mirror), "/what-if?budget=2000000/day", "/what-if?objective=age"]:
        checked(client.get(address), whole="fragments" not in address)


def test_pages_of_a_hostile_mirror(hostile):
    client, mirror = hostile
    seen = ""
    for address in addresses_of(mirror):
        answer = client.get(address)
        page = checked(answer, whole="fragments" not in address)
        assert "<script>alert" not in answer.text
        assert "javascript:" not in [a.get("href", "")[:11] for a in page.all("a")]
        seen += page.text
    assert HOSTILE.split("\r")[0] in seen  # it is shown, as text
    assert "end </pre></script>" in seen


def test_links_lead_somewhere(ask, mirror, web):
    web.pages["news"] = "one\n2\nthree\n"
    mirror.hint(["python:news"])
    mirror.step()
    client = ask()
    todo, done = ["/"], set()
    while todo:
        address = todo.pop().partition("#")[0]
        if not address or address in done:
            continue
        done.add(address)
        answer = client.get(address, headers={"Accept": "text/html"})
        assert answer.status_code == 200, address
        if "text/html" in answer.headers["content-type"] and not address.startswith("/copies/"):
            page = Page(answer.text)
            todo += [a["href"] for a in page.all("a", "link") if a.get("href")]
            ids = {attrs.get("id") for _, attrs in page.tags}
            assert all(a["href"][1:] in ids for a in page.all("a") if a.get("href", "").startswith("#"))
        assert len(done) < 300
    assert {"/changes", "/what-if", "/docs", "/changes.atom", "/metrics"} <= done


def test_a_difference_is_shown(ask, mirror, web):
    web.pages["news"] = "one\n2 & more\nthree\n"
    mirror.hint(["python:news"])
    mirror.step()
    element = mirror.find("python:news")
    text = ask().get(f"/elements/{element.id}/versions/{element.version}").text
    assert '<del><span class="ears">removed: </span>two\n</del>' in text
    assert '<ins><span class="ears">added: </span>2 &amp; more\n</ins>' in text
    assert "2 &amp; more" in ask().get("/changes").text


def test_words_that_differ_stand_out():
    text = difference_html("-the price is 5 euros today\n+the price is 6 euros today")
    assert "is <mark>5</mark> euros" in text
    assert "is <mark>6</mark> euros" in text
    assert "<mark>" not in difference_html("-one thing entirely\n+and then another")


@pytest.mark.parametrize(
    "text",
    ["", "\n", "-", "+", "@@ -1 +1 @@\n-a\n+b", "was 5 bytes\nis 6 bytes", "- \n" * 500 + "+ \n" * 500],
)
def test_differences_of_any_kind(text):
    assert re.sub(r"<[^>]*>", "", difference_html(text)) is not None
    Page(difference_html(text))


def test_what_if_tells_what_is_wrong(ask):
    client = ask()
    for query in (
        "budget=many",
        "budget=20MB/h",
        "budget=0/day",
        "freshness=150",
        "freshness=x",
        "budget=1e80/day",
    ):
        page = checked(client.get(f"/what-if?{query}"), status=422)
        assert any(attrs.get("role") == "alert" for _, attrs in page.tags), query
    assert client.get("/what-if?objective=other").status_code == 404


def test_ideas_are_on_the_page_of_what_if(ask):
    page = checked(ask().get("/what-if?ideas=1"))
    assert "Other ideas, at the present budget" in page.text
    assert '[mirror] order = "random"' in page.text


def test_targets_are_on_the_overview(tmp_path):
    settings = Settings(budget=1000.0, rules=(Rule("python:n*", target=0.9),))
    with Mirror(tmp_path / "mirror.db", settings=settings) as mirror:
        mirror.add("python:news", poll=lambda: "news")
        mirror.add("python:about", poll=lambda: "about")
        mirror.step()
        with client_of(mirror.store.url, settings) as client:
            text = checked(client.get("/")).text
            (told,) = client.get("/api/status").json()["targets"]
    assert "Targets" in text
    assert "python:n*" in text
    assert (told["rule"], told["elements"], told["target"], told["kept"]) == ("python:n*", 1, 0.9, True)


def test_a_budget_is_applied_after_asking(ask, mirror):
    client = ask()
    page = checked(client.get("/what-if?budget=500/s"))
    link = next(a["href"] for a in page.all("a") if a.get("id") == "apply")
    page = checked(client.get(link))
    fields = {a["name"]: a["value"] for a in page.all("input") if a.get("type") == "hidden"}
    assert mirror.status().budget == 1000.0  # only asked yet
    answer = client.post("/what-if/apply", data=fields)
    assert answer.status_code == 303
    assert mirror.status().budget == pytest.approx(500.0)
    assert "The new budget counts" in checked(client.get(answer.headers["location"])).text


def test_both_budgets_are_named_before_and_after_in_one_unit(tmp_path):
    settings = Settings(budget=2.0, byte_budget=1e9 / 86400)
    with Mirror(tmp_path / "mirror.db", settings=settings) as mirror:
        mirror.add("python:a", poll=lambda: "x")
        mirror.step()
        with client_of(mirror.store.url, settings) as client:
            page = checked(client.get("/what-if/apply?budget=5/s"))
            assert "Set the budget to 5 polls/second and 2.5 GB/day?" in page.text
            assert "from 2 to 5 polls/second" in page.text
            assert "from 1 to 2.5 GB/day" in page.text
            assert not any("autofocus" in attrs for _, attrs in page.tags)
            assert "Nothing to keep fresh" not in page.text


def test_an_empty_mirror_is_told_what_to_do(tmp_path):
    with client_of(str(tmp_path / "mirror.db"), Settings(budget=1.0)) as client:
        for address in ("/", "/what-if", "/fragments/what-if"):
            page = checked(client.get(address), whole="fragments" not in address)
            assert "Nothing to keep fresh yet" in page.text
            assert "/elements#add" in [a.get("href") for a in page.all("a")]
            assert not any(attrs.get("role") == "alert" for _, attrs in page.tags)


def test_weights_of_nothing_are_told(tmp_path):
    with Mirror(tmp_path / "mirror.db", settings=Settings(budget=1.0)) as mirror:
        mirror.add("python:a", poll=lambda: "x", weight=0.0)
        with client_of(mirror.store.url, mirror.settings) as client:
            assert "give some a weight above 0" in checked(client.get("/what-if")).text


def test_nobody_runs_it(ask, mirror):
    mirror.add("python:third", poll=lambda: "x")
    client = ask()
    page = checked(client.get("/"))
    assert "Nobody polls this mirror. Start it with: unstale run" in page.text
    assert "In this order, when somebody runs it" in page.text
    assert "1 element has not been polled yet" in page.text
    assert "every element gets the polls that it is worth" not in page.text
    assert "in line" not in page.text
    page = checked(client.get(f"/elements/{mirror.find('python:third').id}"))
    assert "when somebody runs it" in page.text
    assert "due now" not in page.text
    assert 'class="mark next"' not in client.get(f"/elements/{mirror.find('python:news').id}").text
    mirror.remove(["python:third"])
    assert "as long as nobody runs" in checked(client.get("/")).text


def test_somebody_runs_it(ask, mirror):
    mirror.add("python:third", poll=lambda: "x")
    with mirror.store.begin() as t:
        t.alive("elsewhere:1:x", mirror.clock.now(), mirror.clock.now() + 60.0)
    client = ask()
    for address in ("/", f"/elements/{mirror.find('python:news').id}"):
        text = checked(client.get(address)).text
        assert "Nobody" not in text
        assert "when somebody" not in text
    assert "1 element has not been polled yet" in checked(client.get("/")).text


def test_what_is_not_known_is_not_told_as_known(ask, mirror):
    mirror.add("python:third", poll=lambda: "x")
    client = ask()
    text = checked(client.get(f"/elements/{mirror.find('python:third').id}")).text
    assert "the mirror takes it to be like the others" in text
    assert "90 % interval" not in text
    assert "no copy yet" in text
    assert "90 % interval" in checked(client.get(f"/elements/{mirror.find('python:news').id}")).text
    text = checked(client.get("/what-if")).text
    assert "1 of 3 elements has not been polled yet" in text
    text = checked(client.get("/what-if?freshness=99.99999999999"), status=422).text
    assert "As far as is known, no budget" in text


def test_the_wait_between_retries_is_told(tmp_path):
    pages, settings = dict.fromkeys("abcd", "x"), Settings(budget=20.0)
    said = "after a failure the mirror waits before it tries again"
    with Mirror(tmp_path / "mirror.db", settings=settings) as mirror:
        for name in pages:
            mirror.add(f"python:{name}", poll=lambda name=name: pages[name])

        def poll():
            mirror.hint([f"python:{name}" for name in "abcd"])
            time.sleep(0.1)
            mirror.step()

        while mirror.status().price == 0 or not mirror.status().polls.get("unchanged"):
            poll()
        with client_of(mirror.store.url, settings) as client:
            number = mirror.find("python:a").id
            assert said not in checked(client.get(f"/elements/{number}")).text
            pages.clear()
            while mirror.find("python:a").state != "failing":
                poll()
            assert said in checked(client.get(f"/elements/{number}")).text


def test_a_gone_page_is_no_failure_and_has_no_freshness(tmp_path):
    found, settings = ["x"], Settings(budget=20.0)
    with Mirror(tmp_path / "mirror.db", settings=settings) as mirror:
        mirror.add("python:a", poll=lambda: found[0])
        for _ in range(3):
            mirror.step()
        found[0] = Found("gone", "404 Not Found")
        while mirror.find("python:a").state != "gone":
            mirror.hint(["python:a"])
            time.sleep(0.1)
            mirror.step()
        with client_of(mirror.store.url, settings) as client:
            text = checked(client.get(f"/elements/{mirror.find('python:a').id}")).text
            assert "the last copy stays" in text
            assert "Not there" in text
            assert "probability" not in text
            assert "Why then" not in text
            assert "Failed" not in text
            assert "0 %" not in checked(client.get("/elements")).text
            text = checked(client.get("/")).text
            assert re.search(r"Gone\s*1", text)


def test_the_first_minute_says_the_same_everywhere(ask, mirror):
    assert mirror.samples()[-1].freshness == 0.0  # from before the first poll
    page = checked(ask().get("/"))
    hero = re.search(r"Fresh now, estimated\s+([\d.]+ %)", page.text)
    predicted = re.search(r"Plan predicts([\d.]+ %)", page.text)
    assert hero
    assert predicted
    assert f"Estimated {hero[1]}" in page.text
    assert f"Plan predicts {predicted[1]}" in page.text
    assert "in the last minute" in page.text


def test_what_is_not_of_now_says_so(tmp_path):
    gateway = MirrorGateway(Mirror(tmp_path / "mirror.db", settings=Settings(budget=1.0)), fresh_for=3600.0)
    gateway.mirror.add("python:a", poll=lambda: "x")
    with TestClient(create_app(gateway, AccessRules()), base_url="http://127.0.0.1") as client:
        assert "These figures are of" not in checked(client.get("/")).text
        now, clock = gateway.mirror.clock.now(), gateway.mirror.clock
        gateway.mirror.clock = SimpleNamespace(now=lambda: now + 3600.0)
        page = checked(client.get("/"))
        gateway.mirror.clock = clock
        assert re.search(r"These figures are of \d\d:\d\d:\d\d UTC", page.text)


def test_pages_say_which_mirror_it_is(tmp_path):
    (tmp_path / "news").mkdir()
    with client_of(str(tmp_path / "news" / "mirror.db"), Settings(budget=1.0)) as client:
        for address in ("/", "/elements", "/what-if", "/changes", "/docs"):
            answer = client.get(address)
            assert " · news · unstale</title>" in answer.text
            assert "Mirror: news" in checked(answer).text


@given(st.floats(1e-6, 1e12), st.sampled_from(["polls", "bytes"]), st.none() | st.integers(1, 8))
def test_budgets_are_read_as_they_are_written(budget, kind, digits):
    about = SimpleNamespace(unit=kind, present=1.0)
    text = filters.written(budget, kind, digits)
    read = trying._amount(text, about)
    assert read == pytest.approx(budget, rel=5.001 * 10.0 ** -(digits or 3))
    assert "e" not in text.partition("/")[0]
    assert trying._amount(filters.written(read, kind, 15), about) == pytest.approx(read, rel=1e-12)


def test_plain_numbers_have_the_unit_of_the_page():
    assert trying._amount("20", SimpleNamespace(unit="bytes", present=8333.3)) == pytest.approx(20e6 / 86400)
    assert trying._amount("1,000", SimpleNamespace(unit="polls", present=1.0)) == pytest.approx(1000 / 86400)
    assert trying._amount("50", SimpleNamespace(unit="polls", present=70.0)) == 50.0


def test_a_freshness_is_tried(ask):
    page = checked(ask().get("/what-if?freshness=90"))
    assert "You try" in page.text or "No budget" in page.text


def test_elements_are_found_filtered_sorted_and_paged(ask, mirror):
    mirror.add_many([])
    for n in range(120):
        mirror.add(f"python:page {n:03d}", poll=lambda: "x", weight=n + 1.0)
    client = ask()

    def keys(query):
        text = client.get(f"/elements?{query}").text
        return re.findall(r'<th scope="row"><a class="key" href="/elements/\d+">python:([^<]*)', text)

    assert keys("search=page+01") == [f"page {n:03d}" for n in range(10, 20)]
    assert keys("sort=weight&down=1")[:2] == ["page 119", "page 118"]
    assert keys("search=page&page=3") == [f"page {n:03d}" for n in range(100, 120)]
    assert keys("state=ok") == ["about", "news"]
    assert keys("search=%25") == keys("search='") == keys("group=none") == []
    assert client.get("/elements?page=-3").status_code == 200
    assert keys("page=999999") == keys("page=3")
    page = checked(client.get("/elements?page=999999&sort=weight&search=page"))
    assert "Page 3 of 3" in page.text
    assert "/elements?search=page&sort=weight" in [a.get("href") for a in page.all("a")]  # the first
    fields = {a["name"]: a.get("value") for a in page.all("input") if a.get("type") == "hidden"}
    assert (fields["sort"], fields["search"]) == ("weight", "page")
    last = checked(client.get("/elements")).all("a")
    assert "/elements?page=3" in [a.get("href") for a in last]
    assert client.get("/elements?sort=nothing").status_code == 422


def test_long_keys_are_cut_and_told_whole(ask, mirror):
    key = "python:" + "x" * 900
    mirror.add(key, poll=lambda: "x")
    client = ask()
    for address in ("/", "/elements"):
        page = checked(client.get(address))
        assert key in [a.get("title") for a in page.all("a")]


def test_elements_are_added_hinted_and_removed(ask, mirror):
    client, csrf = ask(), csrf_token()
    answer = client.post("/elements/add", data={"csrf": csrf, "key": "https://example.org/a", "weight": "2"})
    assert answer.status_code == 303
    address = answer.headers["location"].partition("?")[0]
    assert mirror.find("https://example.org/a").weight == 2.0
    assert "https://example.org/a" in checked(client.get(answer.headers["location"])).text
    hinted = client.post(f"{address}/hint", data={"csrf": csrf})
    assert "The mirror has the hint" in checked(client.get(hinted.headers["location"])).text
    assert client.post(f"{address}/remove", data={"csrf": csrf}).status_code == 303
    assert mirror.find("https://example.org/a").state == "removed"
    assert "removed" in checked(client.get(address)).text


@pytest.mark.parametrize(
    ("key", "weight"),
    [("file:/etc/passwd", ""), ("no address", ""), ("https://example.org/", "x"), ("", "-1")],
)
def test_what_cannot_be_added_is_told(ask, mirror, key, weight):
    answer = ask().post(
        "/elements/add", data={"csrf": csrf_token(), "key": key or "https://e.org/", "weight": weight}
    )
    page = checked(answer, status=422)
    assert any(attrs.get("role") == "alert" for _, attrs in page.tags)
    assert sum(1 for _ in mirror.elements()) == 2


@pytest.mark.parametrize(
    "path", ["/elements/1/hint", "/elements/1/remove", "/elements/add", "/what-if/apply"]
)
def test_forms_of_others_are_refused(ask, mirror, path):
    before = [(one.key, one.state) for one in mirror.elements()]
    answer = ask().post(path, data={"key": "https://example.org/", "budget": "1/day"})
    assert answer.status_code == 403
    assert [(one.key, one.state) for one in mirror.elements()] == before


@pytest.mark.parametrize(
    "path",
    ["/elements/999", "/elements/0", "/elements/-1", f"/elements/{10**30}", "/elements/1/versions/999",
     "/nothing", "/?span=eternity"],
)  # fmt: skip
def test_what_is_not_there(ask, path):
    answer = ask().get(path, headers={"Accept": "text/html"})
    assert answer.status_code in {404, 422}
    assert "<h1>" in answer.text


def test_changes_can_be_paged(ask, mirror):
    for n in range(45):
        mirror.add(f"python:{n}", poll=lambda: "x")
    first_copies(mirror)
    client = ask()
    first = client.get("/changes").text
    older = re.search(r'href="(/changes\?before=\d+)"', first)
    assert older
    numbers = [re.findall(r'id="change-(\d+)"', text) for text in (first, client.get(older[1]).text)]
    assert len(numbers[0]) == 30
    assert not set(numbers[0]) & set(numbers[1])
    assert numbers[0] == sorted(numbers[0], key=int, reverse=True)


def test_elements_are_shown_with_how_fresh_they_are_and_how_often_they_change(ask, mirror):
    mirror.add("python:new", poll=lambda: "x")
    page = ask().get("/elements").text
    assert page.count('title="probability that its copy is fresh"') == 2  # of the new one nothing is known
    assert page.count('title="how often it changes, as estimated"') == 2


def test_a_budget_that_was_set_is_told_beside_that_of_the_file(ask, mirror):
    client = ask()
    assert "mirror.toml says" not in client.get("/").text
    mirror.set_budget(2.0)
    assert (
        "You set this budget later; that of mirror.toml (1,000 polls/second) counts again"
        in client.get("/").text
    )


def hourly(text="3600/h"):
    return Settings(budget=quantities.flow("budget", text).per_second)


@contextmanager
def page_of(store, settings, *keys):
    """Give what asks for pages of a mirror with some elements, and the mirror."""
    with Mirror(store, settings=settings) as mirror, client_of(str(store), settings) as client:
        for key in keys:
            mirror.add(key)
        yield client, mirror


def test_a_budget_comes_back_in_the_unit_in_which_it_was_written(tmp_path):
    with page_of(tmp_path / "mirror.db", hourly(), "https://example.org/a") as (client, _):
        assert "the budget is 3,600 polls/hour" in checked(client.get("/")).text
        page = checked(client.get("/what-if"))
        fields = {attrs["id"]: attrs for attrs in page.all("input") if "id" in attrs}
        assert fields["budget"]["placeholder"] == "3600/hour"
        assert (fields["slider"]["data-unit"], fields["slider"]["data-seconds"]) == ("hour", "3600.0")
        assert "Now: 3,600 polls/hour" in page.text
        tried = checked(client.get("/what-if?budget=120/min")).text
        assert "You try: 7,200 polls/hour" in tried  # beside the present one, so in its unit


def test_what_the_spacing_of_a_host_makes_flat_is_said(tmp_path):
    with page_of(tmp_path / "mirror.db", hourly("7200/h"), "https://example.org/a") as (client, _):
        said = checked(client.get("/what-if")).text
        assert (
            "From 3,273 polls/hour on the curve is flat: example.org takes one poll each 1 second (spacing)."
            in said
        )
    hosts = [f"https://{n}.example.org/a" for n in range(5)]
    with page_of(tmp_path / "several.db", hourly("36000/h"), *hosts) as (client, _):
        said = checked(client.get("/what-if")).text
        assert "0.example.org, 1.example.org, 2.example.org and 2 more take one poll each 1 second" in said
    with page_of(tmp_path / "slow.db", hourly("1/h"), "https://example.org/a") as (client, _):
        assert "is flat" not in checked(client.get("/what-if")).text


def test_an_address_does_not_repeat_the_host_that_stands_beside_it(tmp_path):
    keys = "https://example.org/docs/a.html", "https://example.org/"
    with page_of(tmp_path / "mirror.db", hourly(), *keys) as (client, mirror):
        text = client.get("/elements").text
        assert '<span class="ears">https://example.org</span>/docs/a.html</a>' in text
        assert ">https://example.org/</a>" in text
        assert '<span class="ears">https://example.org</span>/docs/a.html</a>' in client.get("/").text
        mirror.add("https://example.net/docs/a.html")  # now the host says something
        assert ">https://example.org/docs/a.html</a>" in client.get("/").text


def test_what_a_newcomer_does_not_know_comes_last(ask):
    text = checked(ask().get("/")).text
    assert text.index("Expected age of a copy") < text.index("Traffic") < text.index("Price of a poll")


def test_polls_are_told_as_a_share_of_a_days_budget(tmp_path):
    with page_of(tmp_path / "mirror.db", Settings(budget=10 / 86400)) as (client, mirror):
        mirror.add("python:a", poll=lambda: "a")
        mirror.step()
        page = checked(client.get("/"))
        assert "10.0 % of what a day\u2019s budget allows" in page.text
        assert "1 in the last minute; the budget is 10 polls/day" in page.text
        assert next(a["value"] for a in page.all("meter") if a["id"] == "polls-used") == "0.1"


def test_there_is_a_button_to_add(ask):
    for address, target in (("/", "/elements#new-key"), ("/elements", "#new-key")):
        links = [attrs for attrs in checked(ask().get(address)).all("a") if attrs.get("id") == "to-add"]
        assert [one["href"] for one in links] == [target]
