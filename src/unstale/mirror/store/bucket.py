"""A bucket of an object store with copies: S3 and what speaks like it, Google Cloud Storage, Azure.

An object is there whole when a PUT has been answered, or not at all. Who may use the bucket is said by the
variables of the environment that each provider's tools go by, and never by mirror.toml.
"""

from __future__ import annotations

import io
import os
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import urlsplit

from unstale.errors import InvalidInput, Trouble, need

from .copy_place import CopyPlace, Stored, names_of

if TYPE_CHECKING:
    from obstore.store import ObjectStore

BUCKET_SCHEMES = ("s3", "gs", "az")
"""Of addresses of buckets."""
_AT_ONCE = 32
"""Objects that are asked for at the same time."""
_LISTED_AT_ONCE = 1000
_READ_AT_ONCE = 1 << 20
_CLIENT = {"timeout": "60s", "connect_timeout": "10s", "pool_idle_timeout": "30s"}
_RETRIES = {"max_retries": 4, "retry_timeout": timedelta(seconds=60)}


class Bucket:
    """A bucket, or what is below a prefix in it: ``s3://bucket/prefix``."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        if parts.scheme not in BUCKET_SCHEMES or not parts.hostname:
            known = ", ".join(f"{scheme}://" for scheme in BUCKET_SCHEMES)
            raise InvalidInput(f"copies must be a folder or a bucket ({known}...); it is {address!r}")
        if parts.username or parts.password or parts.query:
            raise InvalidInput(
                "copies must be the address of a bucket alone, such as s3://bucket/prefix; secrets are taken "
                "from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL and so on)"
            )
        self.url = address.rstrip("/")
        self.address, self.is_near = f"the bucket {self.url}", False
        self._made: tuple[ObjectStore, Path] | None = None
        self._pool: ThreadPoolExecutor | None = None

    @property
    def _store(self) -> ObjectStore:
        return self._opened()[0]

    @property
    def scratch(self) -> Path:
        """A folder of this machine for what is on its way to be a copy."""
        return self._opened()[1]

    @property
    def own_files(self) -> tuple[Path, ...]:
        """Folders of this machine that must not be mirrored."""
        return (self.scratch,)

    def _opened(self) -> tuple[ObjectStore, Path]:
        if self._made is None:
            store = need("obstore.store", extra="buckets", needed_for="copies in object storage")
            plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
            options: dict[str, Any] = {**_CLIENT, "allow_http": plain}
            try:
                made = store.from_url(self.url, client_options=options, retry_config=_RETRIES)
            except (ValueError, OSError) as error:
                raise InvalidInput(f"copies cannot be in {self.url!r}: {_line(error)}") from error
            folder = Path(tempfile.mkdtemp(prefix="unstale-copies-"))
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self._made = made, folder
        return self._made

    def find(self, digest: str) -> Stored | None:
        """Return the copy with a digest, if there is one."""
        with self.troubles():
            for name in names_of(digest):
                try:
                    found = self._store.head(name)
                except FileNotFoundError:
                    continue
                return Stored(name, found["size"], found["last_modified"].timestamp())
        return None

    def find_all(self, digests: list[str]) -> set[str]:
        """Return those digests of which there is a copy."""
        found = self._threads.map(self.find, digests)
        return {digest for digest, one in zip(digests, found, strict=True) if one is not None}

    @property
    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="unstale-bucket")
            weakref.finalize(self, self._pool.shutdown, wait=False)
        return self._pool

    def put(self, name: str, content: bytes | Path) -> None:
        """Keep content under a name; a file of ``scratch`` is taken over."""
        with self.troubles():
            self._store.put(name, content)  # a large file in parts
        if isinstance(content, Path):
            content.unlink(missing_ok=True)

    def renew(self, stored: Stored, verify: Callable[[], None]) -> bool:  # noqa: ARG002
        """Make a copy that is there count as put now, if it is whole; False: put it again."""
        return False  # to put it again costs less than to read it

    def open(self, name: str) -> BinaryIO:
        """Return what is stored under a name, as a stream."""
        with self.troubles():
            size = self._store.head(name)["size"]
        return io.BufferedReader(_Object(self, name, size), _READ_AT_ONCE)

    def part(self, name: str, start: int, length: int) -> bytes:
        """Return some bytes of an object."""
        with self.troubles():
            return bytes(self._store.get_range(name, start=start, length=length))

    def sign(self, name: str, seconds: float) -> str:
        """Return an address from which what is stored under a name can be had for so many seconds."""
        import obstore

        store: Any = self._store  # of a provider that can
        with self.troubles():
            return str(obstore.sign(store, "GET", name, timedelta(seconds=seconds)))

    def delete(self, name: str) -> None:
        """Delete what is there under a name, if anything is."""
        with self.troubles():
            self._store.delete(name)

    def copy_from(self, other: CopyPlace, names: Sequence[str]) -> None:
        """Have what another place in the same bucket has under these names; the provider copies it."""
        assert isinstance(other, Bucket)  # noqa: S101  (cells are all in folders, or all in buckets)
        (root, there), (_, here) = other.split(), self.split()
        whole = Bucket(root)

        def copy(name: str) -> None:
            with suppress(FileNotFoundError):
                whole._store.copy(f"{there}/{name}", f"{here}/{name}")

        with self.troubles():
            for _ in self._threads.map(copy, names):
                pass

    def split(self) -> tuple[str, str]:
        """Return the address of the bucket itself, and the prefix in it."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}", parts.path.strip("/")

    def listed(self) -> Iterator[list[Stored]]:
        """Return all that is there, some at a time."""
        yield from self.listed_in("")

    def listed_in(self, folder: str) -> Iterator[list[Stored]]:
        """Return what is there in a folder beside the copies, some at a time."""
        with self.troubles():
            begun = set[str]()
            for some in self._store.list(folder or None, chunk_size=_LISTED_AT_ONCE):
                first = some[0]["path"] if some else ""
                if first in begun:
                    raise Trouble(f"{self.address}: its list does not end, {first[:100]!r} comes again")
                begun.add(first)
                yield [Stored(one["path"], one["size"], one["last_modified"].timestamp()) for one in some]

    def note(self, name: str) -> str | None:
        """Return a short text that was kept beside the copies."""
        with self.troubles():
            try:
                return bytes(self._store.get(name).bytes()).decode("ascii", "replace")
            except FileNotFoundError:
                return None

    def keep_note(self, name: str, text: str) -> None:
        """Keep a short text beside the copies; a reader sees all of it or none meanwhile."""
        from obstore.exceptions import AlreadyExistsError, NotSupportedError

        with self.troubles():
            try:
                self._store.put(name, text.encode("ascii"), mode="create")
            except AlreadyExistsError as error:
                raise Trouble(f"{self.address}: another mirror has begun to use it just now") from error
            except NotSupportedError:  # a store without conditional PUTs
                self._store.put(name, text.encode("ascii"))

    def try_out(self) -> str:
        """Put, read and delete a small object; return how that went, or raise `Trouble`."""
        name = f"scratch/try-{secrets.token_hex(8)}"
        with self.troubles():
            self._store.put(name, b"unstale")
            read = bytes(self._store.get(name).bytes())
            self._store.delete(name)
        if read != b"unstale":
            raise Trouble(f"{self.address}: what was put is not what is read")
        return f"{self.address}: an object was put, read and deleted"

    @contextmanager
    def troubles(self) -> Iterator[None]:
        """Turn errors of the place into one clear line."""
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        try:
            yield
        except (PermissionDeniedError, UnauthenticatedError) as error:
            todo = "set credentials in the environment that may read, write, list and delete"
            raise Trouble(f"{self.address}: it may not be used ({_line(error)}); {todo}") from error
        except (BaseError, OSError) as error:
            if isinstance(error, FileNotFoundError | Trouble):
                raise
            raise Trouble(f"{self.address}: {_line(error)}; see to it that it can be reached") from error


class _Object(io.RawIOBase):
    """An object as a stream that is read part by part."""

    def __init__(self, bucket: Bucket, name: str, size: int) -> None:
        self._bucket, self._name, self._size, self._at = bucket, name, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence], 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def readall(self) -> bytes:
        """Read the rest, in large parts: by itself it would be eight kilobytes in each request."""
        parts = []
        while part := self.read(_READ_AT_ONCE):
            parts.append(part)
        return b"".join(parts)

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401
        length = min(len(buffer), self._size - self._at)
        if length <= 0:
            return 0
        found = self._bucket.part(self._name, self._at, length)
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)


def _line(error: BaseException) -> str:
    """Return what an error says in one line, without what it prints for developers."""
    text = str(error).split("\n\nDebug source:")[0]
    return " ".join(text.split())[:300] or type(error).__name__
