"""Moving in: what other tools watch and have seen, read whole before anything of it is imported.

`changedetection` reads changedetection.io (its data folder, or its API), `urlwatch` its list of jobs,
`crawls` dumps of Nutch and StormCrawler, `cdx` indexes of archives, `opml` the feeds of feed readers. Each
returns a `ForeignMirror`, which `bring` imports.
"""

from .bring import TakenOver, bring, write_changes
from .foreign_mirror import ForeignElement, ForeignMirror, ForeignPoll
from .kinds import KINDS, kind_of, read_foreign

__all__ = [
    "KINDS",
    "ForeignElement",
    "ForeignMirror",
    "ForeignPoll",
    "TakenOver",
    "bring",
    "kind_of",
    "read_foreign",
    "write_changes",
]  # fmt: skip
