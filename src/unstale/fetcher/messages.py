"""What fetchers and mirrors say to each other, as values; no network here."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, NamedTuple, Self, TypedDict, Unpack
from urllib.parse import urlsplit

from unstale.errors import InvalidInput, Trouble

_OUTCOMES = "/api/outcomes"
_MOST_REPORTED = 1000
"""Results in one request."""
_MOST_INLINE_BYTES = 300_000
"""Content that is larger is put by itself, before the result that names it."""
_MOST_REQUEST_BYTES = 900_000
"""Of a request with results; a server takes 1 MB."""
_MOST_WAITING_BYTES = 20_000_000
"""Of large content that is put before its results are told: a server lets so much of it wait, and no more."""


class FetchDetails(TypedDict, total=False):
    """What can be told of a poll besides its outcome; `FetchResult` says what each means."""

    began: float | None
    seconds: float
    traffic: int
    detail: str
    media_type: str
    validators: Mapping[str, str] | None
    modified: float | None
    stays: float | None
    wait: float | None
    links: Sequence[str]


@dataclass(frozen=True)
class FetchLease:
    """A poll that was planned and paid for, and is the fetcher's own until its lease expires."""

    element: int
    slot: float
    """When it may begin (seconds since 1970)."""
    key: str
    """What to fetch, such as an address."""
    group: str = ""
    source: str = "http"
    late: float | None = None
    """Seconds after ``slot`` from which on it must not begin any more; None: no matter."""
    validators: Mapping[str, str] = field(default_factory=dict)
    """What the last report gave, such as an ETag."""
    fingerprint: str | None = None
    """Of what was seen last; None: nothing yet."""
    predicted: float | None = None
    """Probability that nothing has changed; None if nothing was seen yet."""

    def changed(
        self,
        content: bytes | None = None,
        *,
        fingerprint: str | None = None,
        keep: bool = True,
        **more: Unpack[FetchDetails],
    ) -> FetchResult:
        """Return that there is content, which may be the same as before: its fingerprint tells.

        Parameters
        ----------
        content
            what was found
        fingerprint
            a digest of what counts as content; None: the SHA-256 of the content
        keep
            whether the mirror gets the content for a copy; False: only the fingerprint
        more
            other members of `FetchResult`, such as ``traffic`` or ``validators``
        """
        if content is None and fingerprint is None:
            raise InvalidInput("changed needs the content, or a fingerprint of it")
        if content is not None and fingerprint is None:
            fingerprint = hashlib.sha256(content).hexdigest()
        return self._result("changed", content=content if keep else None, fingerprint=fingerprint, **more)

    def unchanged(self, **more: Unpack[FetchDetails]) -> FetchResult:
        """Return that nothing has changed, as the other side says (304 Not Modified)."""
        return self._result("unchanged", **more)

    def gone(self, **more: Unpack[FetchDetails]) -> FetchResult:
        """Return that it is there no more."""
        return self._result("gone", **more)

    def failed(self, **more: Unpack[FetchDetails]) -> FetchResult:
        """Return that nothing was seen; ``detail`` says why."""
        return self._result("failed", **more)

    def _result(
        self,
        outcome: Literal["changed", "unchanged", "gone", "failed"],
        *,
        content: bytes | None = None,
        fingerprint: str | None = None,
        **more: Unpack[FetchDetails],
    ) -> FetchResult:
        return FetchResult(self.element, self.slot, outcome, fingerprint=fingerprint, content=content, **more)


@dataclass(frozen=True)
class FetchResult:
    """What a fetcher saw of an element; `FetchLease` makes it."""

    element: int
    slot: float
    outcome: Literal["changed", "unchanged", "gone", "failed"]
    fingerprint: str | None = None
    content: bytes | None = field(default=None, repr=False)
    digest: str | None = None
    """SHA-256 of content that was put before."""
    began: float | None = None
    """When the poll began (seconds since 1970)."""
    seconds: float = 0.0
    traffic: int = 0
    detail: str = ""
    media_type: str = "application/octet-stream"
    validators: Mapping[str, str] | None = None
    """For the next poll; None: those of the last report stay."""
    modified: float | None = None
    """When it changed last, as the other side says (seconds since 1970)."""
    stays: float | None = None
    """Seconds for which it stays, as the other side promises."""
    wait: float | None = None
    """Seconds for which nobody may poll its whole group (Retry-After)."""
    links: Sequence[str] = ()
    """Addresses that the page links to."""

    @property
    def is_large(self) -> bool:
        """Whether its content must be put by itself."""
        return self.content is not None and len(self.content) > _MOST_INLINE_BYTES

    def without_content(self) -> FetchResult:
        """Return it with the digest of its content, which was put, instead of the content."""
        return replace(self, content=None, digest=hashlib.sha256(self.content or b"").hexdigest())

    def to_json(self) -> dict[str, Any]:
        """Return what is sent of it: without what is not known."""
        said = {name: value for name, value in asdict(self).items() if value not in (None, "", ())}
        if self.content is not None:
            said["content"] = b64encode(self.content).decode()
        if self.links:
            said["links"] = list(self.links)
        return said


