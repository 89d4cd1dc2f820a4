"""The documentation is built as a site: every page has a place in it, and every link leads somewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return the folder with the site, built with every warning an error."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(  # noqa: S603  (our own command)
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=HERE, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_every_page_is_in_the_site_and_in_the_list_for_language_models(site):
    pages = sorted(path.relative_to(HERE / "docs") for path in (HERE / "docs").rglob("*.md"))
    assert len(pages) > 30
    listed = (site / "llms.txt").read_text("utf-8")
    for page in pages:
        assert (site / page.with_suffix(".html")).exists()
        assert f"({page.with_suffix('.html').as_posix()}): " in listed
    assert (HERE / "docs" / "theory.md").read_text("utf-8") in (site / "llms-full.txt").read_text("utf-8")


def test_the_site_has_no_code_and_loads_nothing_from_elsewhere(site):
    assert not [path for path in site.rglob("*") if path.suffix in {".py", ".pyc"}]
    loaded = re.compile(
        r"<(?:script|img|link[^>]*rel=\"?(?:stylesheet|preconnect|icon))[^>]*(?:src|href)=\"?(https?:[^\s\">]+)"
    )
    for page in site.rglob("*.html"):
        assert loaded.findall(page.read_text("utf-8")) == [], page


def test_links_of_the_site_lead_to_files_of_the_site(site):
    dead = []
    for page in site.rglob("*.html"):
        for address in re.findall(r"href=\"?([^\s\">]+)", page.read_text("utf-8")):
            path = address.partition("#")[0].partition("?")[0]
            if path and not re.match(r"[a-z]+:|//", path) and not (page.parent / path).exists():
                dead.append((page.name, address))
    assert [one for one in dead if one[0] != "404.html"] == []
