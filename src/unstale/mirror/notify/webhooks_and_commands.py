"""The targets of notifications: webhooks and commands. Each call makes one attempt."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit

from unstale.errors import InvalidInput

if TYPE_CHECKING:
    from aiohttp import ClientSession

_SHOWN_BYTES = 500
"""Of the answer of a webhook, or of the end of what a command writes, in messages."""


class Undelivered(Exception):  # noqa: N818  (it is tried again)
    """The target did not take the change; it asks to wait for ``wait`` seconds.

    ``refused``: it never will, because of what is in it.
    """

    def __init__(self, why: str, wait: float | None = None, *, refused: bool = False) -> None:
        super().__init__(why)
        self.wait, self.refused = wait, refused


class NotifyTarget(Protocol):
    """Takes changes."""

    name: str
    """Its name in messages, without secrets."""

    async def send(self, id_: str, time: float, body: bytes) -> None:
        """Send one change, or raise `Undelivered`."""

    async def close(self) -> None:
        """Close all connections."""


class WebhookTarget:
    """Sends each change to an address, as a POST of JSON.

    Headers are those of Standard Webhooks (https://www.standardwebhooks.com): ``webhook-id``, the same at
    each attempt, ``webhook-timestamp``, and with a secret ``webhook-signature``. A redirect is not followed.
    """

    def __init__(self, url: str, secret: str | None, timeout: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise InvalidInput("webhook must be an address such as https://example.org/hook")
        self.name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"  # paths of webhooks are secrets
        self._url, self._timeout = url, timeout
        self._key = None if secret is None else _key(secret)
        self._session: ClientSession | None = None

    async def send(self, id_: str, time: float, body: bytes) -> None:
        """Post a change."""
        import aiohttp

        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=self._timeout), cookie_jar=aiohttp.DummyCookieJar()
            )
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"unstale/{version('unstale')}",
            "webhook-id": id_,
            "webhook-timestamp": str(int(time)),
        }
        if self._key is not None:
            headers["webhook-signature"] = signature(self._key, id_, int(time), body)
        try:
            async with self._session.post(
                self._url, data=body, headers=headers, allow_redirects=False
            ) as answer:
                if 200 <= answer.status < 300:
                    return
                said = " ".join((await answer.content.read(_SHOWN_BYTES)).decode("utf-8", "replace").split())
                why = f"{answer.status} {answer.reason or ''}".strip()
                why = self._without_secrets(f"{why}: {said}" if said else why)
                raise Undelivered(why, _seconds(answer.headers))
        except TimeoutError:
            raise Undelivered(f"no answer within {self._timeout:g} seconds") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Undelivered(self._without_secrets(str(error)) or type(error).__name__) from None

    def _without_secrets(self, words: str) -> str:
        """Return words about a failure without what comes after the host of the address."""
        parts = urlsplit(self._url)
        for secret in (self._url, parts.path, unquote(parts.path), parts.query):
            if len(secret) > 1:
                words = words.replace(secret, "***")
        return words

    async def close(self) -> None:
        """Close connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


def signature(key: bytes, id_: str, time: int, body: bytes) -> str:
    """Return the signature of a message, by the rules of Standard Webhooks.

    Parameters
    ----------
    key
        The secret.
    id_
        The id of the message, the same at each attempt.
    time
        The time of the attempt, in seconds since 1970.
    body
        The message.

    Examples
    --------
    >>> key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    >>> signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    """
    made = hmac.new(key, f"{id_}.{time}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(made).decode()}"


def _key(secret: str) -> bytes:
    """Return the bytes of a secret: base64 after ``whsec_``, plain text otherwise."""
    if not secret:
        raise InvalidInput("secret must not be empty")
    if not secret.startswith("whsec_"):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        raise InvalidInput("secret must be base64 after 'whsec_'; any other text is taken as it is") from None


def _seconds(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of Retry-After; None if it has none."""
    said = headers.get("Retry-After", "").strip()
    return float(said) if said.isdecimal() and len(said) < 10 else None


class CommandTarget:
    """Runs a command for each change, without a shell, with the change as JSON on its standard input.

    Exit code 0 means that the command has taken the change. A command that takes longer than ``timeout`` is
    killed, with all processes that it has started.
    """

    def __init__(self, command: Sequence[str], timeout: float) -> None:
        if isinstance(command, str) or not all(isinstance(part, str) for part in command) or not command[0]:
            raise InvalidInput(f"command must be a list: the program and its arguments; it is {command!r}")
        self.name = command[0]
        self._command, self._timeout = tuple(command), timeout

    async def send(self, id_: str, time: float, body: bytes) -> None:  # noqa: ARG002
        """Run the command."""
        # Files, not pipes: the command need not read, may write much, and its children cannot block this.
        with TemporaryFile() as given, TemporaryFile() as said:
            given.write(body + b"\n")
            given.seek(0)
            code = await self._run(given, said)
            words = _last_words(said)
        if code:
            how = f"exit code {code}" if code > 0 else f"killed by signal {-code}"
            raise Undelivered(f"{how}: {words}" if words else how)

    async def _run(self, given: IO[bytes], said: IO[bytes]) -> int:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=given,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise Undelivered(f"cannot be run: {getattr(error, 'strerror', None) or error}") from None
        try:
            async with asyncio.timeout(self._timeout):
                return await process.wait()
        except TimeoutError:
            raise Undelivered(f"not done within {self._timeout:g} seconds; it was killed") from None
        finally:
            await _end(process)

    async def close(self) -> None:
        """Do nothing: a command ends with its change."""


def _last_words(said: IO[bytes]) -> str:
    size = said.seek(0, os.SEEK_END)
    said.seek(max(0, size - _SHOWN_BYTES))
    return " ".join(said.read(_SHOWN_BYTES).decode("utf-8", "replace").split())


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill a command that still runs, with all processes that it has started."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)  # it leads a process group of its own
            else:
                process.kill()
        await process.wait()
