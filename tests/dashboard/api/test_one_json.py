"""One JSON of each value: commands, the API and Python give the same, as the API describes it."""

import json
import math
from contextlib import ExitStack
from dataclasses import fields, is_dataclass

import numpy as np
import pytest

from dashboard.conftest import client_of
from unstale import Mirror
from unstale.cli import main
from unstale.dashboard.api import models
from unstale.mirror.additions import Added
from unstale.mirror.clock import RealClock
from unstale.mirror.config.file import load
from unstale.mirror.json_values import NOT_TOLD, as_json
from unstale.mirror.reports.audit import Audit
from unstale.mirror.reports.explain import Explanation
from unstale.mirror.reports.first_copies import FirstCopies, InReserve
from unstale.mirror.reports.status import Budgets, GroupStatus, Neglected, Status
from unstale.mirror.reports.what_if import WhatIf
from unstale.mirror.source import New
from unstale.mirror.store.contract import Element, PollRecord, Sample, Version
from unstale.policy.knowledge import Share

DESCRIBED = {
    Added: models.Added, Audit: models.Audit, Budgets: models.Budgets, Element: models.Element,
    Explanation: models.Explanation, GroupStatus: models.GroupStatus, Neglected: models.Neglected,
    PollRecord: models.Poll, Sample: models.Sample, Share: models.Interval, Status: models.Status,
    Version: models.Version, WhatIf: models.WhatIf, FirstCopies: models.FirstCopies,
    InReserve: models.InReserve,
}  # fmt: skip
"""How the API describes each value."""
ELSEWHERE = {
    Element: NOT_TOLD,
    Sample: {"low", "high"},
    WhatIf: {"budgets", "optimal", "uniform", "proportional"},
}
"""Fields that are not members of the JSON: secrets, and what is a part of another member."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return the folder of a mirror of two files, one of which has changed, and a third that never was."""
    folder = tmp_path_factory.mktemp("one")
    (folder / "mirror.toml").write_text('[mirror]\nbudget = "100/s"\n')
    news = folder / "news.txt"
    news.write_text("one\ntwo\n")
    (folder / "about.txt").write_text("about\n")
    config = load(folder / "mirror.toml")
    with Mirror(config.store, settings=config.settings, copies=config.copies) as mirror:
        for name in ("news", "about", "nothing"):
            mirror.add(str(folder / f"{name}.txt"))
        mirror.step()
        while len(mirror.changes()) < 3:
            news.write_text(f"one\n{len(mirror.polls())}\n")
            mirror.hint([str(news)])
            mirror.step()
        mirror.audit(5)
        mirror.set_budget(50.0)
        now = mirror.clock.now()
        with mirror.store.begin() as t:
            t.sample(Sample(now - 60, 0.5, 0.4, 0.6, math.nan, 0.7, 0.1, 3, 0, 99, {"true": math.nan}))
    return folder, now


@pytest.fixture
def folder(made, monkeypatch):
    """Return the folder, as the one where commands work; time stands still, so that all see the same."""
    folder, now = made
    monkeypatch.chdir(folder)
    monkeypatch.setattr(RealClock, "now", lambda _: now)
    return folder


@pytest.fixture
def mirror(folder):
    config = load(folder / "mirror.toml")
    with Mirror(config.store, settings=config.settings, copies=config.copies) as mirror:
        yield mirror


@pytest.fixture
def api(mirror):
    """Return what asks the API."""
    with client_of(mirror.store.url, mirror.settings) as client:

        def ask(path):
            answer = client.get(path)
            assert answer.status_code == 200, answer.text
            return strict(answer.text)

        yield ask


@pytest.fixture
def command(capsys):
    """Return what runs a command, and returns what it prints."""

    def run(*arguments):
        capsys.readouterr()
        assert main([*map(str, arguments), "--json"]) == 0
        return capsys.readouterr().out

    return run


def strict(text):
    """Read JSON as the standard has it."""
    return json.loads(text, parse_constant=pytest.fail)


def through_text(value):
    return strict(json.dumps(value, allow_nan=False))


def insist_on_members(model, told):
    """Insist that an answer has the members that its description has, all of them and no other."""
    same_members(model.model_validate(told).model_dump(mode="json"), told)


def same_members(described, told):
    assert type(described) is type(told) or {type(described), type(told)} == {int, float}
    if isinstance(told, dict):
        assert described.keys() == told.keys()
        for name, entry in told.items():
            same_members(described[name], entry)
    elif isinstance(told, list):
        for one, other in zip(described, told, strict=True):
            same_members(one, other)


def test_status(folder, mirror, api, command):
    expected = through_text(mirror.status().to_json())
    assert api("/api/status") == expected
    assert strict(command("status")) == expected
    assert expected["audit"] == through_text(mirror.audits()[-1].to_json())
    assert expected["instead_of"] == {"budget": 100.0, "byte_budget": None}
    assert [one["key"] for one in expected["neglected"]] == [str(folder / "nothing.txt")]
    insist_on_members(models.Status, expected)


