"""The page on being told of changes: what it shows works, with servers on this machine in place of others."""

import json
import re
import shlex
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from unstale import Mirror
from unstale.cli import main
from unstale.mirror.config.file import load
from unstale.mirror.json_values import as_json

from .test_messages import post_office

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "be-told-of-changes.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [line for kind, text in BLOCKS if kind == "sh" for line in text.splitlines()]
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:aiosmtpd")


@contextmanager
def hooked():
    """Take whatever is posted; gives the port, and the paths that were asked for."""
    paths = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            paths.append(self.path.rstrip("/"))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Hook) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server.server_port, paths
        server.shutdown()
        thread.join()


def written(post, hook):
    """Return the page's targets as mirror.toml, with servers on this machine."""
    text = "\n".join(block for kind, block in BLOCKS if kind == "toml")
    text = re.sub(r"^(user|password|quiet) = .*\n", "", text, flags=re.MULTILINE)  # only TLS takes a login
    text = text.replace("smtps://mail.example.org", f"smtp://127.0.0.1:{post.port}")
    text = text.replace("ntfy://ntfy.example.org/my-topic", f"json://127.0.0.1:{hook}/people")
    text = text.replace("https://example.org/changed", f"http://127.0.0.1:{hook}/changed")
    told = [sys.executable, "-c", "import sys; open('told.json', 'a').write(sys.stdin.read())"]
    text = text.replace('["/usr/local/bin/reindex", "--quiet"]', json.dumps(told))
    return re.sub(r'^match = ".*"', 'match = "*page.txt"', text, flags=re.MULTILINE)


def test_each_target_of_the_page_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with post_office() as post, hooked() as (port, paths):
        Path("mirror.toml").write_text('[mirror]\nbudget = "60/min"\n\n' + written(post, port))
        Path("page.txt").write_text("one\n")
        assert main(["add", "page.txt"]) == 0
        config = load("mirror.toml")
        assert len(config.settings.notify) == 4
        with Mirror(config.store, settings=config.settings) as mirror:
            thread = threading.Thread(target=mirror.run, args=(mirror.clock.now() + 120.0,))
            thread.start()
            try:
                until(lambda: Path("told.json").exists())  # programs are told of the first copy
                Path("page.txt").write_text("two\n")
                mirror.hint([str(Path("page.txt").absolute())])
                until(lambda: post.mails and len(Path("told.json").read_text().splitlines()) >= 2)
                until(lambda: "/people" in paths)
            finally:
                mirror.stop()
                thread.join()
            (last,) = (as_json(one) for one in mirror.changes()[-1:])
        assert "two" in post.mails[0].text
        assert set(paths) == {"/people", "/changed"}
        said = json.loads(Path("told.json").read_text().splitlines()[-1])
        assert said == last
        shown = json.loads(next(block for kind, block in BLOCKS if kind == "json"))
        assert shown.keys() == last.keys()  # the members that the page tells of
        capsys.readouterr()
        assert "unstale notify --test" in COMMANDS
        assert main(["notify", "--test"]) == 0, capsys.readouterr()
        assert main(["changes", "--after", "1"]) == 0
    for command in COMMANDS:  # those that go on for ever are read here, and run above
        program, verb, *_ = shlex.split(command)
        assert program == "unstale"
        assert verb in {"changes", "notify"}


def until(is_true):
    for _ in range(1200):
        if is_true():
            return
        threading.Event().wait(0.05)
    pytest.fail("it was not so within a minute")
