"""Secrets go where the user sends them, and nowhere else: neither to other hosts nor into files."""

import asyncio
import json
import os
import stat
from contextlib import ExitStack, suppress
from types import MappingProxyType, SimpleNamespace

import pytest
from aiohttp import web

from mirror.sources.worlds import Server
from unstale import InvalidInput
from unstale.cli.mirror.doctor_checks import _check_secrets
from unstale.dashboard.api import edits
from unstale.mirror.exchange.tables import export_elements, import_elements
from unstale.mirror.json_values import as_json
from unstale.mirror.mirror import Mirror
from unstale.mirror.notify.notifier import Notifier
from unstale.mirror.settings import GroupLimit, Http, Notify, Rule, Settings
from unstale.mirror.source import New
from unstale.mirror.sources.lists import read_list
from unstale.mirror.store.contract import Addition

SECRET = "Bearer s3cr3t-of-the-user"  # noqa: S105


class Host(Server):
    """An origin of its own; ``pages`` has a body for each path, an address to redirect to, or an answer."""

    def __init__(self):
        super().__init__("text/xml", validators=False)
        self.pages = {}

    async def answer(self, request):
        page = self.pages.get(request.path_qs)
        if request.path == "/robots.txt" or page is None:
            raise web.HTTPNotFound
        self.asked.append(request)
        if callable(page):
            return page(request)
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


class TestDiscovered:
    """Reproduced: a feed of one host made the mirror send a request of its choice with another's secret."""

    WAYS = (
        ("feed", "itself", True),
        ("feed", "another", False),
        ("feed", "redirected", False),
        ("feed", "there and back", False),
        ("feed", "file", False),
        ("sitemap", "itself", True),
        ("sitemap", "another", False),
        ("sitemap", "index of another", False),
    )

    @pytest.fixture(params=WAYS, ids=lambda way: " by ".join(way[:2]))
    def way(self, request, tmp_path, hosts):
        """Return what to add so that the page is named, and whether its own origin alone has named it."""
        kind, by, own = request.param
        a, b = hosts.a, hosts.b
        target = f"{b.url}/api/delete?id=1"
        named = (feed if kind == "feed" else sitemap)(target)
        a.pages = {"/list.xml": named, "/index.xml": index(f"{b.url}/list.xml")}
        a.pages |= {"/moved.xml": f"{b.url}/list.xml", "/back.xml": f"{b.url}/others.xml"}
        b.pages = {"/list.xml": named, "/api/delete?id=1": "done", "/there.xml": f"{a.url}/back.xml"}
        b.pages["/others.xml"] = named
        (tmp_path / "list.xml").write_text(named)
        key = {
            "itself": f"{b.url}/list.xml",
            "another": f"{a.url}/list.xml",
            "redirected": f"{a.url}/moved.xml",
            "there and back": f"{b.url}/there.xml",
            "file": str(tmp_path / "list.xml"),
            "index of another": f"{a.url}/index.xml",
        }[by]
        return SimpleNamespace(key=key, source=kind, target=target, own=own)

    def add(self, mirror, way):
        return mirror.add(way.key, source=way.source, hosts="any")

    @pytest.mark.parametrize("trust", [False, True])
    def test_secrets_go_only_where_all_authors_are_at_home(self, tmp_path, hosts, way, trust):
        rules = (rule(f"{hosts.b.url}/api/*", weight=3.0, trust_discovered=trust),)
        with mirrored(tmp_path, *rules) as mirror:
            self.add(mirror, way)
            polled(mirror)
            found = mirror.find(way.target)
            assert found.weight == 3.0
            assert ("headers" in found.options) == (way.own or trust)
        asked = hosts.b.told("/api/delete?id=1")
        assert asked
        assert set(asked) == {way.own or trust}

    def test_rules_that_are_applied_anew_decide_the_same(self, tmp_path, hosts, way):
        with mirrored(tmp_path) as mirror:
            self.add(mirror, way)
            polled(mirror)
            mirror.remove([way.key], forget=True)
        with mirrored(tmp_path, rule(f"{hosts.b.url}/api/*")) as mirror:
            mirror.apply_rules()
            assert ("headers" in mirror.find(way.target).options) == way.own
        with mirrored(tmp_path, rule("*"), Rule("*", weight=2.0)) as mirror:
            mirror.apply_rules()
            assert ("headers" in mirror.find(way.target).options) == way.own

    def test_what_users_add_themselves_gets_its_headers(self, tmp_path, hosts, way):
        with mirrored(tmp_path, rule(f"{hosts.b.url}/api/*")) as mirror:
            self.add(mirror, way)
            polled(mirror)
            mirror.add(way.target)
            assert "headers" in mirror.find(way.target).options
            polled(mirror, 1)
            mirror.apply_rules()
            assert "headers" in mirror.find(way.target).options


