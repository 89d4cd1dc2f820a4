"""Messages for people: what a template makes of a change, and several changes in one message (a digest).

Templates are those of Jinja, in its sandbox. What a page says comes in as text, and is never a template.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from unstale.errors import InvalidInput, need
from unstale.wording import plural

if TYPE_CHECKING:
    from jinja2 import Template

DEFAULT_TITLE = "{{ title or key }} {{ 'is new' if first else 'has changed' }}"
DEFAULT_MESSAGE = "{{ key }}\n{% if link != key %}{{ link }}\n{% endif %}\n{{ diff }}"
SAMPLE: Mapping[str, object] = {
    "key": "https://example.org/price",
    "title": "A price",
    "old": "10",
    "new": "9",
    "diff": "-10\n+9",
    "link": "https://example.org/price",
    "time": "2026-01-31 12:00:00",
    "first": False,
    "size": 1200,
    "change": 7,
}
"""The variables of templates, as a test message has them."""
_MOST_TITLE_CHARACTERS, _MOST_BODY_CHARACTERS = 200, 50_000
_MOST_IN_A_DIGEST = 50
"""Changes that a digest shows; the others are counted."""
_TEMPLATE = "<template>"


@dataclass(frozen=True, slots=True)
class Message:
    """What a person gets."""

    title: str
    """One line."""
    body: str


class TemplateFault(InvalidInput):
    """A template has an error: in which key of ``[[notify]]``, and in which line of it."""

    def __init__(self, key: str, line: int, why: str) -> None:
        super().__init__(f"{key}: in line {line} of the template: {why}")
        self.key, self.line, self.why = key, line, why


class MessageTemplates:
    """The templates of the title and of the message of one change.

    Parameters
    ----------
    title, message
        The templates; None: the usual ones.

    Examples
    --------
    >>> MessageTemplates("{{ old }} -> {{ new }}", None).message_of(SAMPLE).title
    '10 -> 9'
    >>> MessageTemplates("{{ new", None)
    Traceback (most recent call last):
    unstale.mirror.notify.messages.TemplateFault: title: in line 1 of the template: unexpected end of
        template, expected 'end of print statement'.
    """

    def __init__(self, title: str | None = None, message: str | None = None) -> None:
        self._title = _compiled("title", title or DEFAULT_TITLE)
        self._message = _compiled("message", message or DEFAULT_MESSAGE)
        self._own = title is not None or message is not None

    def message_of(self, change: Mapping[str, object]) -> Message:
        """Return the message of a change; with the usual templates if the user's fail for this change."""
        try:
            return Message(one_line(self._title.render(change)), shortened(self._message.render(change)))
        except Exception as error:  # a template raises anything: a division by zero, ...
            if not self._own:
                raise
            usual = MessageTemplates().message_of(change)
            note = f"(The template of this message failed: {type(error).__name__}: {error})"
            return Message(usual.title, shortened(f"{usual.body}\n\n{note}"))


def digest(messages: Sequence[Message], count: int, alarms: Sequence[Message] = ()) -> Message:
    """Return one message of several: alarms first, then changes; ``count``: of changes, with those left out.

    >>> digest([Message("A has changed", "-1"), Message("B is new", "+2")], 3).title
    '3 changes'
    """
    counts = [plural(len(alarms), "alarm")] * bool(alarms) + [plural(count, "change")] * bool(count)
    parts = [*alarms, *messages[:_MOST_IN_A_DIGEST]]
    room = _MOST_BODY_CHARACTERS // max(len(parts), 1)
    texts = [f"* {one.title}\n\n{shortened(one.body, max(room, 200))}" for one in parts]
    if len(messages) > _MOST_IN_A_DIGEST:
        texts.append(f"And {len(messages) - _MOST_IN_A_DIGEST:,} more elements have changed.")
    return Message(" and ".join(counts), shortened("\n\n".join(texts)))


def one_line(text: str) -> str:
    r"""Return a title: one line without control characters, not too long.

    >>> one_line("A\r\nBcc: b")
    'A Bcc: b'
    """
    text = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    return text if len(text) <= _MOST_TITLE_CHARACTERS else f"{text[: _MOST_TITLE_CHARACTERS - 3]}..."


def shortened(text: str, most: int = _MOST_BODY_CHARACTERS) -> str:
    """Return a text without control characters, cut if it is too long."""
    text = re.sub(r"[^\S\n]+$", "", text.strip(), flags=re.MULTILINE)
    text = "".join(one if one.isprintable() or one in "\n\t" else "?" for one in text)
    return text if len(text) <= most else f"{text[: most - 20]}\n... (cut)"


def _compiled(key: str, source: str) -> Template:
    """Return a template that is known to work for a change."""
    jinja2 = need("jinja2", extra="notify", needed_for="messages")
    from jinja2 import meta, nodes
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined, keep_trailing_newline=False)
    try:
        tree = environment.parse(source)
        names = meta.find_undeclared_variables(tree) - SAMPLE.keys()
        unknown = [name for name in tree.find_all(nodes.Name) if name.name in names]
        template = environment.from_string(source)
        if not unknown:
            template.render(SAMPLE)
    except jinja2.TemplateSyntaxError as error:
        raise TemplateFault(key, error.lineno, error.message or "it is no template") from None
    except Exception as error:  # noqa: BLE001  (whatever the template computes)
        line = _line_of(error.__traceback__)
        raise TemplateFault(key, line, f"{error}" or type(error).__name__) from None
    for name in unknown:
        known = ", ".join(SAMPLE)
        raise TemplateFault(key, name.lineno, f"there is no {name.name!r}; there are {known}")
    return template


def _line_of(found: TracebackType | None) -> int:
    """Return the line of a template in which an error arose; Jinja names it in the traceback."""
    line = 1
    while found is not None:
        if found.tb_frame.f_code.co_filename == _TEMPLATE:
            line = found.tb_lineno
        found = found.tb_next
    return line
