"""The history of a git repository as a history of changes: each file is an element.

What counts, and what does not:

- A change is a commit on the branch itself that gives a file other content than its first parent had: what a
  merge brings in is one change, at the time of the merge. The time is the committer's.
- A deletion is a change, and so is adding a file again; it is the same element as before.
- A change of mode is none. A file that is moved without an edit stays the same element, under its last name;
  a move with an edit is a deletion and a new file.
- Several changes of a file in the same second are one. A submodule is a file whose content is a commit.

Git itself reads the repository, as nothing else knows all its formats, and as fast. Options keep it from
running what a repository's configuration names (pagers, diff drivers, monitors, signature checks), and from
fetching anything.
"""

from __future__ import annotations

import os
import subprocess
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, cast

import numpy as np
from numpy.typing import NDArray

from unstale.errors import InvalidInput

_SETTINGS = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "log.showRoot=true",
    "log.showSignature=false",
)
_LOG = (
    "log", "--first-parent", "--diff-merges=first-parent", "--raw", "-z", "--no-abbrev",
    "--find-renames=100%", "--no-ext-diff", "--no-textconv", "--no-relative",
    "--ignore-submodules=none", "--no-show-signature", "--no-notes", "--no-color", "--no-mailmap",
    "--format=%ct", "--end-of-options",
)  # fmt: skip
_KEPT_VARIABLES = ("GIT_CONFIG_", "GIT_EXEC_PATH")
"""Variables of git that say nothing of one repository: those of a hook that we may run in are left out."""
_READ_BYTES = 1 << 20
_LATEST_SECONDS = 10**11


@dataclass(frozen=True, eq=False)
class FileHistory:
    """When files changed, sorted by file and time; in seconds since 1970."""

    keys: list[str]
    elements: NDArray[np.int64]
    times: NDArray[np.int64]
    commits: int
    """How many commits there were, from the beginning of the history on."""
    last: int
    """When the last of all commits was."""

    def __len__(self) -> int:
        """How many records: a file's first is how it came about, the others are changes."""
        return len(self.times)