def test_what_was_discovered_by_an_older_version_is_judged_by_who_named_it(tmp_path):
    """It has no author; the list that named it, and whoever had named that, say where it is from."""
    added = (
        ("https://a.example/index.xml", "sitemap", None),
        ("https://b.example/s1.xml", "sitemap", 1),
        ("https://b.example/api/1", "http", 2),
        ("https://a.example/api/2", "http", 1),
        ("https://a.example/api/3", "http", 99),
        ("https://a.example/s2.xml", "sitemap", 1),
    )
    with mirrored(tmp_path) as mirror, mirror.store.begin() as t:
        for key, source, via in added:
            inherited = {"headers": {"Authorization": SECRET}} if source == "sitemap" and via else {}
            given = {"source": source, "options": inherited}
            group = f"http:{key.split('/')[2]}"
            t.add([Addition(key, source, group, options=inherited, given=given, via=via)], 1.0)
    with mirrored(tmp_path, rule("*/api/*")) as mirror:
        assert mirror.apply_rules() == 5
        elements = list(mirror.elements())
        assert [one.key for one in elements if "headers" in one.options] == ["https://a.example/api/2"]
        assert not any("headers" in one.given["options"] for one in elements)
    with mirrored(tmp_path, rule("*/api/*", trust_discovered=True)) as mirror:
        assert mirror.apply_rules() == 2


def test_a_file_of_elements_says_who_named_them(tmp_path):
    path = tmp_path / "elements.csv"
    rows = ("https://a.example/feed,feed,", "https://b.example/1,http,https://a.example/feed")
    named = "https://b.example/3,http,https://a.example/feed"
    path.write_text("\n".join(["key,source,via", *rows, "https://b.example/2,http,", named]))
    with mirrored(tmp_path, rule("https://b.example/*")) as mirror:
        mirror.add("https://b.example/1", selector="main", weight=4.0)
        import_elements(mirror, path, allow={"secrets"})
        kept = mirror.find("https://b.example/1")
        assert (kept.options["selector"], kept.weight) == ("main", 4.0)
        for _ in range(2):
            assert "headers" in mirror.find("https://b.example/1").options  # the user named it before
            assert "headers" in mirror.find("https://b.example/2").options
            assert "headers" not in mirror.find("https://b.example/3").options
            mirror.apply_rules()


class TestFilesOfStrangers:
    """A list or a table that names a page of the user's gets no secrets for it, and takes none away."""

    KEYS = ("https://b.example/delete?id=1", "https://b.example/mine", "https://c.example/")

    def added(self, mirror, path, kind, allow):
        """Add what a file names; return how many elements are said to get no secrets."""
        path.write_text("key,source,given\n" if kind == "table" else "")
        with path.open("a") as file:
            for key in self.KEYS:
                # an author that the file claims counts for nothing
                said = json.dumps({"source": "http", "author": "https://b.example"}).replace('"', '""')
                file.write(f'{key},http,"{said}"\n' if kind == "table" else f"{key}\n")
        if kind == "list":
            return mirror.add_many([one.new for one in read_list(path)], allow=allow).withheld
        withheld = []
        import_elements(mirror, path, allow=allow, withheld=withheld.append)
        return len(withheld)

    @pytest.mark.parametrize("kind", ["list", "table"])
    def test_they_get_none_unless_allowed(self, tmp_path, kind):
        path = tmp_path / "theirs.csv"
        with mirrored(tmp_path, rule("https://b.example/*")) as mirror:
            mirror.add(self.KEYS[1])
            assert self.added(mirror, path, kind, ()) == 1
            for again in (False, True):
                with_headers = {one.key for one in mirror.elements() if "headers" in one.options}
                assert with_headers == {self.KEYS[1]}, again
                mirror.apply_rules()
                assert self.added(mirror, path, kind, ()) == 1
            assert self.added(mirror, path, kind, ("secrets",)) == 0
            with_headers = {one.key for one in mirror.elements() if "headers" in one.options}
            assert with_headers == set(self.KEYS[:2])

    @pytest.mark.parametrize("kind", ["list", "table"])
    def test_rules_that_trust_what_is_discovered_give_them(self, tmp_path, kind):
        with mirrored(tmp_path, rule("https://b.example/*", trust_discovered=True)) as mirror:
            assert self.added(mirror, tmp_path / "theirs.csv", kind, ()) == 0
            assert sum("headers" in one.options for one in mirror.elements()) == 2


