"""``unstale backup`` and ``unstale restore``: a whole mirror as a folder, and back."""

from __future__ import annotations

from pathlib import Path

import click

from unstale.cli.shared.printing import console, print_json, say
from unstale.errors import InvalidInput
from unstale.wording import plural, show_size

from .open import configured, mirror_options, open_mirror

_BACKUP = """\b
Examples:
  unstale backup /backups/mirror-2026-11-18
  unstale backup --mirror /srv/unstale /backups/$(date +%F)
"""
_RESTORE = """\b
Examples:
  unstale restore /backups/mirror-2026-11-18
  unstale restore --mirror /srv/unstale /backups/mirror-2026-11-18
"""


@click.command(epilog=_BACKUP)
@click.argument("folder", type=click.Path(path_type=Path))
@mirror_options
def backup(*, folder: Path, mirror_file: str | None, as_json: bool) -> None:
    """Save the whole mirror in FOLDER, which is new: database, copies, old polls and mirror.toml.

    The mirror may run meanwhile. FOLDER is whole when it has its name. It has what the mirror has, secrets in
    mirror.toml included, and only its owner can read it. A mirror in PostgreSQL, or with copies in a bucket,
    is backed up by the server.
    """
    from unstale.mirror.exchange.backup import back_up

    with open_mirror(mirror_file) as opened:
        saved = back_up(opened.mirror.store, opened.config.path, folder)
    if as_json:
        print_json(saved.to_json())
        return
    out = console()
    say(
        out,
        f"Saved {plural(saved.copies, 'copy')}, {show_size(saved.bytes)} in all, in {folder}.",
        apart=False,
    )
    say(out, f"To get it back in another folder: unstale restore {folder}")


@click.command(epilog=_RESTORE)
@click.argument("backup", type=click.Path(path_type=Path))
@mirror_options
def restore(*, backup: Path, mirror_file: str | None, as_json: bool) -> None:
    """Make a mirror of a BACKUP, where mirror.toml says that its database and copies are.

    Without a mirror.toml here, that of the back-up is taken. Everything is checked before it gets its name: a
    damaged back-up restores nothing, and a database or copies that are there already are left alone.
    """
    from unstale.mirror.config.file import FILE
    from unstale.mirror.exchange import backup as saved

    named = Path(FILE if mirror_file is None else mirror_file)
    path = named / FILE if named.is_dir() else named
    taken = not path.exists()
    if taken:
        saved.restore_file(backup, path)
    try:
        database, copies = _places(path)
        done = saved.restore(backup, database, copies)
    except BaseException:
        if taken:
            path.unlink(missing_ok=True)
        raise
    if as_json:
        print_json(done.to_json())
        return
    out = console()
    say(
        out,
        f"Restored {plural(done.copies, 'copy')}, {show_size(done.bytes)} in all, as {database}.",
        apart=False,
    )
    say(out, f"To go on: unstale run{'' if mirror_file is None else f' --mirror {path}'}")


def _places(path: Path) -> tuple[Path, Path]:
    """Return where a mirror.toml says that the database and the copies are."""
    from unstale.mirror.exchange.backup import COPIES
    from unstale.mirror.store.sql.connection import place_of

    config = configured(str(path))
    database = place_of(config.store)
    copies = config.copies
    if copies is None and isinstance(database, Path):
        copies = database.absolute().parent / COPIES
    if not isinstance(database, Path) or not isinstance(copies, Path):
        raise InvalidInput(
            f"{path} names a database of a server or a bucket, which a back-up cannot be restored to: name a "
            "file and a folder"
        )
    return database, copies
