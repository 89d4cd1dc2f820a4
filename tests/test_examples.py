"""Examples of ``make test`` are the same everywhere."""

import sys
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def drawn():
    """Examples of a property of numbers and of texts."""
    found = []

    @given(st.tuples(st.lists(st.floats()), st.integers(), st.text()))
    def of(values):
        found.append(repr(values))

    of()
    return found


@pytest.mark.skipif(not settings().derandomize, reason="the long mode explores")
def test_examples_do_not_depend_on_modules_that_happen_to_be_loaded(tmp_path, monkeypatch):
    before = drawn()
    module = ModuleType("some_module")
    module.__file__ = str(tmp_path / "some_module.py")
    (tmp_path / "some_module.py").write_text(
        "\n".join(f"n{k}, x{k}, t{k} = {k + 1000}, {k}.125, 'text {k}'" for k in range(100))
    )
    monkeypatch.setitem(sys.modules, "some_module", module)
    assert drawn() == before
    assert len(set(before)) > 10
