"""Tables in files: read elements and histories, with exact complaints, and write rows, whole or not at all.

A table of elements has a column ``rate``, or ``shape`` and ``scale`` of the gamma law of an uncertain rate,
and may have ``key``, ``weight``, ``size`` and ``group``; a history has ``element`` and ``t``. The end of a
file's name says what it is: ``.csv``, ``.csv.gz``, ``.tsv``, ``.tsv.gz`` or ``.parquet``; ``-`` is CSV on
standard input. Access logs come in formats of their own (`AccessLog`).
"""

from __future__ import annotations

from collections.abc import Mapping

from .elements import LAW_ROLES, ROLES, Advance, Elements, Keys, as_list, bad_column, bad_file, ignore, taken
from .history import HISTORY_ROLES, History, HistoryTable, moment
from .laws import law_of, mean_costs
from .lines import TextFile
from .logs.access_logs import FORMATS, Accesses, AccessLog, Tally
from .logs.lines import Requests
from .logs.records import FIELDS
from .logs.times import Run, Runs
from .output import Write, check_writable, open_allocation, open_rows, replacing, write_csv
from .parquet import ParquetFile, ParquetTable
from .poll_log import POLL_ROLES, PollLog, PollTable
from .text import TextTable
from .user_weights import read_user_weights

__all__ = [
    "FIELDS",
    "FORMATS",
    "HISTORY_ROLES",
    "LAW_ROLES",
    "POLL_ROLES",
    "ROLES",
    "AccessLog",
    "Accesses",
    "Advance",
    "Elements",
    "History",
    "HistoryTable",
    "Keys",
    "ParquetFile",
    "ParquetTable",
    "PollLog",
    "PollTable",
    "Requests",
    "Run",
    "Runs",
    "Tally",
    "TextFile",
    "TextTable",
    "Write",
    "as_list",
    "bad_column",
    "bad_file",
    "check_writable",
    "ignore",
    "is_history",
    "law_of",
    "mean_costs",
    "moment",
    "open_allocation",
    "open_file",
    "open_rows",
    "open_table",
    "read_history",
    "read_user_weights",
    "replacing",
    "taken",
    "write_csv",
]

TEXT = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}


def open_file(path: str) -> TextFile | ParquetFile:
    """Return a file by the end of its name; nothing is read yet."""
    if path == "-":
        return TextFile(path, ",")
    for suffix, delimiter in TEXT.items():
        if path.lower().endswith(suffix):
            return TextFile(path, delimiter)
    if path.lower().endswith(".parquet"):
        return ParquetFile(path)
    raise bad_file(
        path, f"its name must end in {', '.join(TEXT)} or .parquet, or be - for CSV on standard input"
    )


def open_table(
    path: str | TextFile | ParquetFile, columns: dict[str, str] | None = None, *, certain: bool = False
) -> TextTable | ParquetTable:
    """Return the table in a file; ``columns`` says what columns are called there, if not by their role.

    The laws of uncertain rates are left out if they are to be taken as ``certain``.
    """
    roles = ROLES if certain else (*ROLES, *LAW_ROLES)
    names = {role: (columns or {}).get(role, role) for role in roles}
    required = set(columns or {})
    file = open_file(path) if isinstance(path, str) else path
    if isinstance(file, TextFile):
        return TextTable(file, names, required)
    return ParquetTable(file, names, required)


def is_history(file: TextFile | ParquetFile, columns: Mapping[str, str]) -> bool:
    """Tell whether a file is a history: it has times and no rates, or its columns are named as such."""
    if set(columns) & set(HISTORY_ROLES):
        return True
    names = file.header("rate").names if isinstance(file, TextFile) else file.names
    return "t" in names and columns.get("rate", "rate") not in names


def read_history(path: str, columns: Mapping[str, str] | None = None, advance: Advance = ignore) -> History:
    """Read the history in a file; ``columns`` says what columns are called there, if not by their role."""
    return HistoryTable(open_file(path), columns).read(advance)