class TestLogins:
    """A saved login is a secret: whoever names a page that is polled with it acts in the name of the user."""

    RULE = Rule("https://b.example/*", options={"login": "shop", "logged_in": "#me", "wait": "main"})
    KEY = "browser:https://b.example/delete?id=1"

    def test_what_a_file_names_is_polled_without_one(self, tmp_path):
        with mirrored(tmp_path, self.RULE) as mirror:
            assert mirror.add_many([New(self.KEY)], allow=("browser",)).withheld == 1
            assert mirror.find(self.KEY.partition(":")[2]).options == {"wait": "main"}
            assert mirror.add_many([New(self.KEY)], allow=("browser", "secrets")).withheld == 0
            assert mirror.find(self.KEY.partition(":")[2]).options == self.RULE.options

    @pytest.mark.parametrize("options", [{"login": "shop"}, {"click": ["#delete"]}])
    def test_a_file_brings_none(self, tmp_path, options):
        with mirrored(tmp_path) as mirror:
            mirror.add("browser:https://b.example/mine", login="shop")
            for key in (self.KEY, "browser:https://b.example/mine"):
                done = mirror.add_many([New(key, None, options)], allow=("browser",))
                assert "act in the name of the user" in done.refused[0][1]
                path = tmp_path / "theirs.csv"
                said = json.dumps({"options": options}).replace('"', '""')
                path.write_text(f'key,source,given\n{key[8:]},browser,"{said}"\n')
                with pytest.raises(InvalidInput, match="act in the name of the user"):
                    import_elements(mirror, path, allow=("browser",))
            assert "click" not in mirror.find("https://b.example/mine").options


def test_without_a_token_nobody_makes_a_discovered_element_one_of_the_user(tmp_path, hosts):
    a, b = hosts.a, hosts.b
    a.pages, b.pages = {"/feed.xml": feed(f"{b.url}/api")}, {"/api": "x"}
    with mirrored(tmp_path, rule(f"{b.url}/*"), http=Http(private=True)) as mirror:
        mirror.add(f"{a.url}/feed.xml", source="feed")
        polled(mirror, 2)
        refused = edits.add(mirror, [(f"{b.url}/api", {"weight": 2.0})]).refused
        assert "headers that may be secret" in refused[0][1]
        assert edits.add(mirror, [(f"{b.url}/api", {"weight": 2.0})], trusted=True).changed == 1
        assert edits.add(mirror, [(f"{b.url}/api", {"weight": 3.0})]).changed == 1


def test_the_doctor_tells_of_elements_that_lack_a_secret(tmp_path, hosts):
    a, b = hosts.a, hosts.b
    a.pages["/feed.xml"] = feed(f"{b.url}/api")
    b.pages["/api"] = lambda request: web.Response(status=200 if "Authorization" in request.headers else 401)
    for trust, told in ((False, 1), (True, 0)):
        with mirrored(tmp_path, rule(f"{b.url}/*", trust_discovered=trust)) as mirror:
            mirror.add(f"{a.url}/feed.xml", source="feed")
            polled(mirror, 3)
            found = [one.found for one in _check_secrets(SimpleNamespace(mirror=mirror))]
        assert len(found) == told
        assert all(
            f"without secrets of rules, and refused by the server, such as {b.url}/api" in one
            for one in found
        )


