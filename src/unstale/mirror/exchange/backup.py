"""A back-up of a whole mirror: its database, its copies, its old polls, its mirror.toml.

The mirror may run meanwhile. The database is written as it was at one moment; then the copies that it speaks
of follow, which never change. If the mirror has deleted one of them in between, the database is written
again, which no longer speaks of it; what has been copied before stays.

A back-up is a folder that is whole, or has another name. A restored mirror is checked before it gets its
names, its database last: without that there is no mirror.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from unstale.errors import InvalidInput, Trouble
from unstale.mirror.store.copies import IDENTITY, Copies
from unstale.mirror.store.folder import Folder, sync_folder
from unstale.mirror.store.poll_archive import POLLS_FOLDER
from unstale.mirror.store.sql.store import SqlStore, open_store

DATABASE, COPIES, CONFIGURATION = "mirror.db", "copies", "mirror.toml"
"""Names in a back-up."""
_MOST_ROUNDS = 20
"""How often the database is written again, since copies were deleted meanwhile."""
_MOST_TOLD = 3
"""Mistakes of a back-up that are told."""


@dataclass(frozen=True)
class Backup:
    """What was written, or restored."""

    folder: Path
    copies: int
    bytes: int
    """Of the database, copies and old polls."""

    def to_json(self) -> dict[str, str | int]:
        """Return it as JSON."""
        return {"folder": str(self.folder), "copies": self.copies, "bytes": self.bytes}


def back_up(store: SqlStore, configuration: Path | None, folder: Path) -> Backup:
    """Write a back-up of a mirror into a folder that is not there yet."""
    place = store.copies.place
    if not store.single_runner:
        raise InvalidInput(
            "a mirror in PostgreSQL is backed up by the server (pg_dump), and its copies with it"
        )
    if not isinstance(place, Folder):
        raise InvalidInput(f"{place.address} has back-ups of its own: switch on its versions")
    if folder.exists():
        raise InvalidInput(f"the back-up {str(folder)!r} is there already: name another folder")
    with _new_folder(folder) as made:
        for _ in range(_MOST_ROUNDS):
            (made / DATABASE).unlink(missing_ok=True)
            store.backup(made / DATABASE)
            if _all_copied(place.folder, made):
                break
        else:
            raise Trouble("the mirror deletes copies faster than they can be saved: stop it, and try again")
        _copy_beside(place.folder, made / COPIES)
        if configuration is not None:
            _copy(configuration, made / CONFIGURATION)
        _drop_unreferred(made)
        return _counted(made, folder)


def restore(backup: Path, database: Path, copies: Path) -> Backup:
    """Make a mirror of a back-up: a database and a folder of copies that are not there yet."""
    if not (backup / DATABASE).is_file():
        raise InvalidInput(
            f"{str(backup)!r} is no back-up: it has no {DATABASE}; make one with: unstale backup FOLDER"
        )
    for path in (database, copies):
        if path.exists() and not (path.is_dir() and not any(path.iterdir())):
            raise InvalidInput(f"{str(path)!r} is there already: move it away, or restore in another folder")
    with _new_folder(database.absolute().with_name(f"{database.name}.restored"), keep=False) as made:
        _copy(backup / DATABASE, made / DATABASE)
        if (backup / COPIES).is_dir():
            _copy_tree(backup / COPIES, made / COPIES)
        _check(made)
        done = _counted(made, database.absolute().parent)
        copies.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            copies.rmdir()  # it is empty
        shutil.move(made / COPIES, copies)
        sync_folder(copies.absolute().parent)
        (made / DATABASE).rename(database)
        sync_folder(database.absolute().parent)
    return done


def restore_file(backup: Path, path: Path) -> None:
    """Take the mirror.toml of a back-up."""
    if not (backup / CONFIGURATION).is_file():
        raise InvalidInput(
            f"{str(backup)!r} is no back-up, or has no {CONFIGURATION}: make one with: unstale init"
        )
    _copy(backup / CONFIGURATION, path)


# --- steps


def _all_copied(source: Path, made: Path) -> bool:
    """Copy what the database speaks of; tell whether all of it was there."""
    whole, there = True, Folder(source)
    with _opened(made) as store:
        for some in store.digests():
            for digest in set(some) - store.copies.have(some):
                if (found := there.find(digest)) is None:
                    whole = False
                else:
                    with suppress(FileNotFoundError):
                        _copy(source / found.name, made / COPIES / found.name)
                    whole = whole and (made / COPIES / found.name).exists()
    return whole


def _drop_unreferred(made: Path) -> None:
    """Delete copies of which an earlier round spoke."""
    with _opened(made) as store:
        store.sweep(older_than=0.0)


def _copy_beside(source: Path, target: Path) -> None:
    """Copy what stands beside the copies: whose they are, and old polls."""
    for path in (source / IDENTITY, *sorted((source / POLLS_FOLDER).glob("*.parquet"))):
        with suppress(FileNotFoundError):  # old polls are forgotten some day
            _copy(path, target / path.relative_to(source))


def _check(made: Path) -> None:
    """Refuse what is damaged."""
    with _opened(made) as store:
        wrong = store.check()
        for some in store.digests():
            if len(wrong) > _MOST_TOLD:
                break
            wrong += store.copies.check(some)
    if wrong:
        more = f", and {len(wrong) - _MOST_TOLD} more" if len(wrong) > _MOST_TOLD else ""
        raise InvalidInput(f"the back-up is damaged: {'; '.join(wrong[:_MOST_TOLD])}{more}")


@contextmanager
def _opened(made: Path) -> Iterator[SqlStore]:
    """Open what is in a folder that nobody else uses."""
    with open_store(made / DATABASE, copies=Copies(made / COPIES), create=False) as store:
        yield store


def _counted(made: Path, folder: Path) -> Backup:
    """Count what is in a folder."""
    shutil.rmtree(made / COPIES / "scratch", ignore_errors=True)
    files = [path for path in made.rglob("*") if path.is_file()]
    copies = sum(path.parent.parent == made / COPIES and path.parent.name != POLLS_FOLDER for path in files)
    return Backup(folder, copies, sum(path.stat().st_size for path in files))


@contextmanager
def _new_folder(folder: Path, *, keep: bool = True) -> Iterator[Path]:
    """Make a folder that gets its name when it is whole, and is gone if it is not."""
    made = folder.with_name(f"{folder.name}.tmp")
    _check_leftover(made)
    try:
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True, mode=0o700)
        (made / COPIES).mkdir(mode=0o700)
        yield made
        if keep:
            made.rename(folder)
            sync_folder(folder.absolute().parent)
    except OSError as error:
        raise Trouble(f"{str(folder)!r} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _check_leftover(made: Path) -> None:
    """Raise `InvalidInput` if what has the name of an unfinished back-up is something else."""
    ours, beside = {DATABASE, COPIES, CONFIGURATION}, (f"{DATABASE}-", f"{DATABASE}.", f"{CONFIGURATION}.")
    if made.is_dir() and not made.is_symlink():
        alien = [
            one.name for one in made.iterdir() if one.name not in ours and not one.name.startswith(beside)
        ]
    else:
        alien = [made.name] if made.exists() or made.is_symlink() else []
    if alien:
        raise InvalidInput(
            f"{str(made)!r} is in the way: it is no unfinished back-up, for it has {alien[0]!r}; "
            "move it away, or name another folder"
        )


def _copy_tree(source: Path, target: Path) -> None:
    for path in sorted(source.rglob("*")):
        if path.is_file() and not path.is_symlink():
            _copy(path, target / path.relative_to(source))


def _copy(source: Path, target: Path) -> None:
    """Copy a file, for its owner alone, and wait until it is on the disk."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = target.with_name(f"{target.name}.tmp")
    with source.open("rb") as old, open(temporary, "wb", opener=_for_the_owner) as new:
        shutil.copyfileobj(old, new, 1 << 20)
        new.flush()
        os.fsync(new.fileno())
    temporary.rename(target)


def _for_the_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
