"""Tables in files: one reader, `TableReader`, with exact complaints, and a writer, of all rows or nothing.

A `Schema` says which columns a table may hold and what is allowed in each; there is one for elements
(`element_table`), histories (`history_table`) and logs of polls (`poll_table`), and others elsewhere.

A table of elements has a column ``rate``, or ``shape`` and ``scale`` of the gamma law of an uncertain rate,
and may have ``key``, ``weight``, ``size`` and ``group``; a history has ``element`` and ``t``. The end of a
file's name says what it is: ``.csv``, ``.csv.gz``, ``.tsv``, ``.tsv.gz`` or ``.parquet``; ``-`` is CSV on
standard input. Access logs come in formats of their own (`AccessLog`).
"""

from __future__ import annotations

from .atomic_files import (
    Write,
    check_writable,
    open_allocation,
    open_records,
    open_rows,
    replacing,
    write_csv,
)
from .columns import Keys, as_list, taken
from .complaints import Place, bad_column, bad_file
from .elements import LAW_ROLES, ROLES, WEIGHT, TableElements, element_table
from .files import Advance, ParquetFile, TextFile, ignore, open_file
from .history import HISTORY_ROLES, History, history_table, is_history
from .laws import law_of, mean_costs
from .logs.access_logs import FORMATS, Accesses, AccessLog, Tally
from .logs.lines import Requests
from .logs.records import FIELDS
from .logs.times import AccessRun, AccessRuns
from .polls import POLL_ROLES, PollLog, poll_table
from .schema import Column, Schema, moment
from .table_reader import TableReader, rows_in
from .user_weights import read_user_weights

__all__ = [
    "FIELDS",
    "FORMATS",
    "HISTORY_ROLES",
    "LAW_ROLES",
    "POLL_ROLES",
    "ROLES",
    "WEIGHT",
    "AccessLog",
    "AccessRun",
    "AccessRuns",
    "Accesses",
    "Advance",
    "Column",
    "History",
    "Keys",
    "ParquetFile",
    "Place",
    "PollLog",
    "Requests",
    "Schema",
    "TableElements",
    "TableReader",
    "Tally",
    "TextFile",
    "Write",
    "as_list",
    "bad_column",
    "bad_file",
    "check_writable",
    "element_table",
    "history_table",
    "ignore",
    "is_history",
    "law_of",
    "mean_costs",
    "moment",
    "open_allocation",
    "open_file",
    "open_records",
    "open_rows",
    "poll_table",
    "read_user_weights",
    "replacing",
    "rows_in",
    "taken",
    "write_csv",
]
