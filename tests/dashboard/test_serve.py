"""``unstale serve``, as a process on loopback."""

import json
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import httpx
import pytest

from unstale import Mirror
from unstale.cli import main
from unstale.cli.mirror.serve import serving

TOKEN = "a-token-that-nobody-guesses"  # noqa: S105
EVERYWHERE = "0.0.0.0"  # noqa: S104


def ask(address, **options):
    """Return what a server answers, on a machine of any speed."""
    return httpx.get(address, timeout=60.0, **options)


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a mirror of one file, polled once."""
    (tmp_path / "page.txt").write_text("hello")
    (tmp_path / "mirror.toml").write_text('[mirror]\nbudget = "100/s"\n')
    with Mirror(tmp_path / "mirror.db") as mirror:
        mirror.add(str(tmp_path / "page.txt"))
        mirror.step()
    return tmp_path


@contextmanager
def running(folder, *arguments, command="serve", **options):
    """Run a command; give the process and the address that it tells."""
    line = [sys.executable, "-m", "unstale", command, "--json", "--mirror", str(folder), *arguments]
    with subprocess.Popen(  # noqa: S603
        line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    ) as process:
        try:
            told = json.loads(process.stdout.readline())
            yield process, told["address"].rstrip("/")
        finally:
            process.kill()


def test_it_serves_until_it_is_told_to_end(folder):
    with running(folder, "--port", "0") as (process, address):
        assert address.startswith("http://127.0.0.1:")
        assert ask(f"{address}/healthz").json() == {"status": "ok", "running": False, "detail": ""}
        key = ask(f"{address}/api/elements").json()["elements"][0]["key"]
        answer = ask(f"{address}/copies/{key}")
        assert answer.text == "hello"
        assert "server" not in answer.headers
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stderr.read() == ""
    with Mirror(folder / "mirror.db") as mirror, mirror.store.begin() as t:
        assert [count for _, _, count in t.reads(0)] == [1]  # written in the end


def test_others_need_a_token(folder, capsys):
    assert main(["serve", "--mirror", str(folder), "--host", EVERYWHERE, "--port", "0"]) == 2
    told = capsys.readouterr().err
    assert "others can reach this address, so a token is needed" in told
    assert told.count("\n") == 1


def test_with_a_token(folder):
    (folder / "token").write_text(f"{TOKEN}\n")
    arguments = ("--host", EVERYWHERE, "--port", "0", "--token-file", str(folder / "token"))
    with running(folder, *arguments) as (_, address):
        here = f"http://127.0.0.1:{address.rpartition(':')[2]}"
        assert ask(f"{here}/healthz").status_code == 200
        assert ask(f"{here}/api/status").status_code == 401
        assert ask(f"{here}/api/status", headers={"authorization": "Bearer wrong"}).status_code == 401
        answer = ask(f"{here}/api/status", headers={"authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 200


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--token", "short"), "at least 16 printable ASCII characters"),
        (("--token", "x" * 20, "--token-file", "y"), "cannot be combined"),
        (("--token-file", "missing"), "cannot be read: No such file"),
        (("--host", "no such host"), "is no address of this machine"),
        (("--host", "192.0.2.1", "--token", "x" * 20), "cannot listen there"),
        (("--mirror", "nowhere"), "no such file"),
    ],
)
def test_mistakes_are_told_in_one_line(folder, capsys, monkeypatch, arguments, says):
    monkeypatch.chdir(folder)
    assert main(["serve", "--port", "0", *arguments]) == 2
    told = capsys.readouterr().err
    assert says in told
    assert told.count("\n") == 1


def test_a_port_that_is_taken(folder, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "--mirror", str(folder), "--port", str(port)]) == 2
    assert "name another port" in capsys.readouterr().err


def test_rubbish_is_refused_the_next_request_answered_and_an_interruption_ends_it_well(folder):
    with running(folder, "--port", "0") as (process, address):
        host, port = address.removeprefix("http://").split(":")
        for rubbish in (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"GET / HTTP/1.1\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n",
            b"GET /../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
            b"GET /static/../app.py HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
            b"GET /static/%2e%2e/app.py HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
            b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
            b"POST /hints HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999\r\n\r\n",
            b"POST /hints HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n",
            b"GARBAGE / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
        ):
            with socket.create_connection((host, int(port)), timeout=10) as connection:
                try:
                    connection.sendall(rubbish)
                    answer = connection.recv(65536)
                except ConnectionError:
                    answer = b""
            assert not answer or answer.split()[1][:1] == b"4", rubbish[:80]
        assert ask(f"{address}/healthz").status_code == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert process.stderr.read() == ""


def test_run_serves_meanwhile(folder):
    arguments = ("--serve", "--port", "0", "--for", "60s")
    with running(folder, *arguments, command="run") as (process, address):
        for _ in range(600):
            if ask(f"{address}/healthz").json()["running"]:
                break
            time.sleep(0.1)
        assert ask(f"{address}/healthz?running=true").status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert gone(address)


def test_the_dashboard_of_a_runner_can_have_a_token(folder):
    (folder / "token").write_text(TOKEN)
    with serving(str(folder), 0, str(folder / "token"), ("mirror.example",)) as found:
        address = found()
        asked = f"{address}api/openapi.json"
        shown = {"authorization": f"Bearer {TOKEN}"}
        assert ask(asked).status_code == 401
        assert ask(asked, headers=shown).status_code == 200
        assert ask(asked, headers={**shown, "host": "mirror.example"}).status_code == 200
        assert ask(asked, headers={**shown, "host": "other.example"}).status_code == 421
    assert gone(address.rstrip("/"))


def test_a_dashboard_does_not_outlive_its_runner(folder):
    with running(folder, "--serve", "--port", "0", "--for", "60s", command="run") as (process, address):
        assert ask(f"{address}/healthz").status_code == 200
        process.kill()
        process.wait()
        assert gone(address)


def test_run_does_not_start_without_the_dashboard_that_was_asked_for(folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        line = [sys.executable, "-m", "unstale", "run", "--mirror", str(folder), "--serve", "--port", port]
        done = subprocess.run(  # noqa: S603
            line, capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 2
    assert "name another port" in done.stderr
    assert "could not be started" in done.stderr


def test_a_port_is_for_the_dashboard(folder, capsys):
    assert main(["run", "--once", "--mirror", str(folder), "--port", "0"]) == 2
    assert "say --serve, too" in capsys.readouterr().err


def gone(address):
    """Tell whether nobody listens there any more, soon."""
    for _ in range(100):
        try:
            httpx.get(f"{address}/healthz", timeout=5)
        except httpx.TransportError:
            return True
        time.sleep(0.1)
    return False


def test_without_the_extra_it_says_what_to_install(folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["serve", "--mirror", str(folder)]) == 2
    assert "pip install 'unstale[web]'" in capsys.readouterr().err
