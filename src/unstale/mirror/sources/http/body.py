"""The body of a response: counted as it arrives, in memory while it is small, in a file once it is large."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any

from unstale.errors import Trouble

from .decode import BodyTooLarge

WIRE_SLACK_BYTES = 1 << 16
"""A response may have this many bytes more on the wire than it decodes to."""
_MAX_BYTES_IN_MEMORY = 1 << 20
"""A larger body goes to a file."""
_UNCHECKED_RATIO_BYTES = 1 << 20
"""Up to this many decoded bytes the ratio of compression is not checked."""


class BodyTruncated(Exception):  # noqa: N818
    """The body is cut here; what follows is not read."""


@dataclass(slots=True)
class ResponseBody:
    """The decoded body of a response."""

    max_size: int
    max_ratio: float
    scratch: Path
    size: int = 0
    wire: int = 0
    cut: bool = False
    """Whether a body that is too large is cut, instead of being a failure."""
    _blocks: list[bytes] = field(default_factory=list)
    _buffered: int = 0
    _file: IO[bytes] | None = None
    _digest: Any = None
    _gone: bool = False

    def add(self, block: bytes) -> None:
        """Add a decoded block; raise `BodyTooLarge`, or `BodyTruncated` if the body is cut here."""
        room = self.max_size - self.size
        if len(block) > room and not self.cut:
            raise BodyTooLarge(f"larger than {self.max_size:,} bytes")
        self.size += len(block[:room])
        self._blocks.append(block[:room])
        self._buffered += len(block[:room])
        if len(block) > room:
            raise BodyTruncated

    def check(self, made: int) -> None:
        """Raise `BodyTooLarge` if a decoder has made too many bytes from those that arrived."""
        if made > self.max_size and not self.cut:
            raise BodyTooLarge(f"larger than {self.max_size:,} bytes after decompression")
        if made > _UNCHECKED_RATIO_BYTES and made > self.max_ratio * self.wire:
            raise BodyTooLarge(f"a decompression bomb: {self.wire:,} bytes became more than {made:,}")

    def came(self, n: int) -> None:
        """Count bytes that arrived over the wire."""
        self.wire += n
        if self.wire > self.max_size + WIRE_SLACK_BYTES:  # also if all of it decodes to nothing
            if self.cut:
                raise BodyTruncated
            raise BodyTooLarge(f"larger than {self.max_size:,} bytes")

    @property
    def full(self) -> bool:
        """Whether there is so much in memory that the caller should `spill` it."""
        return self._buffered > _MAX_BYTES_IN_MEMORY

    def spill(self) -> None:
        """Write what is in memory to the file. This blocks; raise `Trouble` if the file cannot be written."""
        try:
            self._spill()
        except OSError as error:
            raise Trouble(f"the folder {str(self.scratch)!r}: {error.strerror or error}") from error

    def _spill(self) -> None:
        if self._file is None:
            self._file = NamedTemporaryFile(dir=self.scratch, prefix="page-", delete=False)  # noqa: SIM115
            self._digest = sha256()
        for block in self._blocks:
            self._file.write(block)
            self._digest.update(block)
        self._blocks, self._buffered = [], 0
        if self._gone:  # the poll was given up while this thread wrote
            self.discard()

    def finish(self) -> bytes | Path:
        """Return the body, or the path of its file."""
        if self._file is None:
            return b"".join(self._blocks)
        self.spill()
        self._file.close()
        return Path(self._file.name)

    @property
    def large(self) -> bool:
        """Whether the body is in a file."""
        return self._file is not None

    def digest(self) -> str:
        """Return the SHA-256 of a body that is in a file."""
        return str(self._digest.hexdigest())

    def discard(self) -> None:
        """Remove the file, if there is one."""
        self._gone = True
        if self._file is not None:
            self._file.close()
            Path(self._file.name).unlink(missing_ok=True)
