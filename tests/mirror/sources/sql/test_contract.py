"""Tables keep the contract of sources."""

import pytest

from unstale.mirror.sources.contract import LAWS, check

from .worlds import in_postgres, in_sqlite


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_tables_of_sqlite(law, tmp_path):
    check(law, in_sqlite(), tmp_path)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_tables_of_postgresql(law, tmp_path, postgres_url):
    check(law, in_postgres(postgres_url), tmp_path)


@pytest.mark.parametrize("law", LAWS[:9], ids=lambda law: law.__name__)  # those about change
def test_other_rungs(law, tmp_path, postgres_url):
    for number, world in enumerate(
        [
            in_sqlite(wal=True),
            in_sqlite(checksum=True),
            in_sqlite(probe="SELECT sum(version) FROM orders"),
            in_postgres(postgres_url, checksum=True),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        check(law, world, folder)
