"""What the commands of the mirror share: which mirror, and how it is opened."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from unstale.cli.shared.options import Quantity
from unstale.errors import InvalidInput

if TYPE_CHECKING:
    from unstale.mirror.cells.mirror import MirrorOfCells
    from unstale.mirror.config.file import Config
    from unstale.mirror.mirror import Mirror

_Command = TypeVar("_Command", bound=Callable[..., object])


_CELL = "unstale.cell"
"""Under which name the context of a command keeps which cell is meant."""


def _remember_cell(context: click.Context, _: click.Parameter, value: int | None) -> None:
    context.meta[_CELL] = value


def mirror_options(command: _Command) -> _Command:
    """Add the options that all commands of the mirror have."""
    command = click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)
    command = click.option(
        "--cell",
        type=click.IntRange(min=0),
        metavar="N",
        expose_value=False,
        callback=_remember_cell,
        help="Of a mirror of several cells: this one alone.",
    )(command)
    return click.option(
        "--mirror",
        "mirror_file",
        metavar="FILE",
        help="Of which mirror.  [default: mirror.toml here, or $UNSTALE_MIRROR]",
    )(command)


def _allowed(name: str, text: str) -> tuple[str, ...]:
    """Read names of sources, separated by commas."""
    from unstale.mirror.settings import Settings
    from unstale.mirror.sources.allowed import ENVIRONMENT, PRIVATE, SECRETS, VALIDATORS
    from unstale.mirror.sources.registry import load_sources

    words = tuple(word.strip() for word in text.split(","))
    known = [*load_sources(Settings()), PRIVATE, ENVIRONMENT, SECRETS, VALIDATORS]
    for word in words:
        if word not in known:
            raise InvalidInput(f"{name} must be of {', '.join(known)}, separated by commas; it is {text!r}")
    return words


allow_option = click.option(
    "--allow",
    type=Quantity("SOURCES", _allowed),
    default=(),
    help="What you trust a file with: file,sql,private,environment,secrets,validators.",
)


@dataclass(frozen=True)
class Opened:
    """A mirror and what its file says."""

    config: Config
    mirror: Mirror

    @property
    def again(self) -> str:
        """What has to follow ``unstale COMMAND`` to mean this mirror."""
        return _again(self.config)

    @property
    def start(self) -> str:
        """The command that polls it: the one that made it."""
        from unstale.mirror.config.file import WATCHED

        made_by_watch = self.config.path.absolute().parent.name == WATCHED
        return f"unstale {'watch' if made_by_watch else 'run'}{self.again}"


def configured(file: str | None) -> Config:
    """Read the mirror.toml that is meant."""
    from unstale.mirror.config.file import FILE, check_owner, find, load

    path = find() if file is None else Path(file)
    if file is None:
        check_owner(path)
    config = load(path / FILE if file is not None and path.is_dir() else path)
    context = click.get_current_context(silent=True)
    number = None if context is None else context.meta.get(_CELL)
    if number is None:
        return config
    if config.settings.cells < 2:
        raise InvalidInput(f"--cell {number}: this mirror has one cell only")
    from unstale.mirror.cells.mirror import MirrorOfCells

    with MirrorOfCells(config.store, settings=config.settings, copies=config.copies) as mirror:
        store, settings, copies = mirror.as_mirror(mirror.numbered(number))
    return replace(config, store=store, settings=settings, copies=copies)


@dataclass(frozen=True)
class OpenedCells:
    """A mirror of several cells and what its file says."""

    config: Config
    mirror: MirrorOfCells

    @property
    def again(self) -> str:
        """What has to follow ``unstale COMMAND`` to mean this mirror."""
        return _again(self.config)

    @property
    def start(self) -> str:
        """The command that polls it."""
        return f"unstale run{self.again}"


def _again(config: Config) -> str:
    from unstale.mirror.config.file import find

    return "" if config.path == find() else f" --mirror {config.path}"


@contextmanager
def open_cells(config: Config) -> Iterator[OpenedCells]:
    """Open a mirror of several cells."""
    from unstale.mirror.cells.mirror import MirrorOfCells

    with MirrorOfCells(config.store, settings=config.settings, copies=config.copies) as mirror:
        yield OpenedCells(config, mirror)


@contextmanager
def open_any(file: str | None) -> Iterator[Opened | OpenedCells]:
    """Open the mirror that is meant, be it of one cell or of several."""
    config = configured(file)
    if config.settings.cells > 1:
        with open_cells(config) as opened:
            yield opened
        return
    with open_mirror(file) as single:
        yield single


@contextmanager
def open_having(file: str | None, key: str) -> Iterator[Opened]:
    """Open the mirror that is meant; of several cells, the one that has an element."""
    config = configured(file)
    if config.settings.cells > 1:
        with open_cells(config) as opened:
            mirror = opened.mirror.having(key)
            yield Opened(config, mirror)
        return
    with open_mirror(file) as single:
        yield single


@contextmanager
def open_mirror(file: str | None) -> Iterator[Opened]:
    """Open the mirror that is meant."""
    config = configured(file)
    from unstale.mirror.mirror import Mirror

    with Mirror(config.store, settings=config.settings, copies=config.copies) as mirror:
        yield Opened(config, mirror)


def read_lines(option: str, file: str) -> list[str]:
    """Read a text file, or standard input, line by line; what is empty is left out."""
    try:
        content = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InvalidInput(f"{option} {file!r}: cannot be read: {why}") from None
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidInput(f"{option} {file}, line {line}: is not UTF-8; save it as UTF-8") from None
    return [line.strip() for line in lines if line.strip()]
