"""Tables and logs of strangers take bounded memory and time, and are refused in one line."""

import gzip
import time

import pyarrow as pa
import pytest
from pyarrow import parquet

from unstale.errors import InvalidInput
from unstale.tables import files
from unstale.tables.elements import element_table
from unstale.tables.logs.lines import Requests, said_by


def read(path):
    return element_table(str(path)).read()


@pytest.mark.parametrize("end", ["\n", "\r", ""])
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_a_line_has_a_bound(tmp_path, monkeypatch, suffix, end):
    """A line of 400 MB came in 400 kB, and was in memory twice."""
    monkeypatch.setattr(files, "MOST_LINE_BYTES", 10_000)
    path = tmp_path / f"long{suffix}"
    opened = gzip.open if suffix.endswith("gz") else open
    with opened(path, "wt", newline="") as file:
        file.write("key,rate\n" + "a,1\n" * 5000 + "a" * 9_000_000 + end)
    with pytest.raises(InvalidInput, match="it has a line of more than 10,000 bytes"):
        read(path)


def test_a_small_file_does_not_become_a_huge_one(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "MOST_UNPACKED_BYTES", 10_000)
    path = tmp_path / "rows.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("rate\n" + "1\n" * 300_000)
    with pytest.raises(InvalidInput, match=r"decompression bomb: it has more than .* unpack it first"):
        read(path)


@pytest.mark.parametrize("kind", [pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_texts_that_rows_of_parquet_share_have_a_bound(tmp_path, monkeypatch, kind):
    """Parquet writes a text once for all rows; 100,000 rows of 20 kB took 2 GB, in a file of 100 kB."""
    monkeypatch.setattr(files, "MOST_TEXT_BYTES", 1_000_000)
    path = tmp_path / "shared.parquet"

    def write(text):
        keys = [str(i) for i in range(2000)]
        group = pa.array([text] * 2000, pa.string()).cast(kind)
        parquet.write_table(pa.table({"key": keys, "rate": [1.0] * 2000, "group": group}), path)

    write("a" * 400)
    assert read(path).groups.size == 2000
    write("a" * 4000)
    with pytest.raises(InvalidInput, match=r"column 'group': its texts have more than [0-9,]+ bytes"):
        read(path)


@pytest.mark.parametrize(
    "line", [b" [" * 100_000, b' [] "a' * 200_000, b' [] "' + b'\\"' * 500_000, b" " * 10**6]
)
def test_a_line_of_a_log_takes_time_in_proportion_to_its_length(line):
    """A megabyte of brackets took hours, and one of quotes a gigabyte."""
    began = time.process_time()
    assert isinstance(said_by(line, Requests()), str)
    assert time.process_time() - began < 10.0
