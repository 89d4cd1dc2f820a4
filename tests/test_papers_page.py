"""The page on the papers: each name, command, key and experiment on it exists."""

import re
import tomllib
from pathlib import Path

import click
import pytest

import unstale
from unstale.cli.program import cli
from unstale.lab import every_experiment
from unstale.mirror.config.keys import SECTIONS

PAGE = Path(__file__).parents[1] / "docs/explanation/papers.md"
ROWS = [
    [cell.strip() for cell in row.strip("|").split(" | ")]
    for row in PAGE.read_text("utf-8").splitlines()
    if row.startswith("| ") and not row.startswith(("| section |", "| idea |"))
]
EXPERIMENTS = {one.name for one in every_experiment()}
NOWHERE = "\N{EN DASH}"
KEY = re.compile(r"\[+(\w+)\]+ (\w+) = (.*)")


def code(cell):
    return re.findall(r"`([^`]+)`", cell)


def exists(words):
    """Whether this is a name of the package, a command with its options, or a key with a value it takes."""
    if words.startswith("["):
        section, name, value = KEY.fullmatch(words).groups()
        (key,) = [key for one in SECTIONS if one.name == section for key in one.keys if key.name == name]
        key.read(name, tomllib.loads(f"it = {value}")["it"])  # refuses what it does not take
        return True
    if words.startswith("unstale."):
        found = unstale
        for name in words.split(".")[1:]:
            found = getattr(found, name)
        return True
    if words.startswith("unstale "):
        command, words = cli, words.split()[1:]
        while words and not words[0].startswith("-"):
            command = command.commands[words.pop(0)]
        known = {
            option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
        }
        return isinstance(command, click.Command) and set(words) <= known
    return False


def test_the_page_has_a_row_for_each_idea():
    assert len(ROWS) > 30
    assert {len(row) for row in ROWS} == {5, 6}
    for row in ROWS:
        assert all(row), row


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[-5])
def test_what_a_row_names_is_there(row):
    *_, python, mirror, trial, proven = row
    for words in (*code(python), *code(mirror), *code(trial)):
        if re.fullmatch(r"\w+", words):  # an argument of what stands before it
            (call,) = {one for one in code(python) if one.startswith("unstale.")}
            assert words in _arguments(call), words
        else:
            assert exists(words), words
    assert set(code(proven)) <= EXPERIMENTS
    assert code(proven) or "](" in proven or proven == NOWHERE


def _arguments(call):
    import inspect

    found = unstale
    for name in call.split(".")[1:]:
        found = getattr(found, name)
    return inspect.signature(found).parameters


def test_every_experiment_on_a_paper_is_on_the_page():
    named = {words for row in ROWS for words in code(row[-1])}
    assert {name for name in EXPERIMENTS if name not in named} <= {
        "cho-examples",
        "cho-figure-14",
        "carney-footnotes",
    }


@pytest.mark.parametrize(
    "words",
    [
        '[mirror] objective = "best"',
        "[mirror] colour = 1",
        "unstale.polish",
        "unstale polish",
        "unstale plan --polish",
    ],
)
def test_what_is_not_there_is_noticed(words):
    try:
        found = exists(words)
    except (unstale.UnstaleError, ValueError, AttributeError, KeyError):
        found = False
    assert not found
