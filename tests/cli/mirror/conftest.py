"""Commands are run in an empty folder, on a real small site on this machine."""

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from unstale.cli import main

QUICK = """\
[mirror]
store = "mirror.db"
budget = "200/s"
contact = "me@example.org"

[[group]]
match = "http:*"
spacing = "0s"
concurrency = 20
"""


class Site:
    """Pages in memory, served with ETags."""

    def __init__(self):
        site = self
        self.pages, self.asked = {}, []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                site.asked.append(self.path)
                body = site.pages.get(self.path)
                tag = f'"{hashlib.sha256(body or b"").hexdigest()[:16]}"'
                status = 404 if body is None else 304 if self.headers.get("If-None-Match") == tag else 200
                self.send_response(status)
                if status == 200:
                    self.send_header(
                        "Content-Type", "image/png" if self.path.endswith("png") else "text/html"
                    )
                if status != 404:
                    self.send_header("ETag", tag)
                self.send_header("Content-Length", str(len(body) if status == 200 else 0))
                self.end_headers()
                if status == 200:
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.host = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def put(self, path, text):
        """Let a page be there, or change."""
        self.pages[path] = text if isinstance(text, bytes) else text.encode()
        return self.host + path

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def site():
    """A site with three pages."""
    site = Site()
    for name in ("a", "b", "c"):
        site.put(f"/{name}", f"<p>{name}: one</p>\n")
    yield site
    site.close()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UNSTALE_MIRROR", raising=False)
    return tmp_path


@pytest.fixture
def run(capsys):
    """Run a command and return what it prints."""

    def run(*arguments, code=0):
        capsys.readouterr()
        got = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        err = err.replace("compiling the kernels (once, some seconds) ...\n", "")
        assert got == code, (out, err)
        return out, err

    return run


@pytest.fixture
def ask(run):
    """Run a command with --json and return the answer."""

    def ask(*arguments, code=0):
        return json.loads(run(*arguments, "--json", code=code)[0], parse_constant=pytest.fail)

    return ask


@pytest.fixture
def refuse(run):
    """Run a command that must fail, and return its one line."""

    def refuse(*arguments):
        out, err = run(*arguments, code=2)
        assert out == ""
        assert err.startswith("unstale: ")
        assert err.count("\n") == 1
        return err.removeprefix("unstale: ").rstrip("\n")

    return refuse


@pytest.fixture
def mirror(folder):
    """A mirror that may poll quickly."""
    (folder / "mirror.toml").write_text(QUICK)
    return folder / "mirror.toml"


@pytest.fixture
def polled(mirror, site, run):  # noqa: ARG001  (it has to be there)
    """A mirror of the site, with a copy of each page."""
    run("add", *(site.host + path for path in site.pages))
    for _ in range(10):  # on a busy machine it may take more than one
        run("run", "--once")
        if len(run("changes")[0].splitlines()) >= len(site.pages):
            break
    return site


@pytest.fixture
def run_until_seen(run):
    """Run the mirror until so many versions are recorded, and return what it printed."""

    def run_until_seen(count):
        printed = ""
        for _ in range(20):
            printed += run("run", "--for", "1s")[0]
            if len(run("changes")[0].splitlines()) >= count:
                return printed
        return pytest.fail("the change was not seen")

    return run_until_seen