class TestTemplates:
    HEADERS = MappingProxyType({"Authorization": "Bearer ${SOME_TOKEN}"})

    @pytest.mark.parametrize("by", ["rule", "element", "all requests"])
    def test_variables_are_put_in_when_a_request_is_made_and_nowhere_else(
        self, tmp_path, hosts, monkeypatch, by
    ):
        monkeypatch.setenv("SOME_TOKEN", SECRET.removeprefix("Bearer "))
        hosts.a.pages = {"/x": "x"}
        rules = [Rule("*", options={"headers": dict(self.HEADERS)})] if by == "rule" else []
        http = Http(headers=dict(self.HEADERS) if by == "all requests" else {})
        with mirrored(tmp_path, *rules, http=http) as mirror:
            mirror.add(f"{hosts.a.url}/x", **({"headers": dict(self.HEADERS)} if by == "element" else {}))
            polled(mirror, 1)
            export_elements(mirror, tmp_path / "elements.csv")
        assert hosts.a.told("/x") == [True]
        kept = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert len(kept) >= 3
        assert not [path for path in kept if b"s3cr3t" in path.read_bytes()]
        assert "SOME_TOKEN" not in (tmp_path / "elements.csv").read_text()

    @pytest.mark.parametrize(
        ("value", "words"),
        [
            (None, "headers: Authorization needs the environment variable SOME_TOKEN, which is not set"),
            ("two\r\nX-Lines: 1", "'Authorization' must be text of one line, with its variables, too"),
        ],
    )
    def test_a_variable_that_is_no_longer_there_is_one_clear_failure(
        self, tmp_path, hosts, monkeypatch, value, words
    ):
        hosts.a.pages = {"/x": "x"}
        if value:
            monkeypatch.setenv("SOME_TOKEN", value)
        with mirrored(tmp_path, Rule("*", options={"headers": dict(self.HEADERS)})) as mirror:
            element = mirror.add(f"{hosts.a.url}/x")
            polled(mirror, 1)
            detail = mirror.find(element.key).detail
        assert words in detail
        assert "X-Lines" not in detail
        assert not hosts.a.asked

    def test_a_stored_value_gives_way_to_its_template(self, tmp_path):
        with mirrored(tmp_path) as mirror, mirror.store.begin() as t:
            options = {"headers": {"Authorization": SECRET}}
            given = {"source": "http", "options": {}}
            t.add([Addition("https://a.example/", "http", "http:a.example", options, given=given)], 1.0)
        with mirrored(tmp_path, Rule("*", options={"headers": dict(self.HEADERS)})) as mirror:
            mirror.apply_rules()
            assert mirror.find("https://a.example/").options == {"headers": self.HEADERS}

    def test_a_file_of_elements_names_no_variables(self, tmp_path):
        path = tmp_path / "elements.csv"
        options = '{""headers"": {""X-A"": ""${HOME}""}}'
        for columns, row in (
            ("key,options", f'"{options}"'),
            ("key,source,given", f'http,"{{""options"": {options}}}"'),
        ):
            path.write_text(f"{columns}\nhttps://evil.example/,{row}\n")
            with mirrored(tmp_path) as mirror:
                with pytest.raises(InvalidInput, match=r"variable of the environment .*--allow environment"):
                    import_elements(mirror, path)
                assert not list(mirror.elements())


class TestShown:
    """A secret that is no template is in no file but the store, and in no words at all."""

    STORAGE = MappingProxyType({"anon": False, "secret": "s3cr3t", "client_kwargs": {"aws_key": "s3cr3t"}})

    def test_exports(self, tmp_path):
        with mirrored(tmp_path, rule("https://a.example/*")) as mirror:
            mirror.add("https://a.example/1")
            harmless = {"Accept-Language": "de"}
            mirror.add("https://b.example/2", headers={"X-Api": "s3cr3t", **harmless}, change="text")
            mirror.add(str(tmp_path / "x"), storage=dict(self.STORAGE), api_token="s3cr3t")  # noqa: S106
            path = tmp_path / "elements.csv"
            export_elements(mirror, path)
            assert "s3cr3t" not in path.read_text()
            assert "s3cr3t" not in repr(list(mirror.elements()))
            assert "s3cr3t" not in repr(mirror.settings)
            assert "s3cr3t" not in json.dumps(as_json(list(mirror.elements())))
            assert "s3cr3t" not in json.dumps(
                as_json([mirror.status(), mirror.explain("https://b.example/2")])
            )
        with Mirror(tmp_path / "new.db") as new:
            assert import_elements(new, path, allow={"file"}) == 3
            options = {"headers": harmless, "change": "text"}
            assert new.find("https://b.example/2").options == options
            assert new.find(str(tmp_path / "x")).options == {"storage": {"anon": False}}
        with mirrored(tmp_path, rule("https://a.example/*")) as mirror:
            import_elements(mirror, path, allow={"file"})  # what rules say stays
            assert mirror.find("https://a.example/1").options == {"headers": {"Authorization": SECRET}}

    def test_what_a_server_tells_of_them(self, tmp_path, hosts):
        """Reproduced: a reason such as "401 Wrong Bearer TOKEN" was in exports, the log and the API."""
        a = hosts.a
        sent = SECRET.partition(" ")[2]
        echo = {"X-Echo": SECRET, "Content-Type": "text/html"}
        a.pages = {
            "/wrong": lambda _: web.Response(status=401, reason=f"Wrong {SECRET}"),
            "/told": lambda _: web.Response(body=f"<title>{sent}</title>".encode(), headers=echo),
            "/moved": f"{a.url}/gone?token={sent}",
        }
        with mirrored(tmp_path, rule(f"{a.url}/*")) as mirror:
            for path in a.pages:
                mirror.add(f"{a.url}{path}")
            polled(mirror)
            told = [mirror.find(f"{a.url}{path}").detail for path in a.pages]
            assert told[0] == "401 Wrong ***"
            assert "404" in told[2]
            path = tmp_path / "elements.csv"
            export_elements(mirror, path)
            words = [path.read_text(), repr(list(mirror.changes())), repr(list(mirror.elements())), *told]
            assert not any(sent in text for text in words)
            assert mirror.read(f"{a.url}/told").body == f"<title>{sent}</title>".encode()  # it is a copy

    @pytest.mark.parametrize("options", [{"headers": "X-Api: s3cr3t"}, {"headers": {"X-Api": "s3cr3t\n"}}])
    def test_complaints_about_options(self, tmp_path, options):
        with mirrored(tmp_path) as mirror, pytest.raises(InvalidInput, match="headers") as complaint:
            mirror.add("https://a.example/", **options)
        assert "s3cr3t" not in str(complaint.value)

    def test_webhooks(self, tmp_path, hosts):
        hosts.a.pages = {"/x": "x"}
        hook = f"{hosts.b.url}/s3cr3t?token=s3cr3t"

        hosts.b.pages["/s3cr3t?token=s3cr3t"] = lambda request: web.Response(
            status=500, text=f"no {request.path_qs} here: {request.url}"
        )
        said = []
        notify = (Notify(webhook=hook, secret="s3cr3t"),)  # noqa: S106
        with mirrored(tmp_path, notify=notify) as mirror:
            mirror.add(f"{hosts.a.url}/x")
            asyncio.run(_until(mirror, said))
        assert any(hosts.b.url in text and "500" in text for text in said)
        assert "s3cr3t" not in repr(said)
        for wrong in (Notify(webhook="ftp://x/s3cr3t"), Notify(webhook=hook, command=("s3cr3t",))):
            with pytest.raises(InvalidInput) as complaint:
                Notifier([wrong], None)
            assert "s3cr3t" not in str(complaint.value)


