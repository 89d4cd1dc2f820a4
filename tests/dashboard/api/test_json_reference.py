"""The reference of JSON is written from the description of the API: every value, every member.

``python tests/dashboard/api/test_json_reference.py`` writes the page.
"""

import re
from pathlib import Path

from pydantic import BaseModel

from unstale.dashboard.api import models
from unstale.dashboard.api.reference import _kind

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "json.md"
ABOUT = """\
# JSON

Each value has one JSON, whoever asks for it: a command with `--json`, the API of `unstale serve`, a webhook,
or `to_json()` in Python (`unstale.mirror.json_values.as_json` for rows of the store). Moments are texts in
UTC, spans and ages are in seconds, sizes and traffic in bytes; budgets, rates and what is spent are per
second; shares and probabilities go from 0 to 1. What is not known is null, and so is infinity. This is a
stable contract: members may be added, but none is renamed or removed.
"""
VALUES = [
    (models.Status, "`unstale status --json`, `GET /api/status`, `Mirror.status().to_json()`"),
    (
        models.Explanation,
        "`unstale explain KEY --json`, `GET /api/elements/N`, `Mirror.explain(KEY).to_json()`",
    ),
    (models.Audit, "`unstale audit --json`, `Mirror.audit().to_json()`; the last one is in the status"),
    (models.Version, "`unstale changes`, `GET /api/changes`, webhooks and commands"),
    (models.Difference, "`unstale show KEY --diff --json`, `GET /api/elements/N/difference`"),
    (models.Element, "a part of an explanation, and of `GET /api/elements` with `fresh` and `rate`"),
    (models.Poll, "a part of an explanation"),
    (models.Worth, "a part of an explanation"),
    (models.Interval, "a part of a status and of a sample"),
    (models.GroupStatus, "a part of a status; `GET /api/groups`"),
    (models.Neglected, "a part of a status"),
    (models.Budgets, "a part of a status; `POST /api/budget`"),
    (models.InReserve, "a part of a status"),
    (models.FirstCopies, "a part of a status"),
    (models.ReaderFreshness, "a part of a status"),
    (models.ComposedFreshness, "a part of a status"),
    (models.ReplicaHeard, "a part of a status"),
    (models.RoomTaken, "a part of a status"),
    (models.TargetFreshness, "a part of a status"),
    (models.Sample, "`GET /api/samples`, `Mirror.samples()`"),
    (models.WhatIf, "`GET /api/what-if`, `Mirror.what_if().to_json()`"),
    (models.Bought, "a part of what-if"),
    (models.Ideas, "`GET /api/ideas`; a part of `unstale whatif mirror.toml --json`"),
    (models.Idea, "a part of ideas"),
    (models.ComposedIdea, "a part of ideas"),
    (models.BudgetFor, "`GET /api/budget-for`"),
    (models.Added, "`unstale add --json`, `POST /api/elements`, `Mirror.add_many(...).to_json()`"),
    (models.Refused, "a part of what was added"),
    (models.Removed, "`unstale remove --json`, `DELETE /api/elements/N`"),
    (models.Paused, "`unstale pause --json`, `unstale resume --json`, `POST /api/elements/N/pause`"),
    (models.Hinted, "`unstale hint --json`, `POST /api/hints`"),
]  # fmt: skip


def page():
    lines = [ABOUT]
    for model, where in VALUES:
        lines += [f"## {model.__name__}", "", f"{model.__doc__} In {where}.", ""]
        lines += ["| member | kind | meaning |", "|---|---|---|"]
        for name, said in model.model_json_schema()["properties"].items():
            lines.append(f"| `{name}` | {_kind(said)} | {said.get('description', '')} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def test_the_reference_is_as_the_description():
    assert PAGE.read_text("utf-8") == page()


def test_every_value_is_there():
    told = {model for model, _ in VALUES}
    answers = {one for one in vars(models).values() if isinstance(one, type) and issubclass(one, BaseModel)}
    others = "BaseModel|_Strict|ErrorAnswer|Health|"
    others += "Listed.*|New.*|GroupList|Samples|ElementPage|Versions|Changes|Budget|Hints|TrialQuery"
    assert {one.__name__ for one in answers - told if not re.fullmatch(others, one.__name__)} == set()


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
