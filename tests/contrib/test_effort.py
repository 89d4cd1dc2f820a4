"""The page that compares adapters counts the lines that users write, as the how-to pages show them.

``python -m contrib.test_effort`` in ``tests`` prints the counts.
"""

import re

from .conftest import BLOCK, HOWTO

PAGE = HOWTO.parent / "explanation" / "adapters.md"
SHOWN = {
    "Python client": [("bring-your-own-fetcher.md", None)],
    "Scrapy": [("scrapy.md", "mirror.toml"), ("scrapy.md", "news.py")],
    "URLFrontier": [("urlfrontier.md", "mirror.toml")],
    "dbt": [("pipelines.md", "mirror.toml"), ("pipelines.md", "sources.yml"), ("pipelines.md", "build.sh")],
    "Dagster": [("pipelines.md", "mirror.toml"), ("pipelines.md", "definitions.py")],
    "Airflow": [("pipelines.md", "mirror.toml"), ("pipelines.md", "orders_dag.py")],
}


def lines_of(page, name):
    """Count the lines of a file that a page shows, without empty ones."""
    text = (HOWTO / page).read_text()
    if name is None:
        content = re.search(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL).group(1)
    else:
        content = next(block for _, found, block in BLOCK.findall(text) if found == name)
    return sum(bool(line.strip()) for line in content.splitlines())


def counted():
    return {adapter: sum(lines_of(*one) for one in shown) for adapter, shown in SHOWN.items()}


def test_the_page_says_how_many_lines_users_write():
    rows = dict(re.findall(r"^\| \[([\w ]+)\]\([^)]*\) \| (\d+) \|", PAGE.read_text(), re.MULTILINE))
    assert {name: int(count) for name, count in rows.items()} == counted()


if __name__ == "__main__":
    print(counted())  # noqa: T201
