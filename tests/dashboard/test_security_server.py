"""Clients that are slow, silent or half gone, and the end of the server while they are there."""

import asyncio
import json
import logging
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from unstale import Mirror
from unstale.dashboard import server as serving

PATIENCE = 1.5
"""What a client has for its request, in seconds."""
ENOUGH = 60.0
"""Seconds that no machine needs for anything here."""
ASKED = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def app(scope, receive, send):
    """Answer after a moment."""
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    await asyncio.sleep(2.0 * PATIENCE if scope["path"] == "/slow" else 0.1)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


@pytest.fixture
def connect(monkeypatch):
    """Return what connects to a server that waits only a moment for requests."""
    monkeypatch.setattr(serving, "_HEADERS_SECONDS", PATIENCE)
    server = serving.Server(app)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        yield lambda: socket.create_connection(listening.getsockname(), timeout=ENOUGH)
        server.should_exit = True
        thread.join(ENOUGH)
        assert not thread.is_alive()


def waited_for(connection, began):
    """Tell whether the server closes a connection, and not before its patience, from a moment on, is over."""
    try:
        while connection.recv(1000):
            pass
    except ConnectionError:
        pass
    except TimeoutError:
        return False
    return time.monotonic() - began > 0.9 * PATIENCE


@pytest.mark.parametrize("sent", [b"", b"G", b"GET / HTTP/1.1\r\nHost: loc"])
def test_who_sends_no_request_is_not_waited_for(connect, sent):
    began = time.monotonic()
    with connect() as connection:
        connection.sendall(sent)
        assert waited_for(connection, began)


def test_a_header_that_drips_does_not_help(connect):
    def drip(connection):
        for _ in range(int(ENOUGH / 0.1)):
            connection.sendall(b"x")
            time.sleep(0.1)

    with connect() as connection, pytest.raises(ConnectionError):
        drip(connection)


def test_the_second_request_is_waited_for_no_longer(connect):
    with connect() as connection:
        for _ in range(3):
            began = time.monotonic()
            connection.sendall(ASKED)
            answer = b""
            while not answer.endswith(b"hello"):
                part = connection.recv(1000)
                assert part, answer
                answer += part
        connection.sendall(ASKED[:20])
        assert waited_for(connection, began)


def test_a_slow_answer_is_waited_for(connect):
    with connect() as connection:
        connection.sendall(ASKED.replace(b"/ ", b"/slow "))
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")


def test_who_will_send_no_more_is_answered(connect):
    with connect() as connection:
        connection.sendall(ASKED)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while part := connection.recv(1000):  # and it is closed then
            answer += part
        assert answer.endswith(b"hello")
    with connect() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx")
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1000):
            pass


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (asyncio.CancelledError(), None),
        (EOFError("a copy is damaged"), "a copy is damaged"),
        (ValueError("a bug"), "Exception in ASGI application"),
    ],
)
def test_what_is_told_in_the_log(error, told):
    record = logging.LogRecord(
        "uvicorn.error", logging.ERROR, "", 0, "Exception in ASGI application", (), (type(error), error, None)
    )
    assert serving._worth_telling(record) == (told is not None)
    if told is not None:
        assert record.getMessage() == told
        assert (record.exc_info is None) == isinstance(error, EOFError)


@contextmanager
def with_a_slow_client(folder):
    """Run ``unstale serve`` while somebody asks for a large copy and does not read it."""
    page = folder / "page.bin"
    page.write_bytes(random.Random(1).randbytes(15_000_000))  # noqa: S311
    (folder / "mirror.toml").write_text('[mirror]\nbudget = "100/s"\n')
    with Mirror(folder / "mirror.db") as mirror:
        mirror.add(str(page))
        mirror.step()
        key = next(iter(mirror.elements())).key
    line = [sys.executable, "-m", "unstale", "serve", "--json", "--mirror", str(folder), "--port", "0"]
    with (
        subprocess.Popen(  # noqa: S603
            line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process,
        socket.socket() as connection,
    ):
        try:
            port = int(json.loads(process.stdout.readline())["address"].rstrip("/").rpartition(":")[2])
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(ENOUGH)
            connection.connect(("127.0.0.1", port))
            connection.sendall(f"GET /copies/{key} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert connection.recv(15) == b"HTTP/1.1 200 OK"
            time.sleep(0.5)
            yield process
        finally:
            process.kill()


def test_it_ends_quietly_while_clients_are_slow(tmp_path):
    with with_a_slow_client(tmp_path) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(ENOUGH) == 0
        assert process.stderr.read() == ""


def test_a_second_interruption_ends_it_at_once(tmp_path):
    with with_a_slow_client(tmp_path) as process:
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(ENOUGH) == 130
        assert process.stderr.read() == ""
