"""Secrets go where the user sends them, and nowhere else: neither to other hosts nor into files."""

from contextlib import ExitStack
from types import SimpleNamespace

import pytest
from aiohttp import web

from mirror.sources.worlds import Server
from unstale.mirror.mirror import Mirror
from unstale.mirror.settings import GroupLimit, Rule, Settings

SECRET = "Bearer s3cr3t-of-the-user"  # noqa: S105


class Host(Server):
    """An origin of its own; ``pages`` has the body of each path, or the address to which it redirects."""

    def __init__(self):
        super().__init__("text/xml", validators=False)
        self.pages = {}

    async def answer(self, request):
        page = self.pages.get(request.path_qs)
        if request.path == "/robots.txt" or page is None:
            raise web.HTTPNotFound
        self.asked.append(request)
        if page.startswith("http"):
            raise web.HTTPFound(page)
        return web.Response(body=page.encode(), content_type=self.media_type)

    def told(self, path):
        """Return whether each request for a path had the secret."""
        return [one.headers.get("Authorization") == SECRET for one in self.asked if one.path_qs == path]


def index(*addresses):
    named = "".join(f"<sitemap><loc>{one}</loc></sitemap>" for one in addresses)
    return f"<sitemapindex>{named}</sitemapindex>"


def sitemap(*addresses):
    return f"<urlset>{''.join(f'<url><loc>{one}</loc></url>' for one in addresses)}</urlset>"


def feed(*addresses):
    items = "".join(f"<item><title>{one}</title><link>{one}</link></item>" for one in addresses)
    return f"<rss version='2.0'><channel><title>x</title>{items}</channel></rss>"


@pytest.fixture
def hosts():
    """Two origins on loopback, which differ in the port."""
    with ExitStack() as stack:
        a, b = Host(), Host()
        a.url, b.url = stack.enter_context(a.running()), stack.enter_context(b.running())
        yield SimpleNamespace(a=a, b=b)


def mirrored(path, *rules, **more):
    settings = Settings(budget=1e6, rules=rules, groups=(GroupLimit("*"),), **more)
    return Mirror(path / "mirror.db", settings=settings)


def polled(mirror, steps=4):
    for _ in range(steps):
        mirror.step()


def rule(pattern, **more):
    return Rule(pattern, options={"headers": {"Authorization": SECRET}}, **more)


class TestSitemapsOfAnIndex:
    """Reproduced: the headers of an index went to whichever host had answered in its place."""

    @pytest.mark.parametrize("options", [{}, {"hosts": "any"}])
    @pytest.mark.parametrize("redirected", [True, False])
    def test_they_get_none_of_its_headers(self, tmp_path, hosts, options, redirected):
        a, b = hosts.a, hosts.b
        named = index(f"{b.url}/cdn/s1.xml", f"{a.url}/cdn/s2.xml")
        a.pages = {"/secret/map.xml": f"{b.url}/index.xml" if redirected else named, "/cdn/s2.xml": sitemap()}
        b.pages = {"/index.xml": named, "/cdn/s1.xml": sitemap(f"{b.url}/page"), "/page": "x"}
        with mirrored(tmp_path, rule(f"{a.url}/secret/*")) as mirror:
            mirror.add(f"{a.url}/secret/map.xml", source="sitemap", **options)
            polled(mirror)
            elements = {element.key: element for element in mirror.elements()}
        assert a.told("/secret/map.xml")[0]
        assert f"{b.url}/cdn/s1.xml" in elements or not (redirected or options)
        assert not any(one.headers.get("Authorization") for one in b.asked)
        assert not any(a.told("/cdn/s2.xml"))
        for key, element in elements.items():
            assert ("headers" in element.options) == key.startswith(f"{a.url}/secret/")
            assert "headers" not in element.given["options"]

    def test_nor_those_that_were_given_with_it(self, tmp_path, hosts):
        a = hosts.a
        a.pages = {"/map.xml": index(f"{a.url}/s1.xml"), "/s1.xml": sitemap()}
        with mirrored(tmp_path) as mirror:
            mirror.add(f"{a.url}/map.xml", source="sitemap", headers={"Authorization": SECRET})
            polled(mirror)
        assert a.told("/map.xml")[0]
        assert a.told("/s1.xml")
        assert not any(a.told("/s1.xml"))
