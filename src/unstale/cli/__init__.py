"""The command line: parse, call, print; a folder per family of verbs.

Heavy modules load inside the commands, so that ``--help`` is quick.
"""

from .program import cli, main

__all__ = ["cli", "main"]
