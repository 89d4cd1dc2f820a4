"""Weights of users, from a file with the columns user and weight."""

from __future__ import annotations

from dataclasses import replace

from .complaints import bad_file
from .elements import WEIGHT
from .files import TextFile
from .schema import Column, Schema
from .table_reader import rows_in

_SCHEMA = Schema(
    (Column("user", "text", needed=True), replace(WEIGHT, needed=True)), "users", renamable=False
)
_OTHERS = "*"


def read_user_weights(path: str) -> tuple[dict[str, float], float]:
    """Return the weights of users, and that of all others: 1, unless a user called ``*`` says otherwise."""
    delimiter = "\t" if path.lower().removesuffix(".gz").endswith(".tsv") else ","
    weights: dict[str, float] = {}
    for place, row in rows_in(TextFile(path, delimiter), _SCHEMA):
        if row["user"] in weights:
            raise place.wrong("user", "a user who is not in a line above", row["user"])
        weights[row["user"]] = row["weight"]
    if not weights:
        raise bad_file(path, f"it has a header line, but no {_SCHEMA.noun} below it")
    others = weights.pop(_OTHERS, 1.0)
    return weights, others