@dataclass(frozen=True)
class ReportAnswer:
    """What became of results."""

    recorded: int = 0
    again: int = 0
    """Reported before, and recorded then."""
    refused: Mapping[int, str] = field(default_factory=dict)
    """Numbers of elements, and why."""

    def __add__(self, other: ReportAnswer) -> ReportAnswer:
        """Return what became of both."""
        refused = {**self.refused, **other.refused}
        return ReportAnswer(self.recorded + other.recorded, self.again + other.again, refused)


@dataclass(frozen=True)
class AddAnswer:
    """What became of elements that were to be added."""

    added: int = 0
    known: int = 0
    """Were there before."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Keys, and why."""


class RequestToMirror(NamedTuple):
    """What is sent to the server of a mirror."""

    method: str
    path: str
    body: bytes | None
    content_type: str = "application/json"

    @classmethod
    def of_json(cls, path: str, body: Mapping[str, Any]) -> Self:
        """Return a request that posts JSON."""
        return cls("POST", path, json.dumps(body).encode())


class FetcherProtocol:
    """Turns wishes into requests, and answers into values."""

    def __init__(self, server: str, name: str, token: str | None) -> None:
        address = urlsplit(server)
        if address.scheme not in {"http", "https"} or not address.hostname:
            raise InvalidInput(f"server must be an address such as http://127.0.0.1:8321; it is {server!r}")
        self.server, self.name = server.rstrip("/"), name
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def lease(
        self, count: int, seconds: float, groups: Sequence[str] | None, each: int | None
    ) -> RequestToMirror:
        """Return the request for polls."""
        wish = {"fetcher": self.name, "count": count, "seconds": seconds, "groups": groups, "each": each}
        return RequestToMirror.of_json("/api/leases", {k: v for k, v in wish.items() if v is not None})

    @staticmethod
    def leases(answer: Mapping[str, Any]) -> list[FetchLease]:
        """Return the polls of an answer."""
        return [FetchLease(**one) for one in answer["leases"]]

    @staticmethod
    def content(content: bytes) -> RequestToMirror:
        """Return the request that hands content over."""
        path = f"/api/contents/{hashlib.sha256(content).hexdigest()}"
        return RequestToMirror("PUT", path, content, "application/octet-stream")

    def reports(self, results: Sequence[FetchResult]) -> Iterator[RequestToMirror]:
        """Return the requests that report results, as few as can be: large content before what names it."""
        batch: list[dict[str, Any]] = []
        size = waiting = 0
        for one in results:
            said = (one.without_content() if one.is_large else one).to_json()
            length, large = len(json.dumps(said)), len(one.content or b"") if one.is_large else 0
            if batch and (
                len(batch) == _MOST_REPORTED
                or size + length > _MOST_REQUEST_BYTES
                or waiting + large > _MOST_WAITING_BYTES
            ):
                yield self._report(batch)
                batch, size, waiting = [], 0, 0
            if one.is_large:
                yield self.content(one.content or b"")
                waiting += large
            batch.append(said)
            size += length + 2
        if batch:
            yield self._report(batch)

    def _report(self, batch: list[dict[str, Any]]) -> RequestToMirror:
        return RequestToMirror.of_json(_OUTCOMES, {"fetcher": self.name, "outcomes": batch})

    @staticmethod
    def reported(request: RequestToMirror, answer: Mapping[str, Any]) -> ReportAnswer:
        """Return what the answer to a request says of results."""
        if request.path != _OUTCOMES:
            return ReportAnswer()
        refused = {int(one["element"]): str(one["why"]) for one in answer["refused"]}
        return ReportAnswer(int(answer["recorded"]), int(answer["again"]), refused)

    @staticmethod
    def add(keys: Sequence[str]) -> RequestToMirror:
        """Return the request that adds elements."""
        return RequestToMirror.of_json("/api/elements", {"elements": [{"key": key} for key in keys]})

    @staticmethod
    def added(answer: Mapping[str, Any]) -> AddAnswer:
        """Return what an answer says of elements that were to be added."""
        refused = {str(one["key"]): str(one["why"]) for one in answer["refused"]}
        return AddAnswer(int(answer["added"]), int(answer["known"]), refused)

    def read(self, status: int, body: bytes) -> dict[str, Any]:
        """Return an answer, or raise what is wrong: `Trouble` if it can be tried again."""
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise Trouble(f"{self.server} answered {status} with something that is no JSON; is it unstale?")
        if status < 400:
            return answer
        why = f"{self.server} answered {status}: {answer.get('error', 'without a reason')}"
        raise Trouble(why) if status in {408, 429} or status >= 500 else InvalidInput(why)
