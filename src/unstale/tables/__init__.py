"""Tables of elements in files: read them, with exact complaints, and write allocations, whole or not at all.

A table has a column ``rate`` and may have ``key``, ``weight``, ``size`` and ``group``. The end of a file's
name says what it is: ``.csv``, ``.csv.gz``, ``.tsv``, ``.tsv.gz`` or ``.parquet``; ``-`` is CSV on standard
input.
"""

from __future__ import annotations

from .elements import ROLES, Advance, Elements, Keys, as_list, bad_column, bad_file, ignore
from .output import check_writable, open_allocation, replacing, write_csv
from .parquet import ParquetTable
from .text import TextTable

__all__ = [
    "ROLES",
    "Advance",
    "Elements",
    "Keys",
    "ParquetTable",
    "TextTable",
    "as_list",
    "bad_column",
    "bad_file",
    "check_writable",
    "ignore",
    "open_allocation",
    "open_table",
    "replacing",
    "write_csv",
]

TEXT = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}


def open_table(path: str, columns: dict[str, str] | None = None) -> TextTable | ParquetTable:
    """Return the table in a file; ``columns`` says what columns are called there, if not by their role."""
    names = {role: (columns or {}).get(role, role) for role in ROLES}
    required = {"rate", *(columns or {})}
    if path == "-":
        return TextTable(path, names, required, delimiter=",")
    for suffix, delimiter in TEXT.items():
        if path.lower().endswith(suffix):
            return TextTable(path, names, required, delimiter=delimiter)
    if path.lower().endswith(".parquet"):
        return ParquetTable(path, names, required)
    raise bad_file(
        path, f"its name must end in {', '.join(TEXT)} or .parquet, or be - for CSV on standard input"
    )
