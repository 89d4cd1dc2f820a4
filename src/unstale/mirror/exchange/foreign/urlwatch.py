"""urlwatch: its list of jobs (``urls.yaml``), without those that run commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from pathlib import Path
from typing import Any

from unstale.errors import InvalidInput, need
from unstale.mirror.source import Json

from .foreign_mirror import ForeignElement, ForeignMirror, read_text

__all__ = ["read_urlwatch"]

_MOST_BYTES = 5_000_000
_MOST_NODES = 1_000_000
"""Values, each as often as aliases repeat it."""


def read_urlwatch(path: Path) -> ForeignMirror:
    """Read a list of jobs."""
    need("yaml", extra="moving", needed_for="lists of urlwatch")
    import yaml

    text = read_text(path, _MOST_BYTES)
    try:
        jobs = list(_documents(yaml.SafeLoader(text)))
    except _TooMany:
        raise InvalidInput(f"{path}: its aliases (*) repeat more than {_MOST_NODES:,} values") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise InvalidInput(f"{path}{where}: is no YAML, or was cut") from None
    found = ForeignMirror()
    for number, job in enumerate(jobs, 1):
        if job is None:
            continue
        if not isinstance(job, dict) or not {"url", "navigate", "command", "shell"} & job.keys():
            raise InvalidInput(f"{path}: job {number} names neither url, navigate nor command")
        _take(found, job, number)
    return found


class _TooMany(Exception):  # noqa: N818  (it never leaves this module)
    """Aliases that repeat too much."""


def _documents(loader: Any) -> Iterator[Any]:  # noqa: ANN401  (yaml has no types)
    """Yield documents; aliases of aliases would make terabytes of a few lines."""
    while loader.check_node():
        node = loader.get_node()
        if _size(node) > _MOST_NODES:
            raise _TooMany
        yield loader.construct_document(node)


def _size(root: Any) -> float:  # noqa: ANN401  (yaml has no types)
    """Return how many values there are below a node, each as often as aliases repeat it."""
    sizes: dict[int, float] = {}

    def of(node: Any) -> float:  # noqa: ANN401
        if id(node) not in sizes:
            sizes[id(node)] = inf  # what holds itself
            inner = node.value if isinstance(node.value, list) else []
            sizes[id(node)] = 1.0 + sum(
                of(one) if not isinstance(one, tuple) else of(one[0]) + of(one[1]) for one in inner
            )
        return sizes[id(node)]

    return of(root)


def _take(found: ForeignMirror, job: Mapping[str, Any], number: int) -> None:
    key = str(job.get("url") or job.get("navigate") or "")
    name = str(job.get("name") or key or f"job {number}")
    if not key:
        found.left_out.append((name, "it runs a command"))
        return
    if job.get("enabled") is False:
        found.left_out.append((key, "it is not enabled"))
        return
    if job.get("data") or str(job.get("method", "GET")).upper() != "GET":
        found.left_out.append((key, "it sends something, and the mirror only reads"))
        return
    if "navigate" in job:
        found.left_out.append((key, "it was rendered in a browser; it is polled as it is"))
    if job.get("headers") or job.get("cookies"):
        found.left_out.append(
            (key, "its headers were not taken, since they may be secrets: say them in a rule")
        )
    options, notes = _options(job)
    found.left_out += [(key, note) for note in notes]
    found.add(ForeignElement(key, None, options))


def _options(job: Mapping[str, Any]) -> tuple[dict[str, Json], list[str]]:
    """Return options that do what the filters of a job do, and words about the others."""
    options: dict[str, Json] = {}
    notes = []
    filters = job.get("filter") or []
    for one in [filters] if isinstance(filters, str) else filters if isinstance(filters, list) else []:
        kind, said = next(iter(one.items())) if isinstance(one, dict) and one else (str(one), None)
        if kind == "html2text":
            options["change"] = "text"
        elif kind == "css":
            options["selector"] = str(said.get("selector") if isinstance(said, dict) else said)
        elif kind.startswith("css:"):
            options["selector"] = kind.removeprefix("css:")
        elif kind not in {"strip", "reverse", "sort"}:
            notes.append(f"its filter {str(kind)[:60]} was not taken")
    return options, notes
