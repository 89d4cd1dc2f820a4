"""Copies that are damaged from outside are found, and come back with the next poll."""

import pytest

from unstale import InvalidInput
from unstale.mirror.engine import housekeeper

from .worlds import DAY, add, events_of, make, run


def damage(mirror, key):
    """Spoil the copy of an element."""
    path = mirror.copies.place.path(mirror.read(key).version.digest)
    path.write_bytes(b"x" + path.read_bytes()[1:])


def digests(mirror):
    return [mirror.read(element.key).version.digest for element in mirror.elements()]


@pytest.fixture
def mirror(tmp_path):
    mirror, _ = make(
        tmp_path, tidy_every=600.0, content={f"python:a/{i}": f"content {i} ".encode() * 50 for i in range(6)}
    )
    with mirror:
        add(mirror, *(f"a/{i}" for i in range(6)))
        run(mirror, DAY)
        yield mirror


def test_a_damaged_copy_is_found_told_and_replaced_by_the_next_poll(mirror):
    damage(mirror, "python:a/3")
    with pytest.raises(InvalidInput, match=r"is damaged.*doctor --deep"):
        mirror.read("python:a/3")
    told = [event.detail for event in events_of(mirror, DAY) if event.kind == "trouble"]
    assert len(told) == 1
    assert "1 copy is damaged" in told[0]
    assert mirror.read("python:a/3").body == b"content 3 " * 50
    assert mirror.copies.check(digests(mirror)) == []


def test_only_so_much_is_read_at_a_time_and_all_in_the_end(mirror, monkeypatch):
    monkeypatch.setattr(housekeeper, "_VERIFIED_BYTES", 1)
    read = []
    is_damaged = mirror.copies.is_damaged
    monkeypatch.setattr(mirror.copies, "is_damaged", lambda digest: read.append(digest) or is_damaged(digest))
    run(mirror, 7000.0)
    order = digests(mirror)
    assert len(read) > 6
    assert read == [order[k % 6] for k in range(len(read))]  # one at a time, then from the beginning again


def test_what_a_process_has_put_a_moment_ago_is_read_again_if_there_is_doubt(tmp_path):
    from unstale.mirror.store.copies import Copies

    copies = Copies(tmp_path / "copies")
    digest, _ = copies.put(b"content")
    copies.place.path(digest).write_bytes(b"other")
    copies.put(b"content")  # it was whole a moment ago, and is believed
    assert copies.is_damaged(digest)
    copies._sure.add(digest)
    copies.put(b"content", doubt=True)
    assert not copies.is_damaged(digest)
    assert copies.read(digest) == b"content"
