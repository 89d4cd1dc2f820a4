"""What the documentation shows of mirror.toml can be used as it stands."""

import re
from pathlib import Path

import pytest

from unstale.mirror.config.file import load

DOCS = Path(__file__).parents[3] / "docs"
BLOCKS = [
    pytest.param(block, id=f"{page.stem}-{i}")
    for page in sorted(DOCS.rglob("*.md"))
    for i, block in enumerate(re.findall(r"^```toml\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL))
]


def test_there_are_some():
    assert len(BLOCKS) > 5


@pytest.mark.parametrize("block", BLOCKS)
def test_it_loads(block, tmp_path, monkeypatch):
    for name in re.findall(r"\$\{(\w+)\}", block):
        monkeypatch.setenv(name, "value")
    path = tmp_path / "mirror.toml"
    path.write_text(block if "[mirror]" in block else f'[mirror]\nbudget = "1000/day"\n\n{block}')
    assert load(path).path == path
