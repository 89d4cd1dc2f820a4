"""All sources keep the contract; that tables do is tested with the other tests of tables."""

import pytest

from unstale.mirror.sources.contract import LAWS, check

from .worlds import WORLDS


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("world", WORLDS)
def test_sources_keep_the_contract(world, law, tmp_path):
    check(law, WORLDS[world], tmp_path)
