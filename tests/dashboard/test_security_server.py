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
from contextlib import ExitStack, contextmanager

import pytest

from unstale import Mirror
from unstale.dashboard import guard as guarding
from unstale.dashboard import server as serving
from unstale.dashboard.access_rules import AccessRules
from unstale.dashboard.guard import GuardMiddleware

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


def answer_to(connection, sent):
    """Return all that the server says until it closes the connection."""
    connection.sendall(sent)
    answer = b""
    try:
        while part := connection.recv(10_000):
            answer += part
    except ConnectionError:
        pass
    return answer


@pytest.fixture
def few(monkeypatch):
    """Let a server have few connections."""
    monkeypatch.setattr(serving, "_most_connections", lambda: 20)
    monkeypatch.setattr(serving, "_HEADERS_SECONDS", ENOUGH)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: loc", ASKED])
def test_silent_connections_keep_nobody_out(connect, sent, monkeypatch):
    monkeypatch.setattr(serving, "_HEADERS_SECONDS", ENOUGH)  # which the other fixture has shortened
    last = ASKED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    with ExitStack() as stack:
        silent = []
        for _ in range(60):
            silent.append(stack.enter_context(connect()))
            silent[-1].sendall(sent)
            if sent is ASKED:  # and stays after its answer
                assert silent[-1].recv(1000).startswith(b"HTTP/1.1 200")
        for _ in range(3):
            answer = answer_to(stack.enter_context(connect()), last)
            assert answer.startswith(b"HTTP/1.1 200")
            assert answer.endswith(b"hello")
        assert b"HTTP" not in answer_to(silent[0], b"")  # the oldest is closed


@pytest.mark.usefixtures("few")
def test_who_is_being_answered_is_not_cut_off(connect):
    with ExitStack() as stack:
        slow = stack.enter_context(connect())
        slow.sendall(ASKED.replace(b"/ ", b"/slow "))
        for _ in range(60):
            stack.enter_context(connect())
        assert slow.recv(1000).startswith(b"HTTP/1.1 200")


@pytest.fixture
def guarded(monkeypatch):
    """Return what connects to a server whose application is guarded."""
    monkeypatch.setattr(serving, "_HEADERS_SECONDS", PATIENCE)
    server = serving.Server(GuardMiddleware(app, AccessRules()))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        yield lambda: socket.create_connection(listening.getsockname(), timeout=ENOUGH)
        server.should_exit = True
        thread.join(ENOUGH)


HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: localhost\r\n\r\n"
BOTH = b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n"


@pytest.mark.parametrize("method", [b"GET", b"POST", b"HEAD", b"PUT"])
@pytest.mark.parametrize(
    "framing",
    [
        BOTH % 5,
        BOTH % 0,
        BOTH % (5 + len(HIDDEN)),
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        b"transfer-encoding: CHUNKED\r\nCONTENT-LENGTH: 5\r\n",
        b"Content-Length: 5\r\nContent-Length: 60\r\n",
        b"Content-Length: 5, 60\r\n",
        b"Content-Length: +5\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"Transfer-Encoding: identity, chunked\r\n",
    ],
)
def test_a_request_with_two_ends_gets_one_answer(guarded, method, framing):
    head = method + b" /login HTTP/1.1\r\nHost: localhost\r\n" + framing + b"\r\n"
    with guarded() as connection:
        answer = answer_to(connection, head + b"0\r\n\r\n" + HIDDEN)
    assert answer.count(b"HTTP/1.1 ") == 1, answer
    assert answer.split()[1] in {b"400", b"501"}


def test_health_has_its_own_room(monkeypatch):
    monkeypatch.setattr(guarding, "_MOST_REQUESTS", 3)
    monkeypatch.setattr(guarding, "_MOST_HEALTH_REQUESTS", 2)

    async def ask(guard, path, statuses):
        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message):
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        headers = [(b"host", b"localhost")]
        scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": headers}
        await guard(scope, receive, send)

    async def all_of_it():
        go = asyncio.Event()

        async def waiting(_, __, send):
            await go.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        guard, pages, health = GuardMiddleware(waiting, AccessRules()), [], []
        async with asyncio.TaskGroup() as group:
            for _ in range(10):
                group.create_task(ask(guard, "/x", pages))
            group.create_task(ask(guard, "/healthz", health))
            await asyncio.sleep(0.05)
            assert (pages, health) == ([503] * 7, [])
            go.set()
        assert (sorted(pages), health) == ([200] * 3 + [503] * 7, [200])
        await ask(guard, "/x", pages)
        assert pages[-1] == 200

    asyncio.run(all_of_it())


TOKEN = "t0ken-t0ken-t0ken"  # noqa: S105
KNOCK = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n%s\r\nt"
FORM = b"Content-Type: application/x-www-form-urlencoded\r\n"


@pytest.fixture
def locked(monkeypatch):
    """Return what connects to a server that wants a token, and has room for few strangers."""
    monkeypatch.setattr(guarding, "_MOST_STRANGERS", 5)
    monkeypatch.setattr(guarding, "_MOST_REQUESTS", 5)
    monkeypatch.setattr(serving, "_STALLED_SECONDS", PATIENCE)
    server = serving.Server(GuardMiddleware(app, AccessRules(TOKEN)))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        yield lambda: socket.create_connection(listening.getsockname(), timeout=ENOUGH)
        server.should_exit = True
        thread.join(ENOUGH)


def test_strangers_keep_nobody_out(locked):
    shown = ASKED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\nAuthorization: Bearer %s\r\n\r\n")
    entering = KNOCK.replace(b"9", b"%d") % (len(TOKEN) + 6, FORM + b"Connection: close\r\n")
    with ExitStack() as stack:
        strangers = [stack.enter_context(locked()) for _ in range(20)]
        for stranger in strangers:
            stranger.sendall(KNOCK % FORM)
        assert strangers[0].recv(1000).startswith(b"HTTP/1.1 408")  # the oldest has made place
        assert answer_to(stack.enter_context(locked()), shown % TOKEN.encode()).endswith(b"hello")
        entered = answer_to(stack.enter_context(locked()), entering + b"oken=" + TOKEN.encode())
        assert entered.startswith(b"HTTP/1.1 303")


def send_to_all(connections, sent, *, times):
    for _ in range(times):
        for connection in connections:
            connection.sendall(sent)


def test_who_does_not_read_is_cut_off(locked):
    with ExitStack() as stack:
        deaf = []
        for _ in range(8):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(ENOUGH)
            with locked() as other:
                connection.connect(other.getpeername())
            deaf.append(connection)
        login = b"GET /login HTTP/1.1\r\nHost: localhost\r\n\r\n" * 500
        with pytest.raises(ConnectionError):  # the answers fill what the system keeps; then nothing is taken
            send_to_all(deaf, login, times=1000)


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
