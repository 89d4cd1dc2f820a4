"""Decoders: whole, in pieces, cut and broken."""

import gzip
import zlib
from contextlib import suppress

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from unstale.mirror.sources.http.decode import BodyTooLarge, UndecodableBody, accepted, decoder

CODINGS = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": lambda body: brotli.compress(body, quality=4),
    "zstd": zstandard.compress,
}


def decoded(coding, pieces, most=10**8):
    out = []

    def check(made):
        if made > most:
            raise BodyTooLarge

    decoding = decoder(coding, out.append, check)
    for piece in pieces:
        decoding.feed(piece)
    decoding.end()
    return b"".join(out)


@given(
    st.lists(st.sampled_from(sorted(CODINGS)), min_size=1, max_size=3),
    st.binary(max_size=200).flatmap(lambda unit: st.integers(0, 3000).map(lambda n: unit * n)),
    st.integers(1, 70_000),
)
def test_what_was_coded_is_decoded_whatever_the_pieces(codings, body, step):
    data = body
    for coding in codings:
        data = CODINGS[coding](data)
    pieces = [data[i : i + step] for i in range(0, len(data), step)] if len(data) / step < 5000 else [data]
    assert decoded(", ".join(codings), pieces) == body


@given(st.sampled_from(sorted(CODINGS)), st.binary(min_size=1, max_size=500), st.data())
def test_what_is_cut_is_noticed(coding, body, data):
    coded = CODINGS[coding](body)
    end = data.draw(st.integers(1, len(coded) - 1))
    with pytest.raises(UndecodableBody):
        decoded(coding, [coded[:end]])


@given(st.sampled_from([*sorted(CODINGS), "gzip, br", "zstd, zstd"]), st.lists(st.binary(max_size=100)))
def test_garbage_is_broken_or_content(coding, pieces):
    with suppress(UndecodableBody, BodyTooLarge):
        decoded(coding, pieces, most=10**7)


@pytest.mark.parametrize("coding", sorted(CODINGS))
def test_no_block_is_much_larger_than_it_must_be(coding):
    largest = 0

    def sink(block):
        nonlocal largest
        largest = max(largest, len(block))

    decoding = decoder(coding, sink, lambda _: None)
    decoding.feed(CODINGS[coding](bytes(20 << 20)))
    decoding.end()
    assert 0 < largest <= 9 << 20


def test_only_what_can_be_decoded_is_asked_for():
    assert accepted() == "gzip, deflate, br, zstd"
    for coding in accepted().split(", "):
        assert decoder(coding, lambda _: None, lambda _: None) is not None
    assert decoder("identity, ", lambda _: None, lambda _: None) is None
    with pytest.raises(UndecodableBody):
        decoder("compress", lambda _: None, lambda _: None)


def test_output_that_is_still_to_come_when_all_input_is_in():
    """Deflate without a header has no end mark of its own after its last bits."""
    for size in range(65536 - 300, 65536 + 300):
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        body = bytes(size)
        assert decoded("deflate", [packer.compress(body) + packer.flush()]) == body
