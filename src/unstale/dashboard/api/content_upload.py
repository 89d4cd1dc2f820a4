"""Content that a fetcher hands over: it is read piece by piece, within bounds, into a file."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from unstale.mirror.store.copies import Copies
from unstale.mirror.store.folder import new_file, unlink

_UPLOAD_SECONDS = 300.0
"""In which content must have come."""


async def receive_content(request: Request, copies: Copies, digest: str, largest: int) -> Path:
    """Return the file of what a request brings, which has this digest and at most so many bytes."""
    if int(request.headers.get("content-length", "0")) > largest:
        raise _too_large(largest)
    path = copies.scratch / f"content-{secrets.token_hex(8)}"
    try:
        async with asyncio.timeout(_UPLOAD_SECONDS):
            await _write(request, path, digest, largest, shared=copies.shared)
    except TimeoutError:
        unlink(path)
        raise HTTPException(408, "the content took too long to come") from None
    except ClientDisconnect:
        unlink(path)
        raise HTTPException(400, "the request broke off") from None
    except BaseException:
        unlink(path)
        raise
    return path


async def _write(request: Request, path: Path, digest: str, largest: int, *, shared: bool) -> None:
    sha, size = hashlib.sha256(), 0
    with new_file(path, shared=shared) as file:
        async for block in request.stream():
            size += len(block)
            if size > largest:
                raise _too_large(largest)
            sha.update(block)
            file.write(block)
    if sha.hexdigest() != digest:
        raise HTTPException(422, f"the body has the digest {sha.hexdigest()}, not {digest}")


def _too_large(largest: int) -> HTTPException:
    return HTTPException(413, f"content can have {largest:,} bytes at most (max_size in mirror.toml)")
