"""Copies, as readers get them."""

import hashlib
import random
import time
from dataclasses import replace
from email.utils import formatdate
from math import inf, nan
from urllib.parse import quote, unquote

import pytest

from dashboard.conftest import HOSTILE
from unstale.dashboard.api import copies
from unstale.dashboard.api.copies import _BLOCK_BYTES
from unstale.mirror.source import Found


@pytest.fixture
def get(ask):
    return ask().get


def add(mirror, name, body, **found):
    """Add an element and poll it."""
    answer = Found("changed", body=body, **found) if found else body
    element = mirror.add(f"python:{name}", poll=lambda: answer)
    mirror.step()
    return element


def test_a_copy_comes_with_what_is_known_of_it(get, mirror):
    answer = get("/copies/python%3Anews")
    assert answer.status_code == 200
    assert answer.text == "one\ntwo\nthree\n"
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["etag"] == f'"{hashlib.sha256(answer.content).hexdigest()}"'
    assert answer.headers["x-unstale-version"] == str(mirror.find("python:news").version)
    assert answer.headers["x-unstale-key"] == "python:news"
    assert answer.headers["x-unstale-polled"].endswith("Z")
    assert answer.headers["cache-control"] == "no-cache"
    assert 0.5 < float(answer.headers["x-unstale-fresh"]) <= 1.0  # it was polled a moment ago
    assert 0.0 <= float(answer.headers["x-unstale-age"]) < 100.0  # seconds


def test_freshness_of_one_is_what_it_is_among_all(get, mirror, web):
    for turn in range(3):
        web.pages["news"] = f"turn {turn}"
        mirror.step()
    before = mirror.explain("python:news").fresh
    answer = get("/copies/python:news")
    after = mirror.explain("python:news").fresh
    assert after - 1e-6 <= float(answer.headers["x-unstale-fresh"]) <= before + 1e-6


def test_a_hint_makes_a_copy_less_fresh(ask, mirror):
    mirror.hint(["python:news"])
    with mirror.store.begin() as t:
        t.keep({"planner": b'{"hints": [[%d, "api", 2]]}' % mirror.find("python:news").id})
    hinted = ask().get("/copies/python:news")
    other = ask().get("/copies/python:about")
    assert float(hinted.headers["x-unstale-fresh"]) < 0.7 * float(other.headers["x-unstale-fresh"])


def test_head_is_the_same_without_the_copy(ask):
    client = ask()
    got, head = client.get("/copies/python:news"), client.head("/copies/python:news")
    assert head.content == b""
    for name in ("content-length", "content-type", "etag", "last-modified", "x-unstale-version"):
        assert head.headers[name] == got.headers[name]


@pytest.mark.parametrize(
    "key", ["python:a b", "python:a/b?c=d&version=7", "python:a%2Fb", "python:ä/ü", "python:?"]
)
def test_any_key_can_be_named(get, mirror, key):
    add(mirror, key.removeprefix("python:"), "found")
    answer = get(f"/copies/{quote(key, safe='')}")
    assert answer.text == "found"
    assert unquote(answer.headers["x-unstale-key"]) == key


@pytest.mark.parametrize(
    "key", ["python:a/b", "python:a/b?c=d", "python:https://host//x", "python:x/y?version=3"]
)
def test_most_keys_can_be_named_plainly(get, mirror, key):
    add(mirror, key.removeprefix("python:"), "found")
    assert get(f"/copies/{key}").text == "found"


def test_a_query_that_is_no_part_of_the_key_is_not_left_out(get, mirror):
    add(mirror, "a/b", "found")
    assert get("/copies/python:a/b?x=1").status_code == 404
    number = mirror.find("python:a/b").version
    assert get(f"/copies/python:a/b?version={number}").text == "found"


