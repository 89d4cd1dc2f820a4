"""The mirror.toml that ``unstale init`` writes: every key with what it means, most of them commented out."""

from __future__ import annotations

import os
import re
import textwrap
from pathlib import Path

from unstale.errors import InvalidInput

from .file import without_password
from .keys import SECTIONS, Section

_LINE_CHARACTERS = 100
_LINK = re.compile(r"\[([^]]+)\]\(([^)]+)\)")
_RULER = "# " + "-" * 60
_INTRODUCTION = """\
# A mirror: copies of other people's data, as fresh as a budget allows.
#
# Take away one # to say what a line says. Times and amounts have units and stand in quotes:
# "90s", "6h", "2 weeks", "1000/day", "50/s", "20MB/h". Check what you write with: unstale doctor
"""


def template(*, store: str = "mirror.db", budget: str = "1000/day", contact: str | None = None) -> str:
    """Return the text of a mirror.toml that can be used as it is."""
    given = {"store": store, "budget": budget} | ({"contact": contact} if contact else {})
    if "://" in store:
        given["copies"] = "copies"
    parts = [_INTRODUCTION, *(_written(section, given) for section in SECTIONS)]
    return "\n".join(parts)


def _written(section: Section, given: dict[str, str]) -> str:
    """Return the text of a section; sections that need not be there are commented out."""
    live = section.name in {"mirror", "http"}
    lines = [_RULER, *_comment(section.about), "", section.heading if live else f"#{section.heading}"]
    for key in section.keys:
        value = given.get(key.name) if section.name == "mirror" else None
        lines += ["", *_comment(f"{key.about} Default: {key.default}.")]
        lines.append(f"{key.name} = {_quoted(value)}" if value else f"#{key.name} = {key.example}")
    return "\n".join(lines) + "\n"


def _comment(text: str) -> list[str]:
    plain = _LINK.sub(_named, text.replace("`", ""))
    wrapped = textwrap.wrap(plain, _LINE_CHARACTERS - 2, break_long_words=False, break_on_hyphens=False)
    return [f"# {line}" for line in wrapped]


def _named(link: re.Match[str]) -> str:
    """Return what a link of the reference says in a comment."""
    where = link[2].replace("../", "docs/", 1)
    return f"See {where}" if link[1] == "More" else f"{link[1]} ({where})"


def _quoted(value: str) -> str:
    """Return a text as a TOML string."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def write_template(
    path: Path, *, store: str = "mirror.db", budget: str = "1000/day", contact: str | None = None
) -> None:
    """Write a new mirror.toml.

    Parameters
    ----------
    path
        The file to write.
    store
        Path of an SQLite file, or address of a PostgreSQL database.
    budget
        Polls per time.
    contact
        Where owners of sources can reach the user.

    Raises
    ------
    InvalidInput
        If the file exists already, or cannot be written.
    """
    text = template(store=store, budget=budget, contact=contact)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Only the owner may read it if the address of the store has a password in it.
        mode = 0o600 if without_password(store) != store else 0o666
        with os.fdopen(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8"
        ) as file:
            file.write(text)
    except FileExistsError:
        raise InvalidInput(f"{path}: is there already, and stays as it is") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InvalidInput(f"{str(path)!r}: cannot be written: {why}") from None
