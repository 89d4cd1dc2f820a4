"""Every error that unstale raises on purpose.

::

    UnstaleError
    ├── InvalidInput (also a ValueError)     a value cannot be used: the message names it and says what to do
    ├── NoAnswer (also an ArithmeticError)   the question is well put, but the value cannot be had as asked
    └── MissingExtra (also an ImportError)   an optional part is not installed: the message names the command
"""

__all__ = ["InvalidInput", "MissingExtra", "NoAnswer", "UnstaleError"]


class UnstaleError(Exception):
    """Root of the tree."""


class InvalidInput(UnstaleError, ValueError):
    """A value cannot be used; the message names the argument, the place, the value and what is allowed."""


class NoAnswer(UnstaleError, ArithmeticError):
    """The computation did not reach its stated error; the message says which one and what to do."""


class MissingExtra(UnstaleError, ImportError):
    """An optional part is missing.

    >>> raise MissingExtra("lab", needed_for="plots")
    Traceback (most recent call last):
    unstale.errors.MissingExtra: plots need an optional part: pip install 'unstale[lab]'
    """

    def __init__(self, extra: str, *, needed_for: str) -> None:
        super().__init__(f"{needed_for} need an optional part: pip install 'unstale[{extra}]'")
        self.extra = extra
