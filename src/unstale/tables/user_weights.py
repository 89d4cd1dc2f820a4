"""Weights of users, from a file with the columns user and weight."""

from __future__ import annotations

from .elements import bad_file, bad_value, broken_rule, find_columns
from .lines import TextFile

__all__ = ["read_user_weights"]

_ROLES = ("user", "weight")
_OTHERS = "*"


def read_user_weights(path: str) -> tuple[dict[str, float], float]:
    """Return the weights of users, and that of all others: 1, unless a user called ``*`` says otherwise."""
    delimiter = "\t" if path.lower().removesuffix(".gz").endswith(".tsv") else ","
    file = TextFile(path, delimiter)
    header = file.header(*_ROLES)
    columns = {role: role for role in _ROLES}
    where = find_columns(path, header.names, columns, set(_ROLES), line=header.line)
    weights: dict[str, float] = {}
    for line, row in file.body(len(header.names)):
        user, text = row[where["user"]], row[where["weight"]]
        try:
            weight = float(text)
        except ValueError:
            raise bad_value(path, f"line {line}", "weight", "a number", text) from None
        if rule := broken_rule("weight", weight):
            raise bad_value(path, f"line {line}", "weight", rule, text)
        if user in weights:
            raise bad_value(path, f"line {line}", "user", "a user who is not in a line above", user)
        weights[user] = weight
    if not weights:
        raise bad_file(path, "it has a header line, but no users below it")
    others = weights.pop(_OTHERS, 1.0)
    return weights, others
