"""Every page is there, whole and harmless, whatever is in the mirror."""

import re
from html.parser import HTMLParser

import pytest

from unstale import Mirror
from unstale.dashboard.app import create_app
from unstale.dashboard.guard import Guard, csrf_token
from unstale.dashboard.marked import marked
from unstale.dashboard.place import Place
from unstale.mirror.settings import Settings
from unstale.mirror.source import Found

from .conftest import HOSTILE, TestClient

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
        place = Place(Mirror(tmp_path / "mirror.db", settings=settings, sources=sources), fresh_for=0.0)
        app = create_app(place, Guard())
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
    place = Place(Mirror(tmp_path / "mirror.db"), fresh_for=0.0)
    with TestClient(create_app(place, Guard()), base_url="http://127.0.0.1") as client:
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
    text = marked("-the price is 5 euros today\n+the price is 6 euros today")
    assert "is <mark>5</mark> euros" in text
    assert "is <mark>6</mark> euros" in text
    assert "<mark>" not in marked("-one thing entirely\n+and then another")


@pytest.mark.parametrize(
    "text",
    ["", "\n", "-", "+", "@@ -1 +1 @@\n-a\n+b", "was 5 bytes\nis 6 bytes", "- \n" * 500 + "+ \n" * 500],
)
def test_differences_of_any_kind(text):
    assert re.sub(r"<[^>]*>", "", marked(text)) is not None
    Page(marked(text))


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
    assert "has been set" in checked(client.get(answer.headers["location"])).text


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
    assert client.get("/elements?sort=nothing").status_code == 422


def test_elements_are_added_hinted_and_removed(ask, mirror):
    client, csrf = ask(), csrf_token()
    answer = client.post("/elements/add", data={"csrf": csrf, "key": "https://example.org/a", "weight": "2"})
    assert answer.status_code == 303
    address = answer.headers["location"].partition("?")[0]
    assert mirror.find("https://example.org/a").weight == 2.0
    assert "https://example.org/a" in checked(client.get(answer.headers["location"])).text
    hinted = client.post(f"{address}/hint", data={"csrf": csrf})
    assert "has been noted" in checked(client.get(hinted.headers["location"])).text
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
    mirror.step()
    client = ask()
    first = client.get("/changes").text
    older = re.search(r'href="(/changes\?before=\d+)"', first)
    assert older
    numbers = [re.findall(r'id="change-(\d+)"', text) for text in (first, client.get(older[1]).text)]
    assert len(numbers[0]) == 30
    assert not set(numbers[0]) & set(numbers[1])
    assert numbers[0] == sorted(numbers[0], key=int, reverse=True)
