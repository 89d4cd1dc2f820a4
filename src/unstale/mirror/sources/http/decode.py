"""Decoders for Content-Encoding that stop before the body becomes too large.

A compressed megabyte can hold a terabyte of zeros. So a decoder makes small blocks, and each block is counted
before the decoder makes the next one. The first block beyond the limit ends the decoding.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol

Sink = Callable[[bytes], None]

_BLOCK_BYTES = 65536
_GZIP_PIECE_BYTES = 4096
"""Compressed bytes that the decoder gets at once."""
_ZSTD_SLICE_BYTES = 256
"""Compressed bytes that the decoder gets at once: four can become 128 KiB, and the decoder has no limit."""
_ZSTD_WINDOW_BYTES = 8 << 20
"""RFC 8878 asks decoders to support this window, and RFC 9659 asks servers to use no larger one."""
_MAX_CODINGS = 3


class UndecodableBody(Exception):  # noqa: N818
    """The body does not follow its coding, or the coding is unknown; the message says which."""


class BodyTooLarge(Exception):  # noqa: N818
    """The body is larger than allowed; the message says how large."""


class Coding(Protocol):
    """Decodes one coding, and passes the result on."""

    def feed(self, data: bytes) -> None:
        """Decode more bytes; raise the error of the coding if they cannot be decoded."""

    def done(self) -> bool:
        """Tell whether the body may end here."""


class _Zlib:
    """Gzip, also of several members, and deflate, with and without its header."""

    def __init__(self, sink: Sink, *, gzip: bool) -> None:
        self._sink, self._gzip = sink, gzip
        self._inflate: Any = None
        self._first = b""
        self._over = False

    def feed(self, data: bytes) -> None:
        # A member that ends hands back all that it got beyond its end, so it gets little at a time.
        for start in range(0, len(data), _GZIP_PIECE_BYTES):
            self._feed(data[start : start + _GZIP_PIECE_BYTES])

    def _feed(self, data: bytes) -> None:
        more = bool(data)
        while more and not self._over:
            if self._inflate is None:
                data = self._begin(data)
                if self._inflate is None:
                    return
            out = self._inflate.decompress(data, _BLOCK_BYTES)
            if out:
                self._sink(out)
            if self._inflate.eof:
                data, self._inflate = self._inflate.unused_data, None
                # another member follows, or padding, which is ignored
                self._over = not self._gzip or (bool(data) and data[0] != 0x1F)
                more = bool(data)
            else:
                data = self._inflate.unconsumed_tail
                more = bool(data) or len(out) == _BLOCK_BYTES  # there may be output left without input

    def _begin(self, data: bytes) -> bytes:
        if self._gzip:
            self._inflate = zlib.decompressobj(wbits=31)
            return data
        data, self._first = self._first + data, b""
        if len(data) < 2:
            self._first = data
            return b""
        headed = data[0] & 15 == 8 and (data[0] << 8 | data[1]) % 31 == 0
        self._inflate = zlib.decompressobj(wbits=15 if headed else -15)
        return data

    def done(self) -> bool:
        return self._inflate is None and not self._first


class _Brotli:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._decoder = import_module("brotli").Decompressor()
        self._begun = False

    def feed(self, data: bytes) -> None:
        decoder = self._decoder
        if decoder.is_finished():
            return
        self._begun = True
        out = decoder.process(data, output_buffer_limit=_BLOCK_BYTES)
        while True:
            if out:
                self._sink(out)
            # The decoder may accept input while it still holds output that the limit cut off.
            if decoder.is_finished() or (len(out) < _BLOCK_BYTES and decoder.can_accept_more_data()):
                return
            out = decoder.process(b"", output_buffer_limit=_BLOCK_BYTES)

    def done(self) -> bool:
        return not self._begun or self._decoder.is_finished()


class _Zstd:
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._maker = import_module("zstandard").ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
        self._decoder: Any = None

    def feed(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            if self._decoder is None:
                self._decoder = self._maker.decompressobj()
            piece = data[at : at + _ZSTD_SLICE_BYTES]
            at += len(piece)
            out = self._decoder.decompress(piece)
            if out:
                self._sink(out)
            if self._decoder.eof:
                at -= len(self._decoder.unused_data)
                self._decoder = None

    def done(self) -> bool:
        return self._decoder is None


def _has(module: str, *names: str) -> bool:
    try:
        found = import_module(module)
    except ImportError:
        return False
    return all(hasattr(found, name) for name in names)


def _codings() -> dict[str, Callable[[Sink], Coding]]:
    def gzip(sink: Sink) -> Coding:
        return _Zlib(sink, gzip=True)

    def deflate(sink: Sink) -> Coding:
        return _Zlib(sink, gzip=False)

    codings: dict[str, Callable[[Sink], Coding]] = {"gzip": gzip, "x-gzip": gzip, "deflate": deflate}
    # An older brotli decodes all input at once, and cannot be stopped.
    if _has("brotli", "Decompressor") and hasattr(
        import_module("brotli").Decompressor, "can_accept_more_data"
    ):
        codings["br"] = _Brotli
    if _has("zstandard", "ZstdDecompressor"):
        codings["zstd"] = _Zstd
    return codings


_CODINGS = _codings()


def accepted() -> str:
    """Return the value of Accept-Encoding: the codings that can be decoded here.

    >>> accepted().startswith("gzip, deflate")
    True
    """
    return ", ".join(name for name in _CODINGS if name != "x-gzip")


def _errors() -> tuple[type[Exception], ...]:
    errors: list[type[Exception]] = [zlib.error]
    for coding, module, name in (("br", "brotli", "error"), ("zstd", "zstandard", "ZstdError")):
        if coding in _CODINGS:
            errors.append(getattr(import_module(module), name))
    return tuple(errors)


_ERRORS = _errors()


class Decoder:
    """Decodes a body that may have several codings."""

    def __init__(self, names: list[str], sink: Sink, check: Callable[[int], None]) -> None:
        self._name = ", ".join(names)
        self._stages: list[Coding] = []
        for name in names:  # listed in the order in which they were applied
            stage = _CODINGS[name](_counted(sink, check))
            self._stages.append(stage)
            sink = stage.feed
        self._feed = sink

    def feed(self, data: bytes) -> None:
        """Decode more bytes."""
        try:
            self._feed(data)
        except _ERRORS as error:
            raise UndecodableBody(f"the content is not {self._name}: {error}") from None

    def end(self) -> None:
        """Raise `UndecodableBody` if the body ends too early."""
        if not all(stage.done() for stage in self._stages):
            raise UndecodableBody(f"the content ends in the middle of its {self._name}")


def _counted(sink: Sink, check: Callable[[int], None]) -> Sink:
    """Check the output of each stage, since a stage between two others can be the bomb."""
    total = 0

    def count(data: bytes) -> None:
        nonlocal total
        total += len(data)
        check(total)
        sink(data)

    return count


def decoder(encoding: str, sink: Sink, check: Callable[[int], None]) -> Decoder | None:
    """Return the decoder of a Content-Encoding; None if there is none.

    Raise `UndecodableBody` if this coding is not known here. The decoder calls ``check`` with the number of
    bytes that a stage has made in all, before it hands them on; ``check`` raises `BodyTooLarge`.
    """
    names = [name for part in encoding.lower().split(",") if (name := part.strip()) not in {"", "identity"}]
    if not names:
        return None
    unknown = [name for name in names if name not in _CODINGS]
    if unknown:
        raise UndecodableBody(f"the content is encoded as {unknown[0][:40]!r}, which cannot be decoded here")
    if len(names) > _MAX_CODINGS:
        raise UndecodableBody(f"the content is encoded {len(names)} times")
    return Decoder(names, sink, check)