async def _until(mirror, said):
    """Run a mirror until it has told of a trouble."""

    def tell(event):
        said.append(event.detail)
        if event.kind == "trouble":
            mirror.stop()

    await asyncio.wait_for(mirror.arun(on_event=tell), 30)


class TestFiles:
    """Reproduced: the store, its copies and its back-ups could be read by every user of the machine."""

    @pytest.fixture(autouse=True)
    def careless(self):
        """Run as if the user gave all rights away, or took them from the group."""
        before = os.umask(0o000)
        yield
        os.umask(before)

    @pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
    @pytest.mark.parametrize("shared", ["no", "group"])
    def test_nobody_else_can_read_what_a_mirror_makes(self, tmp_path, hosts, shared, umask):
        os.umask(umask)
        hosts.a.pages = {"/small": "x" * 100, "/large": "".join(map(str, range(700_000)))}
        home = tmp_path / "home"
        home.mkdir()
        files, folders = {}, {}

        def look(_):
            for one in home.rglob("*"):
                with suppress(FileNotFoundError):
                    mode = stat.S_IMODE(one.stat().st_mode)
                    (folders if one.is_dir() else files)[str(one.relative_to(home))] = oct(mode)

        with mirrored(home, shared=shared) as mirror:
            for path in hosts.a.pages:
                mirror.add(f"{hosts.a.url}{path}")
            mirror.step(on_event=look)
            assert mirror.store.backup(home / "backup.db")
            look(None)
        beside = {f"mirror.db{end}" for end in ("", "-wal", "-shm", ".lock")}
        kept = {name: mode for name, mode in files.items() if not name.startswith("copies/scratch/")}
        assert {*beside, "backup.db"} <= kept.keys()
        assert "copies/mirror-id" in kept
        assert sum(name.startswith("copies/") for name in kept) == 3
        assert set(kept.values()) == {"0o600" if shared == "no" else "0o660"}
        assert {"copies", "copies/scratch"} < folders.keys()
        assert set(folders.values()) == {"0o700" if shared == "no" else "0o2770"}

    def test_a_store_behind_a_link(self, tmp_path):
        (tmp_path / "mirror.db").symlink_to(tmp_path / "elsewhere.db")
        mirrored(tmp_path).close()
        assert stat.S_IMODE((tmp_path / "elsewhere.db").stat().st_mode) == 0o600

    def test_sharing_is_yes_or_no(self, tmp_path):
        with pytest.raises(InvalidInput, match="shared must be 'no' or 'group'; it is 'all'"):
            mirrored(tmp_path, shared="all")
