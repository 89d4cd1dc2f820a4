"""What is written for dbt, without dbt."""

import json

import pytest
from click.testing import CliRunner

from unstale import InvalidInput, Mirror
from unstale.contrib.dbt import main, write_sources
from unstale.mirror.settings import Settings


def project(folder, **sources):
    (folder / "target").mkdir()
    found = {
        name: {"unique_id": name, "schema": "main", "identifier": "orders", "meta": {}, **said}
        for name, said in sources.items()
    }
    (folder / "target" / "manifest.json").write_text(json.dumps({"sources": found}))


@pytest.fixture
def mirror(tmp_path):
    (tmp_path / "mirror.toml").write_text("[mirror]\nbudget = '100/s'\n")
    with Mirror(tmp_path / "mirror.db", settings=Settings(budget=1000.0)) as made:
        made.add("python:prices", poll=lambda: "1")
        while not made.changes():
            made.step()
        yield made


def test_sources_are_found_by_what_the_project_says(tmp_path, mirror):
    project(tmp_path, a={"meta": {"unstale": "python:prices"}}, b={"meta": {"unstale": "python:none"}}, c={})
    assert write_sources(mirror, tmp_path, tmp_path / "state") == 1
    (result,) = json.loads((tmp_path / "target" / "sources.json").read_text())["results"]
    assert (result["unique_id"], result["status"]) == ("a", "pass")
    assert result["max_loaded_at"] <= result["snapshotted_at"]
    assert json.loads((tmp_path / "state" / "sources.json").read_text())["results"] == []
    done = CliRunner().invoke(main, ["--mirror", str(tmp_path), "--project", str(tmp_path)])
    assert done.output == "1 sources of dbt are elements of the mirror.\n"


def test_without_a_manifest_it_says_what_to_run(tmp_path, mirror):
    with pytest.raises(InvalidInput, match="run: dbt parse"):
        write_sources(mirror, tmp_path, tmp_path / "state")
    done = CliRunner().invoke(main, ["--mirror", str(tmp_path), "--project", str(tmp_path)])
    assert (done.exit_code, "run: dbt parse" in done.output) == (1, True)
