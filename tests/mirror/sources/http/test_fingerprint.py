"""What counts as a change, and what does not."""

import pickle
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale.errors import InvalidInput
from unstale.mirror.sources.http.fingerprint import (
    BYTES,
    ChangeDefinition,
    NoContent,
    check_content_options,
    definition_of,
    fingerprint_of,
    title_of,
)
from unstale.mirror.sources.http.links import read_links

HTML = "text/html; charset=utf-8"


def page(main="<p>It rains.</p>", *, ad="buy this", extra=""):
    return f"""<!DOCTYPE html><html><head><title>Weather</title><script>var t = {ad!r};</script></head><body>
    <nav><a href="/">Home</a> <a href="/about">About</a></nav>
    <div class="ad">{ad}</div>
    <main><article><h1>Weather in the north</h1>{main}<p>{"The forecast for the next days is long. " * 20}</p>
    </article></main><footer>{extra}</footer></body></html>""".encode()


def same(options, one, other, kind=HTML):
    wanted = definition_of(options)
    return fingerprint_of(wanted, one, kind) == fingerprint_of(wanted, other, kind)


def test_bytes_are_all_that_counts_by_default():
    assert definition_of({}) is BYTES
    assert definition_of({"change": "bytes"}) is BYTES
    assert not same({}, page(), page() + b" ")


def test_the_main_text_is_what_people_read():
    options = {"change": "text"}
    assert same(options, page(), page(ad="buy that", extra="now"))
    assert same(options, page("<p>It rains.</p>"), page("<p class='new'>It\n   rains.</p>"))
    assert not same(options, page("<p>It rains.</p>"), page("<p>It snows.</p>"))


def test_all_text_counts_if_there_is_no_main_text():
    options = {"change": "text"}
    bare = b"<html><body><span>%s</span><script>%s</script></body></html>"
    assert same(options, bare % (b"a", b"1"), bare % (b"a", b"2"))
    assert not same(options, bare % (b"a", b"1"), bare % (b"b", b"1"))


def test_it_is_said_that_all_text_counts():
    wanted = definition_of({"change": "text"})
    bare = fingerprint_of(wanted, b"<html><body></body></html>", "text/html")
    assert bare.note.startswith("no main text was found, so all visible text counts")
    assert pickle.loads(pickle.dumps(bare)).note == bare.note  # noqa: S301  (a child process makes some)
    assert fingerprint_of(wanted, page(), "text/html").note == ""


def test_text_that_is_no_page_is_text():
    options = {"change": "text"}
    assert same(options, b"a  b\n", b"a b", "text/plain")
    assert not same(options, b"a b", b"a c", "text/plain")
    assert not same(options, b"\x89PNG\x00\x01", b"\x89PNG\x00\x02", "image/png")


def test_a_selector_says_where_to_look():
    options = {"selector": "main p, h1"}
    assert definition_of(options).change == "text"
    assert same(options, page(ad="this"), page(ad="that"))
    assert same(options, page("<p>It rains.</p>"), page("<p id=x>It <b>rains.</b></p>"))
    assert not same(options, page("<p>It rains.</p>"), page("<p>It snows.</p>"))
    markup = {**options, "change": "bytes"}
    assert not same(markup, page("<p>It rains.</p>"), page("<p id=x>It rains.</p>"))
    assert same(markup, page(ad="this"), page(ad="that"))


def test_scripts_are_no_text_unless_selected():
    assert same({"selector": "html"}, page(), page().replace(b"var t", b"var u"))
    assert not same({"selector": "script"}, page(), page().replace(b"var t", b"var u"))


def test_what_a_selector_does_not_find_is_told():
    with pytest.raises(NoContent, match=r"the selector 'table\.prices' finds nothing"):
        fingerprint_of(definition_of({"selector": "table.prices"}), page(), HTML)
    for empty in (b"", b"   ", b"<!-- -->"):
        with pytest.raises(NoContent):
            fingerprint_of(definition_of({"selector": "p"}), empty, HTML)


def test_patterns_are_ignored():
    options = {"ignore": [r"\d+ visitors", "(?i)buy \\w+"]}
    assert same(
        options, page(extra="12 visitors"), page(extra="7 visitors", ad="Buy that").replace(b"Buy", b"buy")
    )
    assert not same(options, page(extra="12 visitors"), page(extra="12 guests"))
    assert same(
        {"change": "text", "ignore": "It .{3,5}s"}, page("<p>It rains.</p>"), page("<p>It snows.</p>")
    )
    assert same({"selector": "footer", "ignore": r"\d+"}, page(extra="1 2"), page(extra="30"))


