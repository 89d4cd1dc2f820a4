"""Tables on narrow terminals: numbers are never cut."""

import io

import pytest
from rich.console import Console

from unstale.cli.shared.options import POLICIES
from unstale.cli.shared.printing import print_table
from unstale.planning import POLICIES as PLANNED


def printed(width, *table, **options):
    out = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False)
    print_table(out, *table, **options)
    return out.file.getvalue()


@pytest.mark.parametrize("key", ["https://x.example/" + "a" * 150, "\u754c" * 90])
@pytest.mark.parametrize("width", [40, 50, 80, 100])
def test_only_keys_are_cut(width, key):
    rows = [(key, "1,234,567", "12.3 minutes"), ("b", "0", "never polled")]
    heading, first, second = printed(
        width, ("key", "polls/day", "a poll every"), rows, shorten=True
    ).splitlines()
    assert heading.endswith("  polls/day  a poll every")
    assert first.startswith(key[:5])
    assert first.endswith("\u2026  1,234,567  12.3 minutes".removeprefix("" if key.isascii() else "\u2026"))
    assert second.endswith("          0  never polled")
    assert all(len(line) <= width for line in (heading, first, second))


@pytest.mark.parametrize("width", [10, 20, 40, 50, 80])
def test_numbers_are_not_cut(width):
    columns = ("policy", "fresh", "mean age", "budget on the\nfastest tenth")
    row = ("optimal for freshness", "52.1%", "12.3 minutes", "10%")
    out = printed(width, columns, [row, row])
    assert "\u2026" not in out
    for cell in row:
        assert out.count(cell) == 2
    if width < 80:
        assert out.splitlines()[:4] == [
            "optimal for freshness",
            "  fresh: 52.1%",
            "  mean age: 12.3 minutes",
            "  budget on the fastest tenth: 10%",
        ]


def test_policies_are_those_of_the_library():
    assert sorted(POLICIES) == sorted(PLANNED)
