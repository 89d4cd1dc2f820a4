"""``unstale import`` of what another tool watches and has seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unstale.cli.shared.printing import console, print_json, printable, say
from unstale.cli.shared.progress import progress
from unstale.errors import InvalidInput
from unstale.wording import plural

from .open import read_lines
from .report import print_item

if TYPE_CHECKING:
    from unstale.mirror.exchange.foreign import ForeignMirror
    from unstale.mirror.mirror import Mirror

_MOST_LEFT_OUT_SHOWN = 10


@dataclass(frozen=True)
class MovingIn:
    """How other tools are read, and into which mirror."""

    mirror: Mirror
    allow: Sequence[str]
    keep_intervals: bool
    changes: str | None
    api_key_file: str | None

    def take(self, file: str, kind: str) -> dict[str, Any]:
        """Import from one tool; return what became of it."""
        from unstale.mirror.exchange.foreign import bring, write_changes

        with progress(f"importing {file}"):
            found = self._read(file, kind)
            done = bring(self.mirror, found, allow=self.allow, keep_intervals=self.keep_intervals)
            rows = 0 if self.changes is None else write_changes(found, self.changes)
        return {
            "file": file, "kind": kind, "added": done.added, "known": done.known, "polls": done.polls,
            "polls_per_day": done.polls_per_day, "changes": rows,
            "left_out": [{"key": key, "why": why} for key, why in done.left_out],
        }  # fmt: skip

    def _read(self, file: str, kind: str) -> ForeignMirror:
        from unstale.mirror.exchange.foreign import read_foreign
        from unstale.mirror.exchange.foreign.changedetection import read_changedetection_api

        if not file.startswith(("http://", "https://")):
            return read_foreign(Path(file), kind)
        if kind != "changedetection":
            raise InvalidInput(f"{file}: {kind} is read from files")
        if self.api_key_file is None:
            raise InvalidInput(f"{file}: needs --api-key-file, with the key of its API (in its settings)")
        (key, *_) = [*read_lines("--api-key-file", self.api_key_file), ""]
        return read_changedetection_api(file, key)

    def print(self, told: Sequence[dict[str, Any]], *, as_json: bool) -> None:
        """Say what became of it."""
        if as_json:
            print_json({"imported": told})
            return
        out = console()
        for one in told:
            were = f"; {one['known']:,} were there already" if one["known"] else ""
            polls = plural(one["polls"], "poll")
            out.print(f"{one['file']}: {plural(one['added'], 'new element')}{were}; {polls}.", soft_wrap=True)
            for left in one["left_out"][:_MOST_LEFT_OUT_SHOWN]:
                print_item(out, f"{printable(left['key'])}: {printable(left['why'])}")
            if len(one["left_out"]) > _MOST_LEFT_OUT_SHOWN:
                out.print(f"  and {len(one['left_out']) - _MOST_LEFT_OUT_SHOWN:,} more")
            if one["polls_per_day"] and not self.keep_intervals:
                rate = f"{one['polls_per_day']:.3g}"
                say(
                    out,
                    f'It polled about {rate} times a day: budget = "{rate}/day" does as much.',
                )
            if self.changes is not None:
                say(out, f"Who would be fresher: unstale lab shootout {self.changes}")