def test_versions(get, mirror, web):
    first = mirror.find("python:news").version
    web.pages["news"] = "later"
    mirror.step()
    latest = mirror.find("python:news").version
    assert latest > first
    assert get("/copies/python:news").text == "later"
    assert get(f"/copies/python:news?version={latest}").text == "later"
    old = get(f"/copies/python:news?version={first}")
    assert old.text == "one\ntwo\nthree\n"
    assert "x-unstale-fresh" not in old.headers
    other = mirror.find("python:about").version
    for wrong in (other, latest + 1, 10**17):
        answer = get(f"/copies/python:news?version={wrong}")
        assert answer.status_code == 404
        assert answer.json()["error"] == f"python:news has no version {wrong}"
    for wrong in ("", "x", "-1", "1.5", "1" * 30, "٣"):
        assert get(f"/copies/python:news?version={wrong}").status_code == 422


def test_what_is_not_there(get, mirror):
    mirror.add("python:never", poll=lambda: None)
    assert get("/copies/python:never").json() == {"error": "python:never has no copy yet"}
    for path in (
        "/copies/",
        "/copies/python:nothing",
        "/copies/%00",
        "/copies/%ff%fe",
        "/copies/" + "x" * 5000,
    ):
        answer = get(path)
        assert answer.status_code == 404
        assert set(answer.json()) == {"error"}


def test_who_has_it_is_told_so(get):
    before = get("/copies/python:news")
    tag, date = before.headers["etag"], before.headers["last-modified"]
    for headers in (
        {"if-none-match": tag},
        {"if-none-match": f'"x", W/{tag}'},
        {"if-none-match": "*"},
        {"if-modified-since": date},
    ):
        answer = get("/copies/python:news", headers=headers)
        assert answer.status_code == 304
        assert answer.content == b""
        assert answer.headers["etag"] == tag
    early = formatdate(time.time() - 1e6, usegmt=True)
    for headers in (
        {"if-none-match": '"x"', "if-modified-since": date},
        {"if-modified-since": early},
        {"if-modified-since": "yesterday"},
        {"if-modified-since": "Mon, 99 Foo 99999 99:99:99 GMT"},
    ):
        assert get("/copies/python:news", headers=headers).status_code == 200


@pytest.mark.parametrize("size", [1000, 3 * _BLOCK_BYTES + 17])
@pytest.mark.parametrize("packed", [True, False])
def test_some_bytes_of_a_copy(get, mirror, size, packed):
    body = random.Random(1).randbytes(size) if not packed else bytes(range(250)) * (size // 250 + 1)  # noqa: S311
    body = body[:size]
    add(mirror, "big", body)

    def part(text, **headers):
        return get("/copies/python:big", headers={"range": text, **headers})

    whole = get("/copies/python:big")
    assert whole.content == body
    assert whole.headers["content-length"] == str(size)
    assert whole.headers["accept-ranges"] == "bytes"
    for text, low, high in (
        ("bytes=0-0", 0, 1),
        ("bytes=10-99", 10, 100),
        ("bytes=-7", size - 7, size),
        (f"bytes={size - 3}-{size + 50}", size - 3, size),
        ("bytes=500-", 500, size),
        (f"bytes=-{size * 2}", 0, size),
    ):
        answer = part(text)
        assert answer.status_code == 206
        assert answer.content == body[low:high]
        assert answer.headers["content-range"] == f"bytes {low}-{high - 1}/{size}"
    for text in (f"bytes={size}-", "bytes=-0", f"bytes={10**17}-"):
        answer = part(text)
        assert answer.status_code == 416
        assert answer.headers["content-range"] == f"bytes */{size}"
    for text in (
        "bytes=5-2",
        "bytes=-",
        "lines=1-2",
        "bytes=a-b",
        "bytes=0-1,5-6",
        "bytes=" + "9" * 40 + "-",
    ):
        assert part(text).content == body
    assert part("bytes=0-0", **{"if-range": whole.headers["etag"]}).status_code == 206
    assert part("bytes=0-0", **{"if-range": '"other"'}).status_code == 200


def test_a_hostile_page_is_in_a_sandbox(get, mirror):
    page = b"<script>fetch('/hints',{method:'POST'})</script>"
    add(mirror, "evil", page, media_type="text/html")
    answer = get("/copies/python:evil")
    assert answer.content == page
    rules = {
        rule.split()[0]: rule.split()[1:] for rule in answer.headers["content-security-policy"].split(";")
    }
    assert rules["sandbox"] == []
    assert rules["default-src"] == ["'none'"]
    assert "script-src" not in rules
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"


@pytest.mark.every(4)
@pytest.mark.parametrize(
    "kind", ["text/html\r\nSet-Cookie: a=b", "", "x", "text/html; charset=\x00", "ä/ö", HOSTILE]
)
def test_content_types_inject_no_headers(get, mirror, kind):
    add(mirror, "odd", b"content", media_type=kind)
    answer = get("/copies/python:odd")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/octet-stream"
    assert "set-cookie" not in answer.headers


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("text/javascript", "text/plain; charset=utf-8"),
        ("Application/X-JavaScript; charset=latin-1", "text/plain; charset=latin-1"),
        ("text/javascript1.5", "text/plain; charset=utf-8"),
        ("application/ecmascript", "text/plain; charset=utf-8"),
        ("text/jscript", "text/plain; charset=utf-8"),
        ("text/livescript ;a=b", "text/plain;a=b"),
        ("text/css", "text/plain; charset=utf-8"),
        ("text/cache-manifest", "text/plain; charset=utf-8"),
        ("multipart/x-mixed-replace; boundary=x", "application/octet-stream"),
        ("application/postscript", "application/postscript"),
    ],
)
def test_a_copy_is_no_script_and_no_style(get, mirror, kind, told):
    add(mirror, "evil", b"alert(1)", media_type=kind)
    answer = get("/copies/python:evil")
    assert (answer.status_code, answer.headers["content-type"]) == (200, told)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"


