"""Links of pages: what is followed, what is not, and hostile pages."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale.errors import InvalidInput
from unstale.mirror.settings import Settings
from unstale.mirror.sources.http.links import LinkOptions, address_of, read_links
from unstale.mirror.sources.http.source import http_source

from .hostile import Hostile, answer


def followed(visitor, page, options=None, **headers):
    """Poll a page, and return the paths of the pages that it leads to, with their options."""

    async def main():
        served = answer(page.encode(), Content_Type="text/html; charset=utf-8", **headers)
        async with Hostile({"/a/": served}) as server, visitor:
            found = await visitor.poll(server.url("/a/"), options={"links": 2, **(options or {})})
            return found, server.url("")

    found, start = asyncio.run(main())
    assert found.outcome == "changed"
    return {new.key.removeprefix(start): dict(new.options) for new in found.discovered}


PAGE = """<a href="b">b</a> <a href="/c?x=1#top">c</a> <area href="../d/"> <a href="mailto:x@y">m</a>
<a href="javascript:x()">j</a> <a rel="nofollow ugc" href="no">no</a> <a href="https://other.example/">o</a>
<a href="">self</a> <a>none</a> <a href="http://[bad/">bad</a> <link rel=stylesheet href=style.css>"""


def test_links_of_the_own_host_are_followed_one_step_less(visitor):
    assert followed(visitor, PAGE) == {"/a/b": {"links": 1}, "/c?x=1": {"links": 1}, "/d/": {"links": 1}}
    assert followed(visitor, PAGE, {"links": 1}) == {"/a/b": {}, "/c?x=1": {}, "/d/": {}}
    assert followed(visitor, PAGE, {"links": 0}) == {}


def test_patterns_choose_among_them_and_are_handed_on(visitor):
    only = {"only": ["*/a/*", "*/d/"], "skip": "*/d/"}
    assert followed(visitor, PAGE, only) == {"/a/b": {**only, "links": 1}}
    assert set(followed(visitor, PAGE, {"discover": "*/d/*"})) == {"/d/"}
    assert followed(visitor, PAGE, {"discover": False}) == {}


@pytest.mark.parametrize(
    ("page", "headers"),
    [
        ('<meta name="ROBOTS" content="noindex, nofollow">' + PAGE, {}),
        (PAGE + "<meta name=robots content=none>", {}),
        (PAGE, {"X_Robots_Tag": "unstale: nofollow"}),
        (PAGE, {"X_Robots_Tag": "noarchive, none"}),
    ],
)
def test_a_page_whose_links_are_not_to_be_followed_leads_nowhere(visitor, page, headers):
    assert followed(visitor, page, **headers) == {}


def test_base_and_canonical_addresses(visitor):
    assert set(followed(visitor, '<base href="/x/"><base href="/y/"><a href="b">b</a>')) == {"/x/b"}
    assert set(followed(visitor, '<link rel="canonical" href="/a/"><a href="b">b</a>')) == {"/a/b"}
    assert set(followed(visitor, '<link rel="canonical" href="/true"><a href="b">b</a>')) == {"/true"}
    other = '<link rel="canonical" href="https://other.example/"><a href="b">b</a>'
    assert set(followed(visitor, other)) == {"/a/b"}


@pytest.mark.parametrize(
    ("link", "address"),
    [
        ("http://a/x?PHPSESSID=1&b=2", "http://a/x?b=2"),
        ("http://a/x;jsessionid=AB12?utm_source=mail", "http://a/x"),
        ("http://a/x?sid=3", "http://a/x"),
        ("http://a/side?aside=3", "http://a/side?aside=3"),
        ("http://a/" + "b/" * 3, None),
        ("http://a/" + "/".join(map(str, range(13))), None),
        ("http://a/" + "b" * 1000, None),
        ("http://user:secret@a/", None),
    ],
)
def test_sessions_are_removed_and_endless_spaces_recognised(link, address):
    assert address_of(link) == address


def test_what_is_no_number_of_steps_is_refused():
    for wrong in (-1, 9, "many", True, 1.5, None):
        with pytest.raises(InvalidInput, match="links must be a whole number from 0 to 8"):
            http_source(Settings()).key("http://a/", {"links": wrong})
    assert LinkOptions.of({"links": "2"}).steps == 2
    with pytest.raises(InvalidInput, match="hosts must be"):
        http_source(Settings()).key("http://a/", {"links": 1, "hosts": "some"})


@given(
    st.text(max_size=300)
    | st.lists(st.sampled_from(["<a href='", "x", '"', "<", ">", "<!--", "&#", "b", "</a", "\0"])).map(
        "".join
    )
)
def test_any_text_has_links_or_none(text):
    page = read_links(text.encode("utf-8", "surrogatepass"), "http://a/")
    assert all(link.lower().startswith(("http://", "https://")) for link in page.links)


def test_large_and_hostile_pages_are_bounded(visitor):
    many = "".join(f'<a href="{number}">' for number in range(5000))
    assert len(followed(visitor, many)) == 2000
    for page in ("<a " * 300_000, '<a href="x' * 100_000, "<!" * 400_000, "<a href=x " + "b=c " * 200_000):
        assert len(followed(visitor, page)) <= 2
