"""The changes that a mirror which is served has seen, one after the other: what pipelines start by."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from unstale.errors import InvalidInput, Trouble

__all__ = ["ChangeFeed", "SeenChange"]

_PAGE = 500
"""Changes that are asked for at a time."""


@dataclass(frozen=True)
class SeenChange:
    """A new version of an element."""

    number: int
    """They grow: the last one seen says where to go on."""
    key: str
    time: str
    """When it was seen, in UTC."""
    digest: str
    """SHA-256 of the content."""
    first: bool
    """Whether it is the first version of the element: it was not seen before."""


class ChangeFeed:
    """Reads the changes of elements.

    Parameters
    ----------
    server
        where the mirror is served, such as ``http://127.0.0.1:8321``
    keys
        of the elements; None: all
    token
        one that is to read, if the server asks for a token
    timeout
        seconds in which it must answer
    """

    def __init__(
        self,
        server: str,
        keys: Collection[str] | None = None,
        *,
        token: str | None = None,
        timeout: float = 60.0,
    ) -> None:
        if urlsplit(server).scheme not in {"http", "https"}:
            raise InvalidInput(f"server must be an address such as http://127.0.0.1:8321; it is {server!r}")
        self._server, self._timeout = server.rstrip("/"), timeout
        self._keys = None if keys is None else frozenset(keys)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def last(self) -> int:
        """Return the number of the last change that there is."""
        return int(self._get("/api/changes?after=-1")["next"])

    def after(self, number: int) -> tuple[list[SeenChange], int]:
        """Return the changes after one, and the number to go on from."""
        found: list[SeenChange] = []
        while True:
            page = self._get(f"/api/changes?after={number}&limit={_PAGE}")
            number = int(page["next"])
            found += [
                SeenChange(one["id"], one["key"], one["time"], one["digest"], one["first"])
                for one in page["changes"]
                if self._keys is None or one["key"] in self._keys
            ]
            if len(page["changes"]) < _PAGE:
                return found, number

    def _get(self, path: str) -> dict[str, Any]:
        request = Request(self._server + path, headers=self._headers)  # noqa: S310  (checked above)
        try:
            with urlopen(request, timeout=self._timeout) as answer:  # noqa: S310
                found: dict[str, Any] = json.load(answer)
                return found
        except HTTPError as error:
            why = f"{self._server} answered {error.code}: {error.read(300).decode('utf-8', 'replace')}"
            raise (Trouble if error.code >= 500 or error.code == 429 else InvalidInput)(why) from None
        except (OSError, ValueError) as error:
            raise Trouble(f"{self._server} cannot be asked: {error}") from error
