"""The worlds of the sources that come with unstale: one element each, and what can happen to it."""

import asyncio
import gzip
import json
import os
import uuid
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from threading import Thread
from types import MappingProxyType

import fsspec
from aiohttp import web

from unstale.mirror.settings import Settings
from unstale.mirror.source import Found
from unstale.mirror.sources.feeds.source import feed_source, sitemap_source
from unstale.mirror.sources.files.source import file_source
from unstale.mirror.sources.http.source import http_source
from unstale.mirror.sources.python import python_source

SETTINGS = Settings()
HOST = "http://127.0.0.1"


def text(version, size, _=HOST):
    return f"version {version}\n".encode() + b"x" * size


def rss(version, size, _=HOST):
    head = f"<lastBuildDate>{uuid.uuid4()}</lastBuildDate>"  # which is no change
    items = "".join(
        f"<item><title>{n}</title><link>/news/{n}</link><guid>{n}</guid></item>" for n in range(version)
    )
    return f"<rss version='2.0'><channel>{head}{items}<!--{'x' * size}--></channel></rss>".encode()


def atom(version, size, _=HOST):
    time = f"2024-01-{version:02}T00:00:00Z"
    entry = f"<entry><id>n</id><title>n</title><link href='/n'/><updated>{time}</updated></entry>"
    return f"<feed xmlns='http://www.w3.org/2005/Atom'>{entry}<!--{'x' * size}--></feed>".encode()


def json_feed(version, size, host=HOST):
    items = [{"id": str(n), "url": f"{host}/{n}", "title": str(n)} for n in range(version)]
    feed = {"version": "https://jsonfeed.org/version/1.1", "items": items, "stamp": str(uuid.uuid4())}
    return json.dumps({**feed, "filler": "x" * size}).encode()


def sitemap(version, size, host=HOST):
    urls = "".join(
        f"<url><loc>{host}/{n}</loc><lastmod>2024-01-{version:02}</lastmod></url>" for n in range(version)
    )
    return f"<urlset>{comments('x' * size)}{urls}<!--{uuid.uuid4()}--></urlset>".encode()


def comments(words):
    """Return comments with these words, none of them longer than a parser takes."""
    return "".join(f"<!--{words[i : i + 100_000]}-->" for i in range(0, len(words), 100_000))


