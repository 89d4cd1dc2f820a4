"""Where compiled kernels are kept: one place that works wherever the package is installed.

Numba keeps them beside the source if it may write there, or else in the user's cache folder, and refuses to
compile anything if it may write to neither; nor does it read what is beside the source if it may not write
there. So a container whose image has been warmed up (``unstale warm-up``), and that runs as another user or
on a file system that is read-only, would compile all of it again, or fail.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

__all__ = ["ENVIRONMENT", "keep_kernels"]

ENVIRONMENT = "NUMBA_CACHE_DIR"
"""Who sets this has chosen a place."""
_PACKAGE = Path(__file__).parent


def keep_kernels() -> None:
    """Choose a place for kernels, if Numba would find none, or not see those beside the source.

    It has to be called before Numba is imported.
    """
    if os.environ.get(ENVIRONMENT) or _can_write(_PACKAGE / "__pycache__"):
        return
    made = sorted(_PACKAGE.rglob("__pycache__/*.nb[ic]"))
    place = _own_folder(made)
    if place is None:
        place = _folder_of_this_process()
    elif not made:
        return  # Numba finds a place by itself
    for path in made:
        _link(path, place / _subfolder(path.parent.parent))
    os.environ[ENVIRONMENT] = str(place)


def _can_write(folder: Path) -> bool:
    """Tell whether files can be made in a folder, which may have to be made first."""
    while not folder.exists():
        folder = folder.parent
    return os.access(folder, os.W_OK | os.X_OK)


def _own_folder(made: Sequence[Path]) -> Path | None:
    """Return a folder in the user's cache for what is beside the source, if there can be one."""
    import hashlib
    import tempfile

    newest = max((path.stat().st_mtime_ns for path in made), default=0)
    name = hashlib.sha256(f"{_PACKAGE} {newest}".encode()).hexdigest()[:16]
    with suppress(OSError, RuntimeError):  # there may be no home
        place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "unstale" / name
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        tempfile.TemporaryFile(dir=place).close()
        return place
    return None


def _folder_of_this_process() -> Path:
    """Return a folder that is gone when this process ends: nobody else can have put code there."""
    import atexit
    import shutil
    import tempfile

    place = tempfile.mkdtemp(prefix="unstale-kernels-")
    process = os.getpid()

    def clear() -> None:
        if os.getpid() == process:  # and not a fork of it
            shutil.rmtree(place, ignore_errors=True)

    atexit.register(clear)
    return Path(place)


def _subfolder(source: Path) -> str:
    """Return the name that Numba gives the kernels of a folder of source files."""
    import hashlib

    return f"{source.name}_{hashlib.sha1(str(source).encode(), usedforsecurity=False).hexdigest()}"


def _link(path: Path, folder: Path) -> None:
    """Let a file be seen in another folder; Numba replaces files, and never writes into them."""
    folder.mkdir(exist_ok=True)
    with suppress(FileExistsError):
        (folder / path.name).symlink_to(path)
