"""All experiments by name, and those of a file of one's own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import iter_modules
from traceback import extract_tb
from types import ModuleType

from unstale.errors import InvalidInput, UnstaleError

from .experiment import Experiment

_PARTS = ("cho", "azar", "li", "carney", "beyond")
"""A package for each paper, in the order of the list; each module has one experiment or a few."""


@cache
def every_experiment() -> tuple[Experiment, ...]:
    """Return all experiments of the package, paper by paper, by name.

    >>> len(every_experiment()) > 40
    True
    """
    found: list[Experiment] = []
    for part in _PARTS:
        package = import_module(f".{part}", __package__)
        modules = [import_module(f"{package.__name__}.{one.name}") for one in iter_modules(package.__path__)]
        inside = {id(one): one for module in modules for one in experiments_of(module)}
        found += sorted(inside.values(), key=lambda one: _numbered(one.name))
    return tuple(found)


def _numbered(name: str) -> tuple[tuple[int, str], ...]:
    """Sort figure 6 before figure 10."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in name.split("-"))


def experiments_of(module: ModuleType) -> list[Experiment]:
    """Return the experiments that a module defines."""
    return [one for one in vars(module).values() if isinstance(one, Experiment)]


def choose(names: Sequence[str]) -> list[Experiment]:
    """Return experiments by name, by pattern (``cho-*``), or from a Python file, each once.

    >>> choose(["no-such-experiment"])
    Traceback (most recent call last):
    unstale.errors.InvalidInput: there is no experiment 'no-such-experiment'; unstale lab list shows them all
    """
    found: dict[str, Experiment] = {}
    for name in names:
        if name.endswith(".py"):
            some = _in_file(name)
        else:
            some = [one for one in every_experiment() if fnmatchcase(one.name, name)]
            if not some:
                raise InvalidInput(_unknown(name))
        for one in some:
            if found.setdefault(one.name, one).file != one.file:
                raise InvalidInput(
                    f"{one.file}: the name {one.name!r} is taken by an experiment in {found[one.name].file}"
                )
    return list(found.values())


def _unknown(name: str) -> str:
    known = [one.name for one in every_experiment()]
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else "unstale lab list shows them all"
    return f"there is no experiment {name!r}; {hint}"


def explained(error: BaseException, path: str | None) -> str:
    """Return what went wrong, in one line; and in which line of a file, if it is one of the reader's own."""
    here = "" if path is None else str(Path(path).absolute())
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == here]
    if isinstance(error, SyntaxError) and error.filename == here:
        lines, text = [error.lineno], error.msg
    else:
        text = str(error)
    what = text if isinstance(error, UnstaleError) else f"{type(error).__name__}: {text}"
    return " ".join(f"{what}{f' (line {lines[-1]})' if lines else ''}".split())


def _in_file(path: str) -> list[Experiment]:
    """Run a file of one's own and return its experiments."""
    if not Path(path).is_file():
        raise InvalidInput(f"{path}: there is no such file")
    spec = spec_from_file_location(f"experiments in {path}", path)
    if spec is None or spec.loader is None:
        raise InvalidInput(f"{path}: cannot be read as Python")
    module = sys.modules[spec.name] = module_from_spec(spec)  # dataclasses look for their module there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise InvalidInput(f"{path}: fails when it is read: {explained(error, path)}") from error
    if not (found := experiments_of(module)):
        raise InvalidInput(f"{path}: defines no experiment; see docs/how-to/add-an-experiment.md")
    names = [one.name for one in found]
    for name, own in zip(names, found, strict=True):
        if names.count(name) > 1 or any(name == one.name for one in every_experiment()):
            raise InvalidInput(
                f"{path}: the name {name!r} is taken by another experiment; {own.where} needs one of its own"
            )
    return [replace(one, file=path) for one in found]