def test_bytes_that_are_no_text_still_count_with_patterns():
    options = {"ignore": "x"}
    for kind in (
        HTML,
        "text/html; charset=latin-1",
        "text/html; charset=utf-16",
        "x; charset=no-such",
        "",
        "image/png",
    ):
        assert not same(options, b"\xff\xfe\x00a", b"\xff\xfd\x00a", kind), kind
        assert same(options, b"axb", b"ab", kind), kind


charsets = st.sampled_from([
    "utf-8", "latin-1", "cp1252", "shift_jis", "utf-16", "utf-7", "rot13", "hex", "idna", "punycode",
    "unicode_escape", "koi8-r", "\x00", "undefined",
])  # fmt: skip


@given(st.binary(max_size=30), st.binary(max_size=30), charsets)
def test_other_bytes_always_are_other_content(one, other, charset):
    options, kind = {"ignore": "^nothing at all$"}, f"text/html; charset={charset}"
    assert same(options, one, other, kind) == (one == other)


def test_a_pattern_that_would_take_for_ever_is_given_up(monkeypatch):
    monkeypatch.setattr("unstale.mirror.sources.http.fingerprint._PATTERNS_TIMEOUT_SECONDS", 0.2)
    began = time.monotonic()
    with pytest.raises(NoContent, match="takes too long"):
        fingerprint_of(definition_of({"ignore": r"(x|xx|xxx|[a-z]x)+(x|y)+\1$"}), b"x" * 5000 + b"!", HTML)
    assert time.monotonic() - began < 60.0  # and not for ever


def test_json_is_compared_by_value():
    options = {"change": "json"}
    assert same(options, b'{"a": [1, 2], "b": "\\u00e4"}', '{"b":"ä","a":[1,2]}'.encode())
    assert not same(options, b"[1, 2]", b"[2, 1]")
    pointed = {"change": "json", "selector": "/items/0/a~1b"}
    assert same(pointed, b'{"time": 1, "items": [{"a/b": 7}]}', b'{"time": 2, "items": [{"a/b": 7}]}')
    for bad in (b"", b"{", b"[" * 100_000, b"1" * 10_000, b"\xff", b'{"items": []}', b"7"):
        with pytest.raises(NoContent):
            fingerprint_of(definition_of(pointed), bad)


def test_no_two_definitions_make_the_same_fingerprint():
    definitions = [
        definition_of(options)
        for options in (
            {}, {"change": "text"}, {"change": "json"}, {"selector": "p"}, {"selector": "h1"},
            {"selector": "p", "change": "bytes"},
            {"ignore": "a"}, {"ignore": ["a", "b"]}, {"ignore": ["b", "a"]},
            {"selector": "p", "ignore": "a"}, {"change": "text", "ignore": "a"},
        )
    ]  # fmt: skip
    names = {one.name for one in definitions}
    assert len(names) == len(definitions)
    for one in definitions:
        assert fingerprint_of(one, b"7" if one.change == "json" else page(), HTML).startswith(f"{one.name}:")
    assert definition_of({"ignore": "a"}) == definition_of({"ignore": ["a"]})


bodies = st.binary(max_size=200) | st.text(max_size=100).map(
    lambda text: f"<html><p>{text}".encode("utf-8", "replace")
)
kinds = [
    "text/html",
    "text/html; charset=utf-16",
    "application/xhtml+xml",
    "text/plain",
    "",
    "x; charset=\x00",
]


@given(bodies, st.sampled_from(kinds))
def test_any_body_has_a_fingerprint_or_a_reason(body, kind):
    said = [("text",), ("text", "p"), ("bytes", "p"), ("json",), ("bytes", None, ("a",))]
    for wanted in (*(ChangeDefinition(*one) for one in said), BYTES):
        with suppress(NoContent):
            found = fingerprint_of(wanted, body, kind)
            assert found == fingerprint_of(wanted, body, kind)
            assert found.startswith(f"{wanted.name}:")
    found = title_of(body, kind)
    assert found is None or (found.isprintable() and len(found) <= 300)


