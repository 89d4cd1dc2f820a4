"""The command line: parse, call, print; a folder per family of verbs.

Heavy modules load inside the commands, so that ``--help`` is quick.
"""

try:
    from .program import cli, main
except KeyboardInterrupt:  # in the first tenth of a second
    raise SystemExit(130) from None

__all__ = ["cli", "main"]
