"""Files in these tests are small, and Arrow reads them all the same, so that both readers are tested."""

import pytest

from unstale.tables import table_reader


@pytest.fixture(autouse=True)
def _arrow_reads_small_files(monkeypatch):
    monkeypatch.setattr(table_reader, "QUICKLY_READ_BYTES", 0)
