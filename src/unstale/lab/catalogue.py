"""All experiments by name, and those of a file of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

from ..errors import InvalidInput
from .experiment import Experiment

__all__ = ["choose", "every_experiment"]

_PARTS = ("cho", "azar", "li", "carney", "beyond")
"""A package for each paper, in the order of the list; each module has one experiment or a few."""


@cache
def every_experiment() -> tuple[Experiment, ...]:
    """Return all experiments of the package, paper by paper, in the order of `ORDER` there or by name.

    >>> len(every_experiment()) > 40
    True
    """
    found: list[Experiment] = []
    for part in _PARTS:
        package = import_module(f".{part}", __package__)
        modules = [import_module(f"{package.__name__}.{one.name}") for one in iter_modules(package.__path__)]
        inside = [one for module in modules for one in experiments_of(module)]
        found += sorted(inside, key=lambda one: _numbered(one.name))
    return tuple(found)


def _numbered(name: str) -> tuple[tuple[int, str], ...]:
    """Sort figure 6 before figure 10."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in name.split("-"))


def experiments_of(module: ModuleType) -> list[Experiment]:
    """Return the experiments that a module defines."""
    return [one for one in vars(module).values() if isinstance(one, Experiment)]


def choose(names: Sequence[str]) -> list[Experiment]:
    """Return experiments by name, by pattern (``cho-*``), or from a Python file, each once."""
    found: dict[str, Experiment] = {}
    for name in names:
        if name.endswith(".py"):
            some = _in_file(name)
        else:
            some = [one for one in every_experiment() if fnmatchcase(one.name, name)]
            if not some:
                raise InvalidInput(_unknown(name))
        found |= {one.name: one for one in some}
    return list(found.values())


def _unknown(name: str) -> str:
    known = [one.name for one in every_experiment()]
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else "unstale lab list shows them all"
    return f"there is no experiment {name!r}; {hint}"


def _in_file(path: str) -> list[Experiment]:
    """Run a file of one's own and return its experiments."""
    if not Path(path).is_file():
        msg = f"{path}: there is no such file"
        raise InvalidInput(msg)
    spec = spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        msg = f"{path}: cannot be read as Python"
        raise InvalidInput(msg)
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        msg = f"{path}: fails when it is read: {type(error).__name__}: {error}"
        raise InvalidInput(msg) from error
    if not (found := experiments_of(module)):
        msg = f"{path}: defines no experiment; see docs/how-to/add-an-experiment.md"
        raise InvalidInput(msg)
    return found