def test_a_parser_that_breaks_is_a_reason_too(monkeypatch):
    def broken(_):
        raise RuntimeError("no\nidea")

    monkeypatch.setattr("unstale.mirror.sources.http.fingerprint._tree", broken)
    with pytest.raises(NoContent, match="the content cannot be read: RuntimeError"):
        fingerprint_of(ChangeDefinition("text", "p"), page(), HTML)


def test_a_page_of_ten_thousand_levels():
    deep = b"<div>" * 10_000 + b"text" + b"</div>" * 10_000
    for wanted in (ChangeDefinition("text"), ChangeDefinition("text", "div")):
        with suppress(NoContent):
            fingerprint_of(wanted, deep, HTML)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"<html><title>A</title>", "A"),
        (b"<html><TITLE lang=en>\n A  &lt;b&gt; \n</TITLE>", "A <b>"),
        ("<html><title>Bücher</title>".encode(), "Bücher"),
        (b"<html><meta charset=latin-1><title>B\xfccher</title>", "Bücher"),
        (b"<html><title>A\x00\x1b[31mB</title>", "A[31mB"),
        (b"<html><title></title>", None),
        (b"<html><title>never ends", None),
        (b"<html><p>none", None),
        (b"<html>" + b"<title" * 5000, None),
    ],
)
def test_titles(body, found):
    assert title_of(body, "text/html") == found
    assert title_of(body, "application/pdf") is None


@pytest.mark.parametrize("codec", ["idna", "undefined", "hex", "zlib", "rot13", "base64", "punycode", "mbcs"])
@pytest.mark.parametrize("where", ["header", "page"])
def test_a_codec_that_is_no_charset_does_no_harm(codec, where):
    """Python knows codecs that are no charsets of texts; a page that names one broke its poll."""
    kind = f"text/html; charset={codec}" if where == "header" else "text/html"
    meta = f"<meta charset={codec}>" if where == "page" else ""
    body = f"<html>{meta}<title>B\xfccher</title><p>text<a href=b>b</a>".encode("latin-1")
    assert title_of(body, kind).startswith("B")
    for wanted in (ChangeDefinition("text"), ChangeDefinition("text", "p")):
        with suppress(NoContent):
            fingerprint_of(wanted, body, kind)
    assert read_links(body, "http://a/", kind).links == ("http://a/b",)


def test_missing_parts_are_named(monkeypatch):
    import importlib

    from unstale.errors import MissingExtra
    from unstale.mirror.sources.http import fingerprint

    def absent(name, *_):
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr("unstale.errors.import_module", absent)
    fingerprint._css.cache_clear()
    fingerprint._compiled.cache_clear()
    importlib.invalidate_caches()
    for options in ({"change": "text"}, {"selector": "p"}, {"ignore": "a"}):
        with pytest.raises(MissingExtra, match=r"unstale\[html\]"):
            check_content_options(options)
    check_content_options({"change": "json"})
    check_content_options({})


def test_options_that_cannot_be_used_are_refused():
    for options in (
        {"selector": "p["},
        {"selector": " "},
        {"ignore": "["},
        {"ignore": ""},
        {"change": None, "ignore": 3},
    ):
        with pytest.raises(InvalidInput):
            check_content_options(options)


@pytest.mark.parametrize(
    "tag",
    [
        " ".join(f"a{n}=1" for n in range(100_000)),
        'a=">" ' + "".join(f"a{n}='>'" for n in range(100_000)),
        "/".join(f"a{n}" for n in range(100_000)),
    ],
)
@pytest.mark.parametrize("options", [{"change": "text"}, {"selector": "p"}])
def test_a_tag_with_attributes_without_end_takes_no_time(tag, options):
    wanted = definition_of(options)
    began = time.process_time()
    with pytest.raises(NoContent, match="a tag has more than 5,000 attributes"):
        fingerprint_of(wanted, f"<html><body><p {tag}>x</p></body></html>".encode(), "text/html")
    assert time.process_time() - began < 60.0  # of the processor


def test_a_picture_in_a_tag_is_one_attribute():
    page = (
        f'<html><body><p>some text</p><img src="data:image/png;base64,{"iVBOR/w0" * 50_000}"></body></html>'
    )
    assert fingerprint_of(definition_of({"selector": "p"}), page.encode(), "text/html")
