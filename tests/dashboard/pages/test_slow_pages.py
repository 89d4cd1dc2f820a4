"""Pages that take long to compute: nobody looks at an empty window meanwhile."""

import threading

import pytest

from dashboard.conftest import TestClient
from dashboard.pages.test_pages import checked
from unstale.dashboard import mirror_gateway
from unstale.dashboard.access_rules import AccessRules
from unstale.dashboard.app import create_app
from unstale.dashboard.mirror_gateway import MirrorGateway
from unstale.mirror.mirror import Mirror

BROWSER = {"Accept": "text/html,application/xhtml+xml"}


@pytest.fixture
def ready(monkeypatch):
    """The first look at the mirror ends when this is set."""
    set_later, look = threading.Event(), mirror_gateway._view

    def slow(mirror):
        assert set_later.wait(60)
        return look(mirror)

    monkeypatch.setattr(mirror_gateway, "_view", slow)
    return set_later


def test_a_browser_soon_gets_a_page_that_comes_again_by_itself(tmp_path, ready):
    gateway = MirrorGateway(Mirror(tmp_path / "mirror.db"), patience=0.02)
    with TestClient(create_app(gateway, AccessRules()), base_url="http://127.0.0.1") as client:
        for address in ("/", "/?span=week", "/what-if", "/elements"):
            for _ in range(2):
                answer = client.get(address, headers=BROWSER)
                assert '<meta http-equiv="refresh" content="1">' in answer.text
                assert "One moment" in checked(answer).text
        ready.set()
        assert "<h1>Overview</h1>" in client.get("/").text  # a program waits, and is told nothing else
        for address, title in (("/", "Overview"), ("/what-if", "What if"), ("/elements", "Elements")):
            page = client.get(address, headers=BROWSER)
            while "One moment" in page.text:
                page = client.get(address, headers=BROWSER)
            assert f"<h1>{title}</h1>" in page.text


def test_what_is_wrong_is_told_as_ever(tmp_path):
    gateway = MirrorGateway(Mirror(tmp_path / "mirror.db"), patience=60.0)
    with TestClient(create_app(gateway, AccessRules()), base_url="http://127.0.0.1") as client:
        assert client.get("/elements/7", headers=BROWSER).status_code == 404
        assert client.get("/?span=eon", headers=BROWSER).status_code == 404
        assert client.get("/what-if?budget=much", headers=BROWSER).status_code in {200, 422}


def test_pages_that_nobody_comes_again_for_are_few_and_forgotten(tmp_path, ready, monkeypatch):
    from unstale.dashboard.pages import slow_pages

    monkeypatch.setattr(slow_pages, "_MOST_PAGES", 2)
    monkeypatch.setattr(slow_pages, "_KEPT_SECONDS", 0.0)
    gateway = MirrorGateway(Mirror(tmp_path / "mirror.db"), patience=0.02)
    with TestClient(create_app(gateway, AccessRules()), base_url="http://127.0.0.1") as client:
        for span in ("hour", "day"):
            assert "One moment" in client.get(f"/?span={span}", headers=BROWSER).text
        threading.Timer(0.2, ready.set).start()
        assert "<h1>Overview</h1>" in client.get("/?span=week", headers=BROWSER).text  # it waits for its page
