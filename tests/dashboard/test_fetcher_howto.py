"""The page about fetchers of one's own: what it shows runs, against a real site and a real server."""

import http.server
import json
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from unstale import Mirror
from unstale.mirror.source import New

from .test_serve import running

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "bring-your-own-fetcher.md"


@pytest.fixture
def site():
    """A site whose pages change at each look."""
    looks = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            looks.append(self.path)
            body = f"{self.path} {len(looks)}".encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", looks
        server.shutdown()


def test_the_example_fetches_what_the_mirror_plans(tmp_path, site):
    host, looks = site
    blocks = dict(re.findall(r"^```(toml|python)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL))
    (tmp_path / "mirror.toml").write_text(blocks["toml"] + '[[group]]\nmatch = "*"\nspacing = "0s"\n')
    (tmp_path / "fetch.py").write_text(blocks["python"])
    with Mirror(tmp_path / "mirror.db") as mirror:
        mirror.add_many([New(f"{host}/{k}") for k in range(5)])
    with running(tmp_path, "--serve", "--port", "0", "--for", "600s", command="run") as (_, address):
        line = [sys.executable, "-u", str(tmp_path / "fetch.py"), address, "600"]
        with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as fetcher:  # noqa: S603
            recorded = 0
            while recorded < 5:
                told = fetcher.stdout.readline()
                assert told, "the fetcher has ended"
                recorded += int(re.search(r"recorded=(\d+)", told).group(1))
            fetcher.kill()
    assert set(looks) == {f"/{k}" for k in range(5)}
    with Mirror(tmp_path / "mirror.db") as mirror:
        assert len(mirror.polls()) >= 5
        assert {poll.outcome for poll in mirror.polls()} <= {"new", "changed"}
        assert all(element.fingerprint for element in mirror.elements())


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_shell_example_takes_leases_puts_content_and_reports(tmp_path):
    text = PAGE.read_text()
    shown = re.findall(r"^ *```sh\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    leases, outcomes, contents = (
        next(block for block in shown if f"/api/{name}" in block)
        for name in ("leases", "outcomes", "contents")
    )
    config = re.search(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL).group(1)
    (tmp_path / "mirror.toml").write_text(config)
    (tmp_path / "page.html").write_text("<p>content</p>")
    with Mirror(tmp_path / "mirror.db") as mirror:
        mirror.add_many([New(f"https://{host}.example/") for host in "ab"])
    with running(tmp_path, "--serve", "--port", "0", "--for", "600s", command="run") as (_, address):

        def shell(block):
            line = block.replace("http://127.0.0.1:8321", address.rstrip("/"))
            done = subprocess.run(  # noqa: S603
                ["/bin/sh", "-ec", line], cwd=tmp_path, capture_output=True, text=True, check=True
            )
            return json.loads(done.stdout)

        taken = []
        while len(taken) < 2:
            taken += shell(leases)["leases"]
            time.sleep(0.2)
        time.sleep(max(max(one["slot"] for one in taken) - time.time(), 0.0))
        put = shell(contents)
        first, second = (
            outcomes.replace('"element": 1', f'"element": {one["element"]}').replace(
                "1795000000.5", repr(one["slot"])
            )
            for one in taken
        )
        assert shell(first) == {"recorded": 1, "again": 0, "refused": []}
        assert shell(first) == {"recorded": 0, "again": 1, "refused": []}
        named = second.replace('"fingerprint": "sha256:9f86d0..."', f'"digest": "{put["digest"]}"')
        assert shell(named)["recorded"] == 1
    with Mirror(tmp_path / "mirror.db") as mirror:
        assert mirror.read(taken[1]["key"]).body == b"<p>content</p>"
        assert mirror.find(taken[0]["key"]).validators == {"etag": '"a1"'}
