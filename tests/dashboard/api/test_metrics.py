"""Metrics for Prometheus, and health."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dashboard.conftest import HOSTILE
from unstale.dashboard.api import metrics
from unstale.errors import Trouble

TOKEN = "a-token-that-nobody-guesses"  # noqa: S105


def told(client):
    """Return what Prometheus reads."""
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_what_is_told(ask):
    found = told(ask())
    assert 0.5 < found["unstale_freshness", ()] <= 1.0
    assert found["unstale_freshness_low", ()] <= found["unstale_freshness", ()]
    assert found["unstale_budget_polls_per_second", ()] == 1000.0
    assert ("unstale_budget_bytes_per_second", ()) not in found
    assert found["unstale_elements", (("state", "ok"),)] == 2
    assert found["unstale_polls_last_day", (("outcome", "new"),)] == 2
    assert found["unstale_running", ()] == 0
    for name in ("freshness_high", "age_seconds", "price", "spent_polls_per_second", "overdue", "workers"):
        assert (f"unstale_{name}", ()) in found


def test_polls_are_counted_and_never_fall(ask, mirror, web):
    client = ask(own=True)
    assert not [name for name, _ in told(client) if name == "unstale_polls_total"]
    labels = lambda outcome: (("group", "python"), ("outcome", outcome))  # noqa: E731
    web.pages["news"] = "another"
    mirror.step()
    found = told(client)
    assert found["unstale_polls_total", labels("changed")] == 1
    assert found["unstale_polls_total", labels("unchanged")] == 1
    assert told(client)["unstale_polls_total", labels("changed")] == 1
    mirror.step()
    assert told(client)["unstale_polls_total", labels("unchanged")] == 3
    assert ("unstale_traffic_bytes_total", ()) in told(client)


def test_too_many_groups_are_one(ask, mirror, monkeypatch):
    monkeypatch.setattr(metrics, "_MOST_GROUPS", 2)
    client = ask(own=True)
    told(client)
    for i in range(5):
        mirror.add(f"python:{i}", poll=lambda: "x", group=f"group {i}")
    mirror.step()
    found = {labels: value for (name, labels), value in told(client).items() if name == "unstale_polls_total"}
    assert len({dict(labels)["group"] for labels in found}) == 3
    assert sum(found.values()) == 7
    assert sum(value for labels, value in found.items() if dict(labels)["group"] == "other") >= 3


def test_names_of_groups_break_nothing(ask, mirror):
    client = ask(own=True)
    told(client)
    mirror.add("python:odd", poll=lambda: "x", group=HOSTILE)
    mirror.step()
    assert any(dict(labels).get("group") == HOSTILE for _, labels in told(client))


def test_openmetrics_if_it_is_asked_for(ask):
    answer = ask().get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "version", ["a", "1.a", "", "0.0.1;version=x", "9" * 5000, ";;=", "1.0.0;escaping=x"]
)
def test_versions_that_are_none_are_not_minded(ask, version):
    for kind in ("application/openmetrics-text", "text/plain"):
        answer = ask().get("/metrics", headers={"accept": f"{kind};version={version}"})
        assert answer.status_code == 200
        assert "unstale_freshness" in answer.text


def test_health(ask):
    client = ask()
    assert client.get("/healthz").json() == {"status": "ok", "running": False, "detail": ""}
    idle = client.get("/healthz?running=true")
    assert idle.status_code == 503
    assert idle.json()["detail"] == "nobody is polling; start with: unstale run"


def test_health_when_somebody_polls(ask, mirror):
    with mirror.store.begin() as t:
        t.alive("elsewhere:1", mirror.clock.now(), mirror.clock.now() + 60)
    answer = ask().get("/healthz?running=true")
    assert (answer.status_code, answer.json()["running"]) == (200, True)


def test_a_store_in_trouble_is_not_healthy(ask, monkeypatch):
    def fails(_):
        raise Trouble("the disk is full")

    monkeypatch.setattr(metrics, "_runs", fails)
    answer = ask().get("/healthz")
    assert (answer.status_code, answer.json()["detail"]) == (503, "the disk is full")


def test_why_a_store_is_in_trouble_is_not_for_everybody(ask, monkeypatch):
    def fails(_):
        raise Trouble("/srv/secret/mirror.db is locked")

    monkeypatch.setattr(metrics, "_runs", fails)
    client = ask(token=TOKEN)
    answer = client.get("/healthz")
    assert (answer.status_code, "/srv" in answer.text) == (503, False)
    assert "show the token" in answer.json()["detail"]
    shown = client.get("/healthz", headers={"authorization": f"Bearer {TOKEN}"})
    assert shown.json()["detail"] == "/srv/secret/mirror.db is locked"
