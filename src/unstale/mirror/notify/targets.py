"""Who is told: what a ``[[notify]]`` names, checked, as targets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from math import inf
from typing import Protocol

from unstale.errors import InvalidInput
from unstale.mirror.reports.alarms import Alarm
from unstale.mirror.settings import ALARMS, Notify
from unstale.mirror.store.contract import Version
from unstale.schedule.windows import Windows

from .messages import Message, MessageTemplates
from .webhooks_and_commands import CommandTarget, NotifyTarget, WebhookTarget

WAYS = ("webhook", "command", "email", "apprise")
_FOR_PEOPLE = ("title", "message", "digest", "quiet", "link")
_FOR_MAIL = ("smtp", "sender", "user", "password")
_LOOK_SECONDS = 60.0
"""Between two looks for the end of quiet hours."""
_LONGEST_QUIET_SECONDS = 8 * 86400.0

News = Version | Alarm
"""What targets are told: changes and alarms, each with a number that grows and a time."""


class MessageTarget(Protocol):
    """Takes messages for people."""

    name: str
    """Its name in messages, without secrets."""

    async def tell(self, id_: str, time: float, message: Message) -> None:
        """Send one message, or raise `Undelivered`."""

    async def close(self) -> None:
        """Close all connections."""


@dataclass(frozen=True)
class Recipient:
    """One who is told: programs get JSON, people get messages."""

    notify: Notify
    state_key: str
    """Name under which the store keeps how far it has come; another target has another."""
    program: NotifyTarget | None
    person: MessageTarget | None
    templates: MessageTemplates | None
    """For people."""
    quiet: Windows | None

    @property
    def name(self) -> str:
        """Its name in messages, without secrets."""
        target = self.program or self.person
        assert target is not None  # noqa: S101  (one of them is there)
        return target.name

    def wants(self, one: News) -> bool:
        """Tell whether it is to be told of something."""
        tell = self.notify.tell or (("changes",) if self.person is None else ("changes", "alarms"))
        if isinstance(one, Alarm):
            return "alarms" in tell or one.kind in tell
        first = self.notify.first if self.notify.first is not None else self.person is None
        return "changes" in tell and (first or not one.first) and fnmatchcase(one.key, self.notify.match)

    def not_before(self, oldest: float, now: float) -> float:
        """Return when what waits since a moment is told: after a digest, not in quiet hours."""
        due = max(min(oldest, now) + self.notify.digest, now)
        if self.quiet is None:
            return due
        clock = self.quiet.clock(datetime.fromtimestamp(0, UTC), 1.0)
        end = due + _LONGEST_QUIET_SECONDS
        while due < end and bool(clock.is_open([due])[0]):
            due += _LOOK_SECONDS
        return due if due < end else inf

    async def close(self) -> None:
        """Close all connections."""
        for target in (self.program, self.person):
            if target is not None:
                await target.close()


def recipients(notify: Sequence[Notify]) -> list[Recipient]:
    """Return who is told; raise `InvalidInput` if that makes no sense."""
    found = [one for said in notify for one in recipients_of(said)]
    keys = [one.state_key for one in found]
    if len(set(keys)) < len(keys):
        raise InvalidInput("notify must not have the same target with the same match twice")
    return found


def recipients_of(notify: Notify) -> list[Recipient]:
    """Return who is told by one ``[[notify]]``: each address of mail is a recipient of its own."""
    ways = [name for name in WAYS if getattr(notify, name)]
    if len(ways) != 1:
        raise InvalidInput(
            f"notify must have either a webhook or a command, or email or apprise; it has "
            f"{' and '.join(ways) or 'none'}, and its match is {notify.match!r}"
        )
    _check_keys(notify, ways[0])
    timeout = float(notify.timeout)
    quiet = None if notify.quiet is None else Windows.parse(notify.quiet)
    if quiet is not None and quiet.share >= 1.0:
        raise InvalidInput(f"quiet must leave some time for messages; it is {notify.quiet!r}")
    if notify.webhook:
        hook = WebhookTarget(notify.webhook, notify.secret, timeout)
        return [
            Recipient(notify, _state_key("webhook", notify.webhook, notify.match), hook, None, None, None)
        ]
    if notify.command:
        program = CommandTarget(notify.command, timeout)
        key = _state_key("command", *notify.command, notify.match)
        return [Recipient(notify, key, program, None, None, None)]
    templates = MessageTemplates(notify.title, notify.message)
    if notify.apprise:
        from .apprise_services import AppriseTarget

        service = AppriseTarget(notify.apprise, timeout)
        key = _state_key("apprise", notify.apprise, notify.match)
        return [Recipient(notify, key, None, service, templates, quiet)]
    from .mail import MailTarget

    server = notify.smtp or ""
    if not server:
        raise InvalidInput('email needs smtp, the server that takes mail: smtp = "smtps://mail.example.org"')
    return [
        Recipient(
            replace(notify, email=(to,)),
            _state_key("email", to, server, notify.match),
            None,
            MailTarget(
                to, notify.sender, server, user=notify.user, password=notify.password, timeout=timeout
            ),
            templates,
            quiet,
        )
        for to in notify.email
    ]


def _check_keys(notify: Notify, way: str) -> None:
    """Refuse keys that say nothing to such a target."""
    people = way in {"email", "apprise"}
    for name in () if people else _FOR_PEOPLE:
        if getattr(notify, name):
            raise InvalidInput(f"{name} is for email and apprise; a {way} gets JSON, each change at once")
    for name in () if way == "email" else _FOR_MAIL:
        if getattr(notify, name):
            raise InvalidInput(f"{name} is for email; this is for {way}")
    if notify.secret and way != "webhook":
        raise InvalidInput(f"secret is for webhooks, which are signed; this is for {way}")
    for kind in notify.tell or ():
        if kind not in {"changes", "alarms", *ALARMS}:
            known = ", ".join(("changes", "alarms", *ALARMS))
            raise InvalidInput(f"tell must be some of {known}; {kind!r} is none")


def _state_key(*identity: str) -> str:
    return f"notify:{hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:24]}"