def test_status_in_short(mirror, api, command):
    expected = through_text(mirror.status().to_json(0))
    assert api("/api/status?top=0") == strict(command("status", "--top", 0)) == expected
    assert (expected["groups"], expected["neglected"], expected["group_count"]) == ([], [], 1)
    groups = api("/api/groups")
    assert groups == {"groups": through_text(as_json(mirror.status().groups)), "total": 1}
    insist_on_members(models.GroupList, groups)


@pytest.mark.parametrize("name", ["news", "about", "nothing"])
def test_explanation(folder, mirror, api, command, name):
    key = str(folder / f"{name}.txt")
    expected = through_text(mirror.explain(key).to_json())
    assert api(f"/api/elements/{mirror.find(key).id}") == expected
    assert strict(command("explain", key)) == expected
    assert expected["polls"]
    assert bool(expected["versions"]) == (expected["fresh"] is not None) == (name != "nothing")
    insist_on_members(models.Explanation, expected)
    short = through_text(mirror.explain(key).to_json(1))
    assert len(short["polls"]) == 1
    assert api(f"/api/elements/{mirror.find(key).id}?polls=1") == short
    assert strict(command("explain", key, "--polls", 1)) == short


def test_elements(mirror, api):
    told = api("/api/elements")
    insist_on_members(models.ElementPage, told)
    for one, element in zip(told["elements"], mirror.page()[0], strict=True):
        explained = mirror.explain(element.key)
        assert one.pop("fresh") == (None if element.version is None else pytest.approx(explained.fresh))
        assert one.pop("rate") == pytest.approx(explained.rate)
        assert one == through_text(as_json(element)) == through_text(explained.to_json())["element"]


def test_changes_and_versions(folder, mirror, api, command):
    expected = through_text(as_json(mirror.changes()))
    assert api("/api/changes") == {"changes": expected, "next": expected[-1]["id"]}
    assert [strict(line) for line in command("changes").splitlines()] == expected
    insist_on_members(models.Changes, api("/api/changes"))
    key = str(folder / "news.txt")
    versions = [one for one in reversed(expected) if one["key"] == key]
    assert api(f"/api/elements/{mirror.find(key).id}/versions") == {"versions": versions}
    shown = strict(command("show", key))
    assert shown == {**versions[0], "text": (folder / "news.txt").read_text()}
    difference = api(f"/api/elements/{mirror.find(key).id}/difference")
    assert (difference["old"], difference["new"]) == (versions[1], versions[0])
    assert strict(command("show", key, "--diff")) == difference
    insist_on_members(models.Difference, difference)


def test_samples(mirror, api):
    told = api("/api/samples")
    assert told == {"samples": through_text(as_json(mirror.samples()))}
    assert told["samples"][0]["freshness"] == {"value": 0.5, "low": 0.4, "high": 0.6}
    assert (told["samples"][0]["age"], told["samples"][0]["beside"]) == (None, {"true": None})
    insist_on_members(models.Samples, told)


@pytest.mark.parametrize("objective", ["freshness", "age"])
def test_what_if(mirror, api, objective):
    told = api(f"/api/what-if?objective={objective}")
    assert told == through_text(mirror.what_if(objective=objective).to_json())
    assert len(told["points"]) == 41
    insist_on_members(models.WhatIf, told)


def test_audit(made, monkeypatch, command):
    folder, _ = made
    monkeypatch.chdir(folder)  # time goes on: polls are made
    told = strict(command("audit", "--sample", 2))
    config = load(folder / "mirror.toml")
    with ExitStack() as stack:
        mirror = stack.enter_context(Mirror(config.store, settings=config.settings, copies=config.copies))
        client = stack.enter_context(client_of(mirror.store.url, mirror.settings))
        assert told == through_text(mirror.audits()[-1].to_json())
        assert told == client.get("/api/status").json()["audit"]
    insist_on_members(models.Audit, told)


def test_every_field_of_every_value_has_its_member(mirror):
    found = {}

    def collect(value):
        if is_dataclass(value):
            found.setdefault(type(value), value)
            for field in fields(value):
                collect(getattr(value, field.name))
        elif isinstance(value, list | tuple):
            for entry in value:
                collect(entry)

    explanations = [mirror.explain(element.key) for element in mirror.elements()]
    added = mirror.add_many([New("no such thing")])
    collect(
        [mirror.status(), explanations, mirror.samples(), mirror.what_if(), added, FirstCopies(1, 2, 3.0)]
    )
    assert found.keys() == DESCRIBED.keys()
    for kind, value in found.items():
        told = through_text(as_json(value))
        names = {field.name for field in fields(kind)}
        assert names - told.keys() == ELSEWHERE.get(kind, set()), kind
        insist_on_members(DESCRIBED[kind], told)


def test_what_has_no_json_is_an_error():
    assert as_json({1: np.array([1.0, np.inf]), "n": np.int64(3), "t": (True, None)}) == {
        "1": [1.0, None], "n": 3, "t": [True, None]
    }  # fmt: skip
    with pytest.raises(TypeError, match="a set has no JSON"):
        as_json({1, 2})