def gz_sitemap(version, size, host=HOST):
    noise = os.urandom(size // 2).hex()
    filled = sitemap(version, 0, host).replace(b"<urlset>", f"<urlset>{comments(noise)}".encode())
    return gzip.compress(filled)


def text_sitemap(version, size, host=HOST):
    lines = [f"{host}/{version}/{n}" for n in range(max(1, size // 1900))]
    return "\n".join(f"{line:_<1900}" for line in lines).encode()


class Server:
    """Serves one document on loopback, as well or badly as it is told to."""

    def __init__(self, media_type, *, validators):
        self.body, self.broken, self.stamp = None, False, 0
        self.media_type, self.validators = media_type, validators
        self.asked = []

    async def answer(self, request):
        if request.path == "/robots.txt":
            raise web.HTTPNotFound
        self.asked.append(request)
        if self.broken:
            raise web.HTTPInternalServerError
        if self.body is None:
            raise web.HTTPNotFound
        answer = web.Response(body=self.body, content_type=self.media_type)
        if self.validators:
            answer.headers["ETag"] = f'"{hash(self.body) & 0xFFFFFFFF}-{self.stamp}"'
            if request.headers.get("If-None-Match") == answer.headers["ETag"]:
                return web.Response(status=304, headers={"ETag": answer.headers["ETag"]})
        return answer

    @contextmanager
    def running(self):
        """Serve from a thread, so that its tasks are not among those of the test."""
        loop, ready, done = asyncio.new_event_loop(), Future(), asyncio.Event()
        thread = Thread(target=loop.run_until_complete, args=(self._serve(ready, done),))
        thread.start()
        try:
            yield ready.result(10)
        finally:
            loop.call_soon_threadsafe(done.set)
            thread.join()
            loop.close()

    async def _serve(self, ready, done):
        runner = web.AppRunner(self._application(), access_log=None, shutdown_timeout=0.01)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        ready.set_result(f"http://127.0.0.1:{runner.addresses[0][1]}")
        await done.wait()
        await runner.cleanup()

    def _application(self):
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self.answer)
        return application


class Served:
    """A document that a server has."""

    options = MappingProxyType({})
    nonsense = ("http://", "https://[", "http://exa mple.org/")

    def __init__(self, make, source, url, server):
        self._make, self._server = make, server
        self.source, self.text, self._url = source, f"{url}/element", url
        self._put = {}

    async def put(self, version, size=0):
        self._server.body = self._put.setdefault((version, size), self._make(version, size, self._url))

    async def touch(self):
        self._server.stamp += 1

    async def remove(self):
        self._server.body = None

    async def spoil(self):
        self._server.broken = True

    async def mend(self):
        self._server.broken = False

    def shows(self, version, body):
        return body in {made for (v, _), made in self._put.items() if v == version}


def served(make, source, media_type="text/xml", *, validators=True):
    """Return the world of a document that a server has; each time it is made, its noise is another."""

    @asynccontextmanager
    async def world(_):
        server = Server(media_type, validators=validators)
        with server.running() as url:
            yield Served(make, source(SETTINGS), url, server)

    return world


class OnDisk:
    """A document in a file of this machine."""

    options = MappingProxyType({})
    nonsense = ("https://example.org/", "nothing://x", "simplecache::/x")

    def __init__(self, make, source, path):
        self._make, self._path = make, path
        if source is not file_source:
            self.nonsense = ("nothing://x", f"{path.parent}/", "https://")
        self.source, self.text = source(SETTINGS), str(path)
        self._bodies = {}

    async def put(self, version, size=0):
        self._bodies[version] = self._body = self._bodies.get(version) or self._make(version, size)
        self._path.write_bytes(self._body)

    async def touch(self):
        os.utime(self._path)

    async def remove(self):
        self._path.unlink()

    async def spoil(self):
        self._path.unlink()
        self._path.mkdir()

    async def mend(self):
        self._path.rmdir()
        self._path.write_bytes(self._body)

    def shows(self, version, body):
        return body == self._bodies[version]


def on_disk(make, source=file_source, name="element.txt"):
    @asynccontextmanager
    async def world(folder):
        yield OnDisk(make, source, folder / name)

    return world


class InMemory:
    """A file in a file system that is not this machine's."""

    options = MappingProxyType({})
    nonsense = ("memory:x::nothing://",)

    def __init__(self):
        self.source = file_source(SETTINGS)
        self._fs = fsspec.filesystem("memory")
        self._path = f"/{uuid.uuid4()}/element"
        self.text = f"memory:/{self._path}"

    async def put(self, version, size=0):
        self._body = text(version, size)
        self._fs.pipe(self._path, self._body)

    async def touch(self):
        self._fs.pipe(self._path, self._body)

    async def remove(self):
        self._fs.rm(self._path)

    async def spoil(self):
        self._fs.rm(self._path)
        self._fs.mkdir(self._path)

    async def mend(self):
        self._fs.rmdir(self._path)
        self._fs.pipe(self._path, self._body)

    def shows(self, version, body):
        return body.startswith(f"version {version}\n".encode())


@asynccontextmanager
async def in_memory(_):
    world = InMemory()
    yield world
    world._fs.store.clear()
    world._fs.pseudo_dirs[:] = [""]


class Folder:
    """A folder with some files."""

    options = MappingProxyType({})
    nonsense = ("https://example.org/",)

    def __init__(self, path):
        self.source = file_source(SETTINGS)
        self._path = path
        self.text = f"{path}/"

    async def put(self, version, size=0):
        await self.remove()
        (self._path / "deep" / "er").mkdir(parents=True)
        for n in range(max(version, min(size // 100, 1200))):
            file = self._path / "deep" / "er" / f"{n:x>100}"
            file.write_bytes(b"x" * version)
            os.utime(file, (version, version))

    async def touch(self):
        os.utime(self._path)

    async def remove(self):
        if self._path.is_dir():
            for path in sorted(self._path.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
            self._path.rmdir()
        self._path.unlink(missing_ok=True)

    async def spoil(self):
        self._path.rename(self._path.with_name("elsewhere"))
        self._path.write_text("not a folder")

    async def mend(self):
        self._path.unlink()
        self._path.with_name("elsewhere").rename(self._path)

    def shows(self, version, body):
        lines = body.decode().splitlines()
        return len(lines) >= version and all(line.split("\t")[1] == str(version) for line in lines)


@asynccontextmanager
async def folder(home):
    yield Folder(home / "tree")


class Function:
    """A function of ours."""

    options = MappingProxyType({})
    nonsense = ("python:", "a\nb")

    def __init__(self, *, asynchronous):
        self.source = python_source(SETTINGS)
        self.text = "element"
        self._answer = Found("gone", "it was never there")
        self.source.register(self.text, self.look_later if asynchronous else self.look)

    def look(self):
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    async def look_later(self, known):
        await asyncio.sleep(0.001)
        return self.look() if self._answer != known.validators.get("answer") else None

    async def put(self, version, size=0):
        self._answer = text(version, size)

    async def touch(self):
        pass

    async def remove(self):
        self._answer = Found("gone", "it was removed")

    async def spoil(self):
        self._before, self._answer = self._answer, RuntimeError("out of order")

    async def mend(self):
        self._answer = self._before

    def shows(self, version, body):
        return body.startswith(f"version {version}\n".encode())


def function(*, asynchronous):
    @asynccontextmanager
    async def world(_):
        yield Function(asynchronous=asynchronous)

    return world


WORLDS = {
    "http": served(text, http_source, "text/plain"),
    "http without validators": served(text, http_source, "text/plain", validators=False),
    "file": on_disk(text),
    "file in memory": in_memory,
    "folder": folder,
    "function": function(asynchronous=False),
    "async function": function(asynchronous=True),
    "rss": served(rss, feed_source),
    "atom": served(atom, feed_source, validators=False),
    "json feed": served(json_feed, feed_source, "application/feed+json"),
    "feed on disk": on_disk(rss, feed_source, "feed.xml"),
    "sitemap": served(sitemap, sitemap_source),
    "gzipped sitemap": served(gz_sitemap, sitemap_source, "application/gzip", validators=False),
    "text sitemap": served(text_sitemap, sitemap_source, "text/plain"),
    "sitemap on disk": on_disk(sitemap, sitemap_source, "sitemap.xml"),
}
