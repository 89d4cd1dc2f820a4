"""What an element is, from coarse to fine: its source, its group, its media type, and its folders.

Elements of one folder tend to change alike. `unstale.policy.class_tree` finds out how far that is so.
"""

from __future__ import annotations

from functools import lru_cache
from mimetypes import MimeTypes

from unstale.policy.class_tree import BETWEEN_LEVELS

_MOST_FOLDERS = 5
_TYPES = MimeTypes().types_map[True]
"""By ending; what comes with Python, not what the machine adds."""
_PAGE_TYPES = frozenset({"text/html"})
"""Most have no ending, so those with one are no type of their own."""


def path_of(source: str, group: str, key: str) -> str:
    r"""Return the path of an element, as `ClassTree` takes it.

    >>> path_of("http", "http:a.org", "https://a.org/docs/old/x.pdf?y=1").split("\n")
    ['http', 'http:a.org', 'application/pdf', 'docs', 'old']
    >>> path_of("sql", "sql:shop", "shop#sales.orders").split("\n")
    ['sql', 'sql:shop', 'sales']
    """
    if source == "sql":
        schema, dot, _ = key.rpartition("#")[2].partition(".")
        return _joined(source, group, "", f"/{schema}" if dot else "")
    place = key.partition("#")[0].partition("?")[0]
    folders, _, name = place.rpartition("/")
    return _joined(source, group, name.rpartition(".")[2] if "." in name else "", folders)


@lru_cache(maxsize=65_536)
def _joined(source: str, group: str, ending: str, folders: str) -> str:
    """Return a path; elements of a folder ask for the same one."""
    kind = _TYPES.get(f".{ending.lower()}", "")
    levels = [source, group]
    if kind and kind not in _PAGE_TYPES:
        levels.append(kind)
    place = folders.partition("://")[2] or folders
    levels += [folder for folder in place.split("/")[1 : _MOST_FOLDERS + 1] if folder]
    return BETWEEN_LEVELS.join(levels)
