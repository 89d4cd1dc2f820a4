"""Addresses have one way to be written."""

from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from example_counts import percent
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from unstale.errors import InvalidInput
from unstale.mirror.sources.http import urls as http_urls
from unstale.mirror.sources.http.urls import canonical, host_of, joined, origin_of


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("http://example.org", "http://example.org/"),
        ("  HTTP://EXAMPLE.org:80/Path \n", "http://example.org/Path"),
        ("https://example.org:443/", "https://example.org/"),
        ("https://example.org:80/", "https://example.org:80/"),
        ("http://example.org./", "http://example.org/"),
        ("http://example.org/#top", "http://example.org/"),
        ("http://example.org?b=2&a=1", "http://example.org/?b=2&a=1"),
        ("http://example.org/?", "http://example.org/"),
        ("http://example.org/?a=&b", "http://example.org/?a=&b"),
        ("http://example.org/a/./b/../c/", "http://example.org/a/c/"),
        ("http://example.org/a/..", "http://example.org/"),
        ("http://example.org/a/b/..", "http://example.org/a/"),
        ("http://example.org/a/.", "http://example.org/a/"),
        ("http://example.org/../../a", "http://example.org/a"),
        ("http://example.org/%7ea%2fb%C3%a4", "http://example.org/~a%2Fb%C3%A4"),
        ("http://example.org/%2e%2e/a", "http://example.org/a"),
        ("http://example.org/ä ö", "http://example.org/%C3%A4%20%C3%B6"),
        ("http://example.org/100%", "http://example.org/100%25"),
        ("http://example.org/%%341", "http://example.org/%2541"),
        ("http://example.org//a//b", "http://example.org//a//b"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
        ("http://BÜCHER.example/", "http://xn--bcher-kva.example/"),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8000/"),
        ("http://[2001:DB8::0:1]:80/", "http://[2001:db8::1]/"),
        ("http://under_score.example/", "http://under_score.example/"),
        ("http://localhost", "http://localhost/"),
    ],
)
def test_examples(text, key):
    assert canonical(text) == key


@pytest.mark.parametrize(
    "text",
    ["", "example.org", "www.example.org/a", "ftp://example.org/", "file:///etc/passwd", "mailto:a@b.example",
     "http://", "http:///a", "http:example.org", "//example.org/", "http://exa mple.org/", "http://a..b/",
     "http://-a.example/", "http://[::1", "http://[::g]/", "http://[fe80::1%25eth0]/", "http://example.org:0/",
     "http://example.org:99999/", "http://example.org:x/", "http://2130706433/", "http://0x7f.1/", "http://127.1/",
     "http://1.2.3.256/", "http://127.0.0.01/", "http://" + "a" * 64 + ".example/",
     "http://example.org/" + "a" * 2048, "http://\u2024\u2024/", "http://example.org\\@evil.example/"],
)  # fmt: skip
def test_what_is_none(text):
    with pytest.raises(InvalidInput):
        canonical(text)


def test_a_password_is_not_repeated():
    with pytest.raises(InvalidInput, match=r"header.*mirror\.toml") as caught:
        canonical("http://user:sesame@example.org/")
    assert "sesame" not in str(caught.value)


addresses = st.builds(
    lambda scheme, host, port, path: f"{scheme}://{host}{port}{path}",
    st.sampled_from(["http", "https", "HTTP"]),
    st.sampled_from(
        ["example.org", "EXAMPLE.org.", "bücher.example", "127.0.0.1", "[::1]", "a-b.c", "xn--a", "faß.de"]
    )
    | st.text(max_size=8),
    st.sampled_from(["", ":80", ":443", ":8080", ":"]),
    st.text(alphabet="/.%?#&=+aZ09~ä2eEfF [];'\\@\u0130\ud7ff\U0001f600\t", max_size=20).map(
        lambda path: f"/{path}"
    )
    | st.text(max_size=10),
)


@given(addresses)
@example("http://example.org/%25%34%31")
@example("http://xn--a.example/")
@example("http://example.org/a;b='c'")
def test_what_is_canonical_stays_so(text):
    try:
        key = canonical(text)
    except InvalidInput:
        assume(False)
    assert canonical(key) == key
    assert key.isascii()
    assert key.isprintable()
    assert " " not in key
    parts = urlsplit(key)
    assert parts.hostname == host_of(key)
    assert key.startswith(f"{origin_of(key)}/")
    assert host_of(key, port=True) == parts.netloc
    assert parts.fragment == ""


@given(st.from_regex(http_urls._CANONICAL, fullmatch=True))
@settings(max_examples=percent(40))
def test_the_short_way_and_the_long_way_agree(text):
    assert canonical(text) == text
    assume(len(text) <= 2048)
    parts = http_urls._split(text, text)
    path, query = http_urls._quoted(parts.path, parts.query, text)
    assert http_urls._host(parts.hostname, text) == parts.netloc
    assert http_urls._resolved(path) == parts.path
    assert query == parts.query


@given(st.text(max_size=60), st.sampled_from(["http://example.org/a/b?c", "https://[::1]:8/"]))
def test_any_place_that_a_redirect_names(reference, base):
    try:
        target = joined(base, reference)
    except InvalidInput:
        return
    assert canonical(target) == target


@given(st.text(max_size=40))
def test_any_text_is_an_address_or_refused(text):
    for start in ("", "http://", "https://example.org/", "http://["):
        with suppress(InvalidInput):
            assert canonical(start + text).startswith("http")