class Repository:
    """A local repository, and the commit at which its history ends."""

    def __init__(self, folder: str, branch: str | None = None) -> None:
        self.folder = folder
        if not Path(folder).is_dir():
            raise InvalidInput(
                f"{folder}: {'is not a folder' if Path(folder).exists() else 'does not exist'}"
            )
        self.name = Path(folder).resolve().name.removesuffix(".git") or "repository"
        self.is_shallow = self._ask("rev-parse", "--is-shallow-repository") == "true"
        """Whether the history is cut: files that were there at the cut seem to be new then."""
        ref = "HEAD" if branch is None else branch
        verify = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        self.commit = self._ask(*verify, silent=True)
        if not self.commit:
            why = "it has no commits" if branch is None else f"it has no branch, tag or commit {branch!r}"
            raise InvalidInput(f"{folder}: {why}")

    def count(self) -> int:
        """Return how many commits there are to read."""
        return int(self._ask("rev-list", "--count", "--first-parent", self.commit))

    def commits(self) -> Iterator[tuple[int, list[tuple[str, bytes, bytes]]]]:
        """Yield, from the last commit to the first, its time and what it did: status, old path, new path.

        The status is A, M or D, or R for a move; what leaves the content as it is, is left out.
        """
        with TemporaryFile() as errors, self._start(errors, *_LOG, self.commit) as git:
            try:
                yield from _parsed(_tokens(cast("IO[bytes]", git.stdout)))
            except BaseException:
                git.kill()
                raise
            if git.wait():
                raise self._complaint(errors)

    # --- git ------------------------------------------------------------------------------------------------

    def _start(self, errors: IO[bytes], *arguments: str) -> subprocess.Popen[bytes]:
        settings = [part for one in _SETTINGS for part in ("-c", one)]
        parent = str(Path(self.folder).resolve().parent)
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("GIT_") or name.startswith(_KEPT_VARIABLES)
        } | {
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_CEILING_DIRECTORIES": parent,  # a folder inside a repository is not one
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C",
        }
        command = ["git", "--no-pager", *settings, "-C", self.folder, *arguments]
        try:
            return subprocess.Popen(  # noqa: S603  (no shell, and what is not ours stands behind options)
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        except FileNotFoundError:
            raise InvalidInput("git is needed to read repositories, and is not installed") from None

    def _ask(self, *arguments: str, silent: bool = False) -> str:
        """Return a short answer; "" if git fails silently."""
        with TemporaryFile() as errors, self._start(errors, *arguments) as git:
            answer, _ = git.communicate()
            if git.returncode and (errors.tell() or not silent):
                raise self._complaint(errors)
        return answer.decode().strip() if not git.returncode else ""

    def _complaint(self, errors: IO[bytes]) -> InvalidInput:
        errors.seek(0)
        text = " ".join(errors.read().decode("utf-8", "replace").split())
        if "not a git repository" in text:
            return InvalidInput(f"{self.folder}: is not a git repository, or not its top folder")
        if "dubious ownership" in text:
            return InvalidInput(
                f"{self.folder}: belongs to another user, so git does not trust it; if you do: "
                f"git config --global --add safe.directory {Path(self.folder).resolve()}"
            )
        return InvalidInput(f"{self.folder}: git cannot read it: {text[:300] or 'it does not say why'}")


def _tokens(file: IO[bytes]) -> Iterator[bytes]:
    """Split at NUL."""
    rest = b""
    while block := file.read(_READ_BYTES):
        *whole, rest = (rest + block).split(b"\0")
        yield from whole
    if rest.strip():
        yield rest


def _parsed(tokens: Iterator[bytes]) -> Iterator[tuple[int, list[tuple[str, bytes, bytes]]]]:
    """Read what git log prints: a time, then for each file its entry and its path, or two if it moved."""
    time, done = 0, list[tuple[str, bytes, bytes]]()
    started = False
    for token in tokens:
        entry = token.lstrip(b"\n")
        if not entry.startswith(b":"):
            if started:
                yield time, done
            time, done, started = _time(entry, time), [], True
            continue
        _, _, before, after, status = entry.split(b" ")
        kind = chr(status[0])
        old = next(tokens)
        new = next(tokens) if kind in "RC" else old
        if kind == "C":  # of a file that moved to several places: one is the file, the others are new
            kind = "A"
        if kind in "AD" or before != after:
            done.append(("M" if kind == "T" else kind, old, new))
        elif kind == "R":
            done.append((kind, old, new))
    if started:
        yield time, done


def _time(text: bytes, near: int) -> int:
    """Return the time of a commit; one that is broken, or beyond what histories hold, is like the next."""
    time = int(text) if text.removeprefix(b"-").isdigit() else near
    return time if abs(time) <= _LATEST_SECONDS else near


# --- files as elements --------------------------------------------------------------------------------------


def histories_of(
    repositories: Sequence[Repository],
    since: int | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> FileHistory:
    """Return the changes of the files of repositories; if there are several, keys begin with their names.

    What is there at ``since`` has a record then, in place of all before. ``advance`` is called with the
    number of commits read.
    """
    several = len(repositories) > 1
    names = _distinct([one.name for one in repositories])
    parts = [_history(one, since, advance) for one in repositories]
    keys = [
        f"{name}/{key}" if several else key
        for name, part in zip(names, parts, strict=True)
        for key in part.keys
    ]
    starts = np.cumsum([0, *(len(part.keys) for part in parts)])
    return FileHistory(
        keys,
        np.concatenate([part.elements + start for part, start in zip(parts, starts, strict=False)]),
        np.concatenate([part.times for part in parts]),
        sum(part.commits for part in parts),
        max(part.last for part in parts),
    )


def _history(repository: Repository, since: int | None, advance: Callable[[int], None]) -> FileHistory:
    paths: list[bytes] = []  # of each element, the last one
    places: dict[bytes, int] = {}  # the element at each path, as of the commit that is read
    elements, times, gone, commits = array("q"), array("q"), array("b"), array("q")

    def element_at(path: bytes) -> int:
        if path not in places:
            places[path] = len(paths)
            paths.append(path)
        return places[path]

    for time, done in repository.commits():
        moved = {}
        for kind, old, new in done:
            if kind == "R":
                moved[old] = element_at(new)
                del places[new]
                continue
            elements.append(element_at(new))
            times.append(time)
            gone.append(kind == "D")
        places |= moved
        commits.append(time)
        advance(1)
    keys = _distinct([path.decode("utf-8", "backslashreplace") for path in paths])
    forward = slice(None, None, -1)
    found = _cut(keys, np.array(elements)[forward], np.array(times)[forward], np.array(gone)[forward], since)
    count = len(commits) if since is None else sum(time >= since for time in commits)
    return FileHistory(*found, count, max(commits))


def _cut(
    keys: list[str],
    elements: NDArray[np.int64],
    times: NDArray[np.int64],
    gone: NDArray[np.int8],
    since: int | None,
) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
    """Sort records, leave out those of the same second, and join those before ``since``."""
    order = np.lexsort((times, elements))
    elements, times, gone = elements[order], times[order], gone[order]
    if since is not None:
        last = np.ones(len(times), bool)
        last[:-1] = (np.diff(elements) != 0) | ((times[:-1] < since) & (times[1:] >= since))
        kept = (times >= since) | (last & (gone == 0))
        elements, times = elements[kept], np.maximum(times[kept], since)
    new = np.ones(len(times), bool)
    new[1:] = (np.diff(elements) != 0) | (np.diff(times) != 0)
    elements, times = elements[new], times[new]
    there, elements = np.unique(elements, return_inverse=True)
    return [keys[place] for place in there], elements, times


def _distinct(names: Iterable[str]) -> list[str]:
    """Number names that come again.

    >>> _distinct(["a", "b", "a"])
    ['a', 'b', 'a (2)']
    """
    taken: set[str] = set()
    found = []
    for name in names:
        key, number = name, 1
        while key in taken:
            number += 1
            key = f"{name} ({number})"
        taken.add(key)
        found.append(key)
    return found
