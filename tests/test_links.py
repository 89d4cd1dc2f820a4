"""Links between the pages of the documentation lead somewhere."""

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]
PAGES = [HERE / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")]
PAGES += sorted((HERE / "docs").rglob("*.md"))
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)[^)]*\)|^\[[^\]]+\]: *(\S+)|(?:src|href)=\"([^\"]+)\"", re.MULTILINE)
HEADING = re.compile(r"^#+ +(.*?) *#*$", re.MULTILINE)


def links(text):
    """Return where a page links to on this side of the network."""
    found = ["".join(parts) for parts in LINK.findall(CODE.sub("", text))]
    return [one for one in found if not re.match(r"[a-z]+:", one)]


def anchors(text):
    """Return the names of headings, as they stand behind a # in links."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(text)
    } | set(re.findall(r"id=\"([^\"]+)\"", text))


def test_links_are_found():
    text = '[a](b.md) ![c](d.svg) `[x](y.md)` [f](https://g) <img src="h.svg"> [i](#j)\n[k]: l.md\n'
    assert links(text) == ["b.md", "d.svg", "h.svg", "#j", "l.md"]
    assert anchors("# How to `lab run`: 2 ways\n") == {"how-to-lab-run-2-ways"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(HERE)))
def test_every_link_leads_somewhere(page):
    dead = []
    for link in links(page.read_text("utf-8")):
        path, _, place = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists():
            dead.append(link)
            continue
        known = anchors(target.read_text("utf-8")) if place and target.suffix == ".md" else {place}
        if place not in known:
            dead.append(link)
    assert dead == []


def test_quick_tests_are_there():
    named = re.findall(r"\btests/[\w/]+(?:\.py)?", (HERE / "Makefile").read_text("utf-8"))
    assert len(named) > 10
    assert not [path for path in named if not (HERE / path).exists()]