def test_browsers_that_want_a_part_of_a_page_get_none(get):
    for part in ("script", "style", "worker", "serviceworker", "manifest", "object", "xslt"):
        assert get("/copies/python:news", headers={"sec-fetch-dest": part}).status_code == 403
    for whole in ("document", "empty", "image", "frame"):
        assert get("/copies/python:news", headers={"sec-fetch-dest": whole}).status_code == 200


@pytest.mark.parametrize("moment", [1e300, inf, -inf, nan, -1e11, 3e11])
def test_versions_of_odd_moments_are_served(get, monkeypatch, moment):
    looked = copies._look

    def odd(*given, **named):
        served = looked(*given, **named)
        version, element = replace(served.version, time=moment), replace(served.element, last=moment)
        return replace(served, version=version, element=element)

    monkeypatch.setattr(copies, "_look", odd)
    answer = get("/copies/python:news", headers={"if-modified-since": "Thu, 01 Jan 1970 00:00:00 GMT"})
    assert answer.status_code == 304
    assert answer.headers["last-modified"] == "Thu, 01 Jan 1970 00:00:00 GMT"
    assert "x-unstale-polled" not in answer.headers


def test_moments_that_cannot_be_do_no_harm(get, mirror):
    for name, moment in (("future", 1e15), ("past", -1e12), ("nan", float("nan"))):
        add(mirror, name, b"content", modified=moment)
        assert get(f"/copies/python:{name}").status_code == 200


def test_paths_do_not_leave_the_mirror(get, mirror):
    secret = mirror.copies.place.folder.parent / "secret"
    secret.write_text("secret")
    for path in ("../secret", "..%2fsecret", "%2e%2e/secret", str(secret), f"file://{secret}", "scratch/x"):
        answer = get(f"/copies/{path}")
        assert answer.status_code == 404
        assert answer.text != "secret"


