"""E-mail by SMTP: each message to one address, so that one that refuses delays no other."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from contextlib import suppress
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from functools import cached_property
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from unstale.errors import InvalidInput, need

from .messages import Message
from .webhooks_and_commands import Undelivered

_PORTS: Mapping[str, int] = {"smtp": 587, "smtps": 465}
_ADDRESS = re.compile(r"[^@\s<>,;\"]+@[^@\s<>,;\"]+")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_MOST_WORDS = 300


class MailTarget:
    """Sends messages to one address.

    Parameters
    ----------
    to, sender
        Addresses of mail.
    server
        ``smtps://HOST`` (TLS from the start, port 465) or ``smtp://HOST`` (STARTTLS, port 587). Only to this
        machine itself is anything sent without TLS.
    user, password
        The login, if there is one.
    timeout
        Seconds for one message.
    """

    def __init__(
        self,
        to: str,
        sender: str | None,
        server: str,
        *,
        user: str | None,
        password: str | None,
        timeout: float,
    ) -> None:
        self.name = f"mail to {to}"
        parts = _server(server)
        self._tls, self._host = parts.scheme == "smtps", parts.hostname or ""
        self._port = parts.port or _PORTS[parts.scheme]
        if (user is None) != (password is None):
            raise InvalidInput("user and password must be given together")
        sender = sender or (user if user and _ADDRESS.fullmatch(user) else f"unstale@{self._host}")
        for key, one in (("email", to), ("sender", sender)):
            if not _ADDRESS.fullmatch(one) or not one.isprintable():
                raise InvalidInput(
                    f"{key} must be an address of mail, such as you@example.org; it is {one!r}"
                )
        self._to, self._sender, self._user, self._password = to, sender, user, password
        self._timeout = timeout
        self._smtp = need("aiosmtplib", extra="notify", needed_for="messages by mail")

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return ssl.create_default_context()

    async def tell(self, id_: str, time: float, message: Message) -> None:
        """Send a message, or raise `Undelivered`."""
        plain = not self._tls and self._host in _LOOPBACK
        client = self._smtp.SMTP(
            hostname=self._host,
            port=self._port,
            username=self._user,
            password=self._password,
            use_tls=self._tls,
            start_tls=None if plain else not self._tls,
            tls_context=self._context,
            timeout=self._timeout,
        )
        try:
            await client.connect()
            await client.send_message(
                self._mail(id_, time, message), sender=self._sender, recipients=[self._to]
            )
            with suppress(self._smtp.SMTPException, OSError):
                await client.quit()
        except self._smtp.SMTPException as error:
            raise Undelivered(self._words(error), refused=_of_content(error)) from None
        except (OSError, ValueError, TimeoutError) as error:
            raise Undelivered(self._words(error)) from None
        finally:
            client.close()

    def _mail(self, id_: str, time: float, message: Message) -> EmailMessage:
        from datetime import UTC, datetime

        mail = EmailMessage(policy=SMTP)
        mail["Subject"], mail["From"], mail["To"] = message.title, self._sender, self._to
        mail["Date"] = format_datetime(datetime.fromtimestamp(time, UTC))
        unique = sha256(f"{id_} {self._to} {self._sender}".encode()).hexdigest()[:16]
        mail["Message-ID"] = f"<{id_}.{unique}@unstale.invalid>"  # the same at each attempt
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(message.body)
        return mail

    def _words(self, error: Exception) -> str:
        """Return why the server did not take it, in one line and without the password."""
        said = str(getattr(error, "message", "") or error) or type(error).__name__
        code = getattr(error, "code", None)
        if (recipients := getattr(error, "recipients", None)) and not code:
            code, said = recipients[0].code, recipients[0].message
        words = " ".join(f"{code or ''} {said}".split())[:_MOST_WORDS]
        return words.replace(self._password, "***") if self._password else words

    async def close(self) -> None:
        """Do nothing: each message has a connection of its own."""


def _of_content(error: Any) -> bool:  # noqa: ANN401  (any error of the library)
    """Tell whether the server will never take this message, whoever it is for: it refuses what is in it."""
    return type(error).__name__ == "SMTPDataError" and 500 <= getattr(error, "code", 0) < 600


def _server(server: str) -> Any:  # noqa: ANN401  (urllib has two types)
    rule = "smtp must be smtps://HOST or smtp://HOST, with :PORT if it is not the usual one"
    try:
        parts = urlsplit(server)
        wrong = parts.scheme not in _PORTS or not parts.hostname or parts.port == 0
    except ValueError:
        raise InvalidInput(rule) from None
    if parts.username or parts.password:
        raise InvalidInput("smtp must not hold a login; user and password have keys of their own")
    if wrong or parts.path not in {"", "/"} or parts.query:
        raise InvalidInput(rule)
    return parts
