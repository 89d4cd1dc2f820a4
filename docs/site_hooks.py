"""What `make docs` does besides rendering pages: links to the code, and llms.txt for language models.

MkDocs calls the functions by their names (https://www.mkdocs.org/user-guide/plugins/#events).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

HERE = Path(__file__).parent
RELATIVE_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?![a-z]+:|#)([^)\s]+)\)")
"""A link to another file of the repository."""


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """Replace links to files that the site does not have, such as source code, by their text and path."""
    folder = (HERE / page.file.src_uri).parent

    def replaced(link: re.Match[str]) -> str:
        text, address = link.groups()
        target = (folder / address.partition("#")[0]).resolve()
        if target.is_relative_to(HERE) and target.suffix != ".py":
            return link.group()
        path = target.relative_to(HERE.parent).as_posix()
        return text if path in text else f"{text} (`{path}`)"

    return RELATIVE_LINK.sub(replaced, markdown)


def on_post_build(*, config: MkDocsConfig, **_: object) -> None:
    """Write llms.txt, the list of pages with what each is about, and llms-full.txt, all pages in one."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    texts = []
    for title, source in _pages(config.nav):
        if source is None:
            lines += ["", f"## {title}", ""]
            continue
        text = (HERE / source).read_text("utf-8")
        texts.append(text)
        lines.append(f"- [{title}]({source.removesuffix('.md')}.html): {_summary(text)}")
    site = Path(config.site_dir)
    (site / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")
    (site / "llms-full.txt").write_text("\n\n".join(texts), "utf-8")


def _pages(nav: list[dict[str, Any]]) -> list[tuple[str, str | None]]:
    """Return titles and files of the navigation; a section has no file."""
    found: list[tuple[str, str | None]] = []
    for entry in nav:
        for title, value in entry.items():
            if isinstance(value, str):
                found.append((title, value))
            else:
                found += [(title, None), *_pages(value)]
    return found


def _summary(text: str) -> str:
    """Return the first sentence of a page, without markup."""
    paragraphs = [part for part in text.split("\n\n") if not part.startswith(("#", "```", "!", "|", "<"))]
    plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(paragraphs[0].split()))
    return re.split(r"(?<=[.?!]) ", plain)[0]
