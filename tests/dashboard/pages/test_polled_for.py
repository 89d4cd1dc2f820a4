"""Explanations and pages tell what mirror.toml says of how an element is polled."""

from mirror.engine.worlds import DAY, add, make, run

from dashboard.conftest import client_of
from unstale.mirror.settings import Composed, Reads, Rule

RULES = (Rule("python:a/*", target=0.9, jitter=0.1), Rule("python:b/*", objective="currency:6h"))
WORDS = {
    "a/0": {
        "target": "90.0% of python:a/* fresh, served first",
        "a part of": "report (weight 5), which is fresh if all of its parts are",
    },
    "b/0": {
        "objective": "currency:6h",
        "a part of": "report (weight 5), which is fresh if all of its parts are; "
        "data (weight 2), which is fresh if one of its parts is",
    },
    "c/0": {"objective": "age"},
}


def test_rules_and_parts(tmp_path):
    composed = (
        Composed("report", ("python:a/*", "python:b/*"), weight=5.0),
        Composed("data", ("python:b/*",), weight=2.0, needs="one"),
    )
    settings = {"rules": RULES, "composed": composed, "objective": "age", "order": "random"}
    mirror, _ = make(tmp_path, budget=10 / DAY, importance="links", reads=Reads(poll_share=0.1), **settings)
    with mirror:
        add(mirror, "a/0", "b/0", "c/0")
        run(mirror, 100.0)
        with client_of(mirror.store.url, mirror.settings) as client:
            for name, words in WORDS.items():
                found = mirror.explain(f"python:{name}")
                told = dict(found.polled_for)
                assert told.pop("order").startswith("random: ")
                assert told.pop("importance") == "times 1, by the links that lead to it"
                assert told.pop("on read").endswith("causes a poll at once, from 10.0% of the budget")
                assert told == words
                page = client.get(f"/elements/{found.element.id}").text
                for said in found.polled_for.values():
                    assert f"<dd>{said}</dd>" in page
                assert ("intervals vary by 10" in page) == (name == "a/0")


def test_a_mirror_for_freshness_says_nothing_and_hints_are_told(tmp_path):
    mirror, _ = make(tmp_path, budget=10 / DAY)
    with mirror:
        add(mirror, "a/0")
        run(mirror, 100.0)
        assert mirror.explain("python:a/0").polled_for == {}
        mirror.hint(["python:a/0"])
        run(mirror, 10.0)
        told = mirror.explain("python:a/0").polled_for
        assert list(told) == ["hints"]
        assert "% of its changes come with one, and " in told["hints"]
    mirror, _ = make(tmp_path, store=tmp_path / "other.db", policy="uniform", budget=10 / DAY)
    with mirror:
        add(mirror, "a/0")
        run(mirror, 100.0)
        assert mirror.explain("python:a/0").polled_for["policy"].startswith("uniform: the mirror polls all")
