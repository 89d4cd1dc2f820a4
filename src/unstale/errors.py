"""Every error that unstale raises on purpose.

::

    UnstaleError
    ├── InvalidInput (also a ValueError)     a value cannot be used: the message names it and says what to do
    ├── NoAnswer (also an ArithmeticError)   the question is good, but the value cannot be computed as asked
    ├── MissingExtra (also an ImportError)   an optional part is not installed: the message names the command
    └── Trouble (also an OSError)            a full disk, a lost connection: try again later
"""

from functools import partial
from importlib import import_module
from types import ModuleType

__all__ = ["InvalidInput", "MissingExtra", "NoAnswer", "Trouble", "UnstaleError", "need"]


class UnstaleError(Exception):
    """Root of the tree."""


class InvalidInput(UnstaleError, ValueError):
    """A value cannot be used; the message names the argument, the place, the value and what is allowed."""


class NoAnswer(UnstaleError, ArithmeticError):
    """The computation did not reach its stated error; the message says which one and what to do."""


class Trouble(UnstaleError, OSError):
    """Something is in the way for now; nothing is half-written or lost, and it can be tried again."""


class MissingExtra(UnstaleError, ImportError):
    """An optional part is missing.

    >>> raise MissingExtra("lab", needed_for="plots")
    Traceback (most recent call last):
    unstale.errors.MissingExtra: plots need an optional part: pip install 'unstale[lab]'
    """

    def __init__(self, extra: str, *, needed_for: str) -> None:
        super().__init__(f"{needed_for} need an optional part: pip install 'unstale[{extra}]'")
        self.extra, self.needed_for = extra, needed_for

    def __reduce__(self) -> tuple[object, ...]:
        """Let the error travel from another process."""
        return partial(type(self), needed_for=self.needed_for), (self.extra,)


def need(module: str, *, extra: str, needed_for: str) -> ModuleType:
    """Import a module of an optional part, or say how to install it.

    >>> need("json", extra="lab", needed_for="plots").__name__
    'json'
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or module.split(".", maxsplit=1)[0] != error.name.split(".")[0]:
            raise  # the module is there, but something that it imports is broken
        raise MissingExtra(extra, needed_for=needed_for) from None