def test_reads_are_counted(ask, mirror):
    client = ask()
    for _ in range(3):
        client.get("/copies/python:news")
    client.head("/copies/python:news")
    client.get("/copies/python:about", headers={"sec-fetch-site": "cross-site"})
    client.get("/copies/python:nothing")
    client.__exit__(None, None, None)
    with mirror.store.begin() as t:
        assert [(element, count) for element, _, count in t.reads(0)] == [(mirror.find("python:news").id, 3)]


def test_a_copy_that_is_damaged_or_lost_is_not_served(get, mirror):
    digest = get("/copies/python:news").headers["etag"].strip('"')
    path = mirror.copies.place.path(digest)
    path.write_bytes(b"something else")
    answer = get("/copies/python:news")
    assert answer.status_code == 503
    assert str(path) not in answer.text
    path.unlink()
    assert get("/copies/python:news").status_code == 503


@pytest.mark.every(3)
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("how", ["cut", "rubbish", "cut a little", "lost"])
def test_a_large_copy_that_is_damaged_is_not_begun(get, mirror, packed, how):
    size = 3 * _BLOCK_BYTES
    body = bytes(range(256)) * (size // 256) if packed else random.Random(1).randbytes(size)  # noqa: S311
    add(mirror, "big", body)
    path = mirror.copies.place.path(hashlib.sha256(body).hexdigest())
    whole = path.read_bytes()
    assert path.suffix == (".zst" if packed else ".raw")
    if how == "lost":
        path.unlink()
    else:
        path.write_bytes(
            {"cut": whole[: len(whole) // 10], "rubbish": b"rubbish", "cut a little": whole[:-1]}[how]
        )
    for headers in ({}, {"range": f"bytes={size - 7}-"}):
        if how == "cut a little" and packed and not headers:
            continue  # which shows at the end only
        answer = get("/copies/python:big", headers=headers)
        assert (answer.status_code, "doctor" in answer.text) == (503, True)


def test_a_large_copy_that_is_damaged_later_on_breaks_off(get, mirror):
    body = random.Random(1).randbytes(_BLOCK_BYTES // 2) * 8  # noqa: S311
    add(mirror, "big", body)
    path = mirror.copies.place.path(hashlib.sha256(body).hexdigest())
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(EOFError, match="a copy that is being sent is damaged"):
        get("/copies/python:big")


def test_what_was_read_just_now_is_at_hand_for_a_moment(monkeypatch):
    now = 100.0
    monkeypatch.setattr(copies.time, "monotonic", lambda: now)
    shelf = copies._RecentCopies(1.0)

    def served(size):
        return copies._Served(None, None, None, bytes(size))

    shelf.put((("a", None),), one := served(10))
    assert shelf.get((("a", None),)) is one
    assert shelf.get((("a", 1),)) is None
    now += 1.5
    assert shelf.get((("a", None),)) is None
    for number in range(100):
        shelf.put(((f"{number}", None),), served(1_000_000))
    assert len(shelf._served) * 1_000_000 <= copies._MOST_RECENT_BYTES
    assert shelf.get((("99", None),)) is not None
    now += 1.5
    shelf.put((("b", None),), served(1))
    assert len(shelf._served) == 1
    assert shelf._size == 4001


LATIN = "text/html; charset=latin-1"


@pytest.mark.parametrize(
    ("body", "kind", "told"),
    [
        ("é".encode(), ("text/html", ""), "text/html; charset=utf-8"),
        ("é".encode("latin-1"), ("text/html", ""), "text/html"),
        ("é".encode("latin-1"), ("text/html", LATIN), LATIN),
        (b"x", ("text/plain", LATIN), "text/plain; charset=utf-8"),
        (b"x", ("text/html", "text/html; a=\r\nX: y"), "text/html; charset=utf-8"),
        (b"PNG", ("image/png", "image/png"), "image/png"),
    ],
)
def test_letters_are_those_of_the_source(get, mirror, body, kind, told):
    add(mirror, "page", body, media_type=kind[0], meta={"headers": {"content-type": kind[1]}})
    answer = get("/copies/python%3Apage")
    assert (answer.headers["content-type"], answer.content) == (told, body)
