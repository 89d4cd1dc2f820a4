"""Who reads a copy: names, hashes, and nothing at all."""

from dataclasses import replace

import pytest

from dashboard.conftest import client_of
from unstale.mirror.settings import Reads


def readers(mirror, users, **request):
    settings = replace(mirror.settings, reads=Reads(users=users))
    with client_of(mirror.store.url, settings) as client:
        if "cookies" in request:
            client.cookies.update(request.pop("cookies"))
        assert client.get("/copies/python:news", **request).status_code == 200
    with mirror.store.begin() as t:
        return [(user, count) for user, _, _, count in t.reads_by_user(0.0)]


def test_a_plain_name_is_kept(mirror):
    assert readers(mirror, "header:X-User", headers={"X-User": "billing"}) == [("billing", 1)]


@pytest.mark.parametrize("address", ["ann@example.org", "192.0.2.7", "2001:db8::1", "Ann Smith"])
def test_what_may_be_the_address_of_a_person_is_hashed(mirror, address):
    ((name, _),) = readers(mirror, "header:X-User", headers={"X-User": address})
    assert name.startswith("#")
    assert address not in name
    ((again, count),) = readers(mirror, "header:X-User", headers={"X-User": address})
    assert (again, count) == (name, 2)


def test_a_cookie_is_hashed(mirror):
    ((name, _),) = readers(mirror, "cookie:session", cookies={"session": "abcdef"})
    assert name.startswith("#")


def test_the_name_that_comes_with_the_token_is_kept(mirror):
    assert readers(mirror, "token", auth=("billing", "the token itself")) == [("billing", 1)]
    ((name, _), *_) = readers(mirror, "token", auth=("ann@example.org", "the token itself"))
    assert name.startswith("#")


@pytest.mark.parametrize("wrong", ["Bearer abc", "Basic ???", "Basic YQ==", "Basic", "Basic /w=="])
def test_a_token_without_a_name_is_nobody(mirror, wrong):
    assert readers(mirror, "token", headers={"Authorization": wrong}) == []


def test_without_a_name_or_a_setting_nobody_is_kept(mirror):
    assert readers(mirror, "header:X-User") == []
    assert readers(mirror, "no", headers={"X-User": "billing"}) == []


def test_invented_names_do_not_fill_the_store(mirror, monkeypatch):
    """Each name was a row of the store, without bound; more are reads of nobody."""
    monkeypatch.setattr("unstale.dashboard.mirror_gateway.MOST_USER_READS_AN_HOUR", 3)
    settings = replace(mirror.settings, reads=Reads(users="header:X-User"))
    with client_of(mirror.store.url, settings) as client:
        for i in range(10):
            assert client.get("/copies/python:news", headers={"X-User": f"user-{i}"}).status_code == 200
    with mirror.store.begin() as t:
        assert 0 < len(t.reads_by_user(0.0)) <= 6  # three in each hour, and it may have struck meanwhile
        assert sum(count for _, _, count in t.reads(0.0)) == 10
