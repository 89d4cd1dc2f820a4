"""Whatever Apprise reaches: chats, push services, SMS and a hundred others, by an address of its own."""

from __future__ import annotations

import asyncio
import logging
import re
import warnings
from contextlib import suppress
from typing import Any

from unstale.errors import InvalidInput, need

from .messages import Message
from .webhooks_and_commands import Undelivered

_LIST = "https://github.com/caronc/apprise/wiki"
_MOST_WORDS = 300
_SECRET_PART = re.compile(r"[/:@?&=]+")
_SHORTEST_SECRET = 4


class AppriseTarget:
    """Sends messages to a service by its Apprise address, such as ``tgram://TOKEN/CHAT``.

    The address is a secret as a whole: messages name the service alone. It is told that they are plain
    text, so that a service that takes HTML shows what a page says, and does not obey it.
    """

    def __init__(self, address: str, timeout: float) -> None:
        found = None
        scheme = address.partition("://")[0]
        need("apprise", extra="notify", needed_for="messages by Apprise")
        with warnings.catch_warnings(), suppress(Exception):  # a plugin raises anything
            warnings.simplefilter("ignore")  # it loads a hundred plugins
            import apprise

            found = apprise.Apprise.instantiate(address, suppress_exceptions=True)
        if found is None:
            raise InvalidInput(
                f"apprise must be an address that Apprise knows, such as mailto://..., tgram://... or "
                f"ntfy://...; one that begins with {scheme[:20]!r} cannot be used: see {_LIST}"
            )
        self._service, self._timeout, self._address = found, timeout, address
        self.name = f"{getattr(found, 'service_name', None) or scheme} (apprise)"

    async def tell(self, id_: str, time: float, message: Message) -> None:  # noqa: ARG002
        """Send a message, or raise `Undelivered`."""
        said = _Complaints()
        logger = logging.getLogger("apprise")
        logger.addHandler(said)
        try:
            async with asyncio.timeout(self._timeout):
                taken = await asyncio.to_thread(self._send, message)
        except TimeoutError:
            raise Undelivered(f"no answer within {self._timeout:g} seconds") from None
        except Exception as error:  # noqa: BLE001  (a plugin raises anything)
            raise Undelivered(self._without_secrets(f"{type(error).__name__}: {error}")) from None
        finally:
            logger.removeHandler(said)
        if not taken:
            raise Undelivered(self._without_secrets(said.words) or "the service did not take it")

    def _send(self, message: Message) -> bool:
        import apprise

        told: Any = apprise.Apprise()
        told.add(self._service)
        body, text = message.body or message.title, apprise.NotifyFormat.TEXT
        return bool(told.notify(body=body, title=message.title, body_format=text))

    def _without_secrets(self, words: str) -> str:
        """Return words without any part of the address."""
        for secret in sorted(set(_SECRET_PART.split(self._address)), key=len, reverse=True):
            if len(secret) >= _SHORTEST_SECRET and secret not in {"localhost", "https", "json", "jsons"}:
                words = words.replace(secret, "***")
        return " ".join(words.split())[:_MOST_WORDS]

    async def close(self) -> None:
        """Do nothing: each message has a connection of its own."""


class _Complaints(logging.Handler):
    """Keeps the first complaint that a plugin logs, which is all that it says of why it failed."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.words = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the first one."""
        self.words = self.words or record.getMessage()
