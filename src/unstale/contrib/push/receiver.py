"""The server that hubs, GitHub, GitLab and sites reach: it checks who sends, and gives hints.

It is reached by strangers, so it knows few paths and bounds everything: the size and time of a request, how
many there are at once, whom it asks in return. What is refused has one short answer; what a hub sends with a
wrong signature is dropped with a friendly one, as WebSub demands.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from aiohttp import web

from unstale.errors import InvalidInput
from unstale.mirror.mirror import Mirror
from unstale.mirror.store.storable import text_of

from .connections import OpenConnections
from .subscriber import HubSubscriber
from .subscriptions import Subscriptions
from .webhooks import IndexNowPush, is_signed, read_index_now, read_repository

__all__ = ["PushReceiver", "Secrets"]

MOST_BODY_BYTES = 5_000_000
_BODY_SECONDS = 20.0
_MOST_REQUESTS = 50
"""At once; others are asked to come again."""
_TURN_SECONDS = 30.0
"""Between two looks for what is to be subscribed or renewed."""
_MOST_KEY_BYTES = 1024
_KEY_KEPT_SECONDS, _MOST_KEYS_KEPT = 600.0, 10_000
"""For which a host is not asked again for the key that it has shown, or has not."""
_MOST_KEYS_OF_HOST = 5
"""For which a host is asked in that time: strangers invent them, and it is our name that asks."""
_MOST_CONCERNED = 100_000
"""Elements of one repository that are hinted."""


@dataclass(frozen=True)
class Secrets:
    """What senders must show; those without one are not let in."""

    github: str | None = None
    gitlab: str | None = None
    indexnow: bool = False
    """Whether sites may say what has changed; they show a key that lies on their host."""

    def __post_init__(self) -> None:
        """Check them."""
        for name in ("github", "gitlab"):
            value = getattr(self, name)
            if value is not None and len(value) < 16:
                raise InvalidInput(f"the secret of {name} must have at least 16 characters")


class PushReceiver:
    """Takes what others send, and gives hints.

    Parameters
    ----------
    mirror
        whose elements are hinted
    file
        where subscriptions are kept
    public
        the address by which hubs reach us
    pattern
        elements that are subscribed to if they name a hub; None: feeds
    secrets
        what other senders must show
    on_event
        called with words for people
    """

    def __init__(
        self,
        mirror: Mirror,
        file: Path,
        public: str,
        *,
        pattern: str | None = None,
        secrets: Secrets = Secrets(),
        on_event: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._mirror, self._secrets, self._tell = mirror, secrets, on_event
        self.subscriptions = Subscriptions(file)
        self._subscriber = HubSubscriber(mirror, self.subscriptions, public, pattern)
        self._requests = 0
        self._connections: OpenConnections | None = None
        self._keys: dict[tuple[str, str, str], tuple[float, bool]] = {}
        self._asked: dict[str, list[float]] = {}
        """When hosts were asked for keys of late."""

    # --- running

    async def run(self, host: str, port: int, stop: asyncio.Event, *, started: Callable[[int], None]) -> None:
        """Serve and subscribe until stopped; ``started`` is told the port."""
        app = web.Application(middlewares=[self._bounded], client_max_size=MOST_BODY_BYTES)
        app.add_routes([
            web.get("/websub/{path}", self._confirm),
            web.post("/websub/{path}", self._content),
            web.post("/github", self._github),
            web.post("/gitlab", self._gitlab),
            web.get("/indexnow", self._index_now),
            web.post("/indexnow", self._index_now),
        ])  # fmt: skip
        runner = web.AppRunner(app, access_log=None, max_line_size=8192, max_field_size=8192)
        await runner.setup()
        listening: asyncio.Server | None = None
        silent: asyncio.Task[None] | None = None
        try:
            try:
                assert runner.server is not None  # noqa: S101  (after setup)
                self._connections = OpenConnections(runner.server)
                listening = await asyncio.get_running_loop().create_server(self._connections, host, port)
            except OSError as error:
                raise InvalidInput(
                    f"--host {host} --port {port}: cannot listen there: {error.strerror}"
                ) from None
            silent = asyncio.create_task(self._connections.close_silent())
            started(int(listening.sockets[0].getsockname()[1]))
            while not stop.is_set():
                try:
                    await self._subscriber.turn()
                except OSError as error:  # a store that is busy: the next turn does it
                    self._tell(str(error))
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), _TURN_SECONDS)
        finally:
            if silent is not None:
                silent.cancel()
            if listening is not None:
                listening.close()
            await runner.cleanup()
            await self._subscriber.close()

    @web.middleware
    async def _bounded(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if self._requests >= _MOST_REQUESTS:
            return _answer(503, "too many requests at once", {"Retry-After": "5"})
        self._requests += 1
        connections, connection = self._connections, request.protocol
        if connections is not None:
            connections.asking.add(connection)
        try:
            return await handler(request)
        except web.HTTPException as error:
            return _answer(error.status, error.reason)
        except InvalidInput as error:
            return _answer(400, str(error))
        except TimeoutError:
            return _answer(408, "the body took too long")
        finally:
            self._requests -= 1
            if connections is not None:
                connections.answered(connection)

    # --- WebSub

    async def _confirm(self, request: web.Request) -> web.Response:
        one = self.subscriptions.at(request.match_info["path"])
        answer = None if one is None else await self._subscriber.confirm(one, request.query)
        if one is None or answer is None:
            return _answer(404, "nobody has asked for that")
        self._tell(f"{one.hub}: {one.key} is {one.state}")
        return _answer(200, answer)

    async def _content(self, request: web.Request) -> web.Response:
        one = self.subscriptions.at(request.match_info["path"])
        if one is None or one.state != "active":
            return _answer(410, "nobody has asked for that")
        body = await _body(request)
        if not is_signed(one.secret, body, request.headers.get("X-Hub-Signature", "")):
            self._tell(f"{one.hub}: what it sent for {one.key} is not signed as agreed; it was dropped")
            return _answer(202, "taken")
        await self._hint([one.key], "websub")
        return _answer(202, "taken")

    # --- GitHub and GitLab

    async def _github(self, request: web.Request) -> web.Response:
        secret, body = self._secrets.github, await _body(request)
        given = request.headers.get("X-Hub-Signature-256", "")
        if secret is None or not is_signed(secret, body, given, only=("sha256",)):
            return _answer(403, "the signature X-Hub-Signature-256 is missing or wrong")
        if request.headers.get("X-GitHub-Event") == "ping":
            return _answer(200, "it works")
        return await self._repository(body, "github")

    async def _gitlab(self, request: web.Request) -> web.Response:
        secret, given = self._secrets.gitlab, request.headers.get("X-Gitlab-Token", "")
        if secret is None or not hmac.compare_digest(
            secret.encode(), given.encode("utf-8", "surrogateescape")
        ):
            return _answer(403, "the header X-Gitlab-Token is missing or wrong")
        return await self._repository(await _body(request), "gitlab")

    async def _repository(self, body: bytes, channel: str) -> web.Response:
        push = await asyncio.to_thread(read_repository, body)

        def concerned() -> list[str]:
            found: list[str] = []
            for address in push.addresses:
                for one in self._mirror.elements(f"*{_literal(address)}*"):
                    if one.state != "removed" and push.concerns(one.key):
                        found.append(one.key)
                        if len(found) >= _MOST_CONCERNED:
                            return found
            return found

        keys = list(dict.fromkeys(await asyncio.to_thread(concerned)))
        return _answer(200, f"{await self._hint(keys, channel)} elements hinted")

    # --- IndexNow

    async def _index_now(self, request: web.Request) -> web.Response:
        if not self._secrets.indexnow:
            return _answer(404, "this receiver takes no IndexNow")
        if request.method == "GET":
            said: object = dict(request.query)
        else:
            try:
                said = json.loads(await _body(request))
            except (ValueError, RecursionError):
                return _answer(400, "the body is no JSON")
        if not isinstance(said, dict):
            return _answer(400, "the body must be a JSON object")
        push = read_index_now(said)
        there = await asyncio.to_thread(self._known, push.addresses)
        if not there:  # nobody is asked for a key of a host that is none of ours
            return _answer(422, "none of these addresses is in this mirror")
        if not await self._shows_key(push):
            return _answer(403, f"{push.location} does not hold the key")
        return _answer(200, f"{await self._hint(there, 'indexnow')} elements hinted")

    def _known(self, addresses: Sequence[str]) -> list[str]:
        with self._mirror.store.begin() as t:
            found = t.find(addresses)
        return [element.key for element in found.values() if element.state != "removed"]

    async def _shows_key(self, push: IndexNowPush) -> bool:
        """Tell whether the host of a submission holds its key; it is asked once in a while."""
        which, now = (push.host, push.key, push.location), asyncio.get_running_loop().time()
        at, right = self._keys.get(which, (-_KEY_KEPT_SECONDS, False))
        if now - at < _KEY_KEPT_SECONDS:
            return right
        asked = [one for one in self._asked.get(push.host, ()) if now - one < _KEY_KEPT_SECONDS]
        if len(asked) >= _MOST_KEYS_OF_HOST:
            return False
        if len(self._asked) >= _MOST_KEYS_KEPT:
            self._asked.clear()
        self._asked[push.host] = [*asked, now]
        try:
            async with self._subscriber.session().get(push.location, allow_redirects=False) as answer:
                text = await answer.content.read(_MOST_KEY_BYTES) if answer.status == 200 else b""
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            text = b""
        right = hmac.compare_digest(text.strip(), push.key.encode())
        if len(self._keys) >= _MOST_KEYS_KEPT:
            self._keys.clear()
        self._keys[which] = now, right
        return right

    async def _hint(self, keys: Sequence[str], channel: str) -> int:
        if not keys:
            return 0
        try:
            count = await asyncio.to_thread(self._mirror.hint, keys, channel=channel)
        except InvalidInput as error:  # removed meanwhile
            self._tell(str(error))
            return 0
        self._tell(f"{channel}: {keys[0]}" + (f" and {count - 1} more" if count > 1 else ""))
        return count


async def _body(request: web.Request) -> bytes:
    async with asyncio.timeout(_BODY_SECONDS):
        return await request.read()


def _literal(text: str) -> str:
    """Return a pattern that matches a text as it is."""
    return "".join(f"[{one}]" if one in "*?[" else one for one in text)


def _answer(status: int, text: str, headers: dict[str, str] | None = None) -> web.Response:
    more = {"X-Content-Type-Options": "nosniff", **(headers or {})}
    return web.Response(status=status, text=text_of(text), content_type="text/plain", headers=more)
