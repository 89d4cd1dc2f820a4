"""Who may ask for what.

The dashboard listens on loopback, where any page in the browser of its user can send requests to it, and any
name can be made to lead. So a request must name a host that we go by (which stops DNS rebinding), and one
that changes something must come from a page of ours (which stops cross-site posting): browsers say where a
request comes from, forms carry a token that only our pages know, and JSON cannot be posted across sites
unasked. Pages of others may link here, and load nothing. On any other address all that takes a token besides,
which can be guessed only slowly (`GuessLimit`).

There is room for so many requests at a time. Those for ``/healthz`` have their own, and so have those that
show no token where one is needed: strangers keep nobody out who has it. If they fill their room, the one
whose token has been awaited for longest makes place.

Every answer has headers that forbid browsers whatever the dashboard does not need.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator, Mapping
from math import ceil
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from unstale.wording import plural

from .access_rules import ANY, PROCESS_SECRET, AccessRules, cookie_of, same, scope_needed
from .error_responses import page, problem, wants_page
from .guess_limit import GuessLimit

COOKIE = "unstale-token"
ADMITTED = "unstale.admitted"
"""Where the scope of a request says whether it shows the token, or none is needed."""
BEARER_PLACE = "unstale.bearer"
"""Where it says which token it shows, by its place among all of them; -1: none."""

_LONGEST_ADDRESS_BYTES = 8192
"""Of a path and query."""
_LARGEST_BODY_BYTES = 1_000_000
_BODY_SECONDS = 30.0
"""In which a body must have come."""
_MOST_REQUESTS, _MOST_STRANGERS, _MOST_HEALTH_REQUESTS = 200, 50, 50
"""That are answered at the same time."""
_READING_METHODS, _EDITING_METHODS = frozenset({"GET", "HEAD", "OPTIONS"}), frozenset({"POST", "DELETE"})
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?").fullmatch
_FORM_TYPE = "application/x-www-form-urlencoded"
_PATHS_WITHOUT_TOKEN = ("/healthz", "/login")
"""Nor does what is in /static/, which is the same for everybody."""
_HOW_TO_ENTER = (
    "a token is needed: send the header 'Authorization: Bearer TOKEN', or the token as the password of any "
    "user, or go to /login"
)
_BUG = "this should not happen; the log of the server says more"
_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cache-Control": "no-store",
}
_LOGIN = """<h1>unstale</h1>
<form method="post" action="/login">
<p><label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus></p>
<p><button type="submit">Enter</button></p>
</form>"""


def csrf_token() -> str:
    """Return what forms of ours carry in the field ``csrf``."""
    return hmac.new(PROCESS_SECRET, b"csrf", hashlib.sha256).hexdigest()


class _Refused(Exception):  # noqa: N818  (it never leaves this module)
    """A request that is not let through."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers


class GuardMiddleware:
    """Lets requests through to an application, or refuses them, by access rules."""

    def __init__(self, app: ASGIApp, rules: AccessRules) -> None:
        self._app, self._rules = app, rules
        self._guesses = GuessLimit()
        self._requests: Counter[str] = Counter()
        """That are being answered, by room: ``pages``, ``strangers`` and ``health``."""
        self._logins: dict[asyncio.Timeout, None] = {}
        """Those whose token has not come yet, the oldest first."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no web sockets here
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = Headers(scope=scope)
        as_page = wants_page(scope["path"], headers.get("accept", ""))
        answering = _AnswerWithHeaders(scope, headers, receive, send)
        room, refused = self._room(scope, headers)
        self._requests[room] += 1
        try:
            if self._is_full(room):
                answer = problem(
                    503, "too many requests at once", as_page=as_page, headers={"Retry-After": "1"}
                )
                await answer(scope, answering.receive, answering.send)
                return
            await self._let_in(scope, headers, answering.receive, answering.send, refused, as_page=as_page)
        except Exception:
            if not answering.begun:
                answer = problem(500, _BUG, as_page=as_page)
                await answer(scope, answering.receive, answering.send)
            raise  # the server writes it into its log
        finally:
            self._requests[room] -= 1

    def _room(self, scope: Scope, headers: Headers) -> tuple[str, _Refused | None]:
        """Return where a request is counted, and why it is refused, if that can be told by its headers."""
        refused, health = None, scope["path"] == "/healthz"
        try:
            _check_size(scope, headers)
            self._check_host(headers)
            _check_loader(headers)
            scope[BEARER_PLACE] = -1
            scope[ADMITTED] = scope["path"] != "/login" and self._check_token(scope, headers)
        except _Refused as error:
            scope[ADMITTED], refused = False, error
        known = scope[ADMITTED] or not self._rules.needs_token
        return "health" if health else "pages" if known else "strangers", refused

    def _is_full(self, room: str) -> bool:
        """Tell whether there are more requests than a room has place for, and nobody makes place."""
        most = {"health": _MOST_HEALTH_REQUESTS, "pages": _MOST_REQUESTS, "strangers": _MOST_STRANGERS}[room]
        if self._requests[room] <= most:
            return False
        if room != "strangers" or not self._logins:
            return True
        oldest = next(iter(self._logins))
        del self._logins[oldest]
        oldest.reschedule(asyncio.get_running_loop().time())
        return False

    async def _let_in(
        self,
        scope: Scope,
        headers: Headers,
        receive: Receive,
        send: Send,
        refused: _Refused | None,
        *,
        as_page: bool,
    ) -> None:
        try:
            if refused is not None:
                raise refused
            if scope["path"] == "/login":
                answer = await self._login(scope, headers, receive)
                await answer(scope, receive, send)
                return
            safe = scope["method"] in _READING_METHODS
            if not safe:
                _check_origin(headers)
            if _is_content(scope):
                _check_raw(headers)
            elif not safe or _has_body(headers):
                body = await _body(receive)
                if scope["method"] in _EDITING_METHODS:  # others are refused for what they are
                    _check_content(scope, headers, body)
                receive = _again(body, receive)
        except _Refused as error:
            if error.status == 401 and as_page and scope["method"] in _READING_METHODS:
                await RedirectResponse("/login", 303)(scope, receive, send)
                return
            answer = problem(error.status, str(error), as_page=as_page, headers=error.headers)
            await answer(scope, receive, send)
            return
        if scope["method"] == "HEAD" and not scope["path"].startswith("/copies/"):  # which knows better
            scope, send = {**scope, "method": "GET"}, _without_body(send)
        await self._app(scope, receive, send)

    def _check_host(self, headers: Headers) -> None:
        given = headers.getlist("host")
        found = _HOST(given[0]) if len(given) == 1 else None
        if found is None:
            raise _Refused(400, "a request must have one header Host, with the name of a host")
        if ANY not in self._rules.hosts and found[1].lower() not in self._rules.hosts:
            raise _Refused(
                421, f"{found[1]} is not a name of this server; start it with --allow-host {found[1]}"
            )

    def _check_token(self, scope: Scope, headers: Headers) -> bool:
        """Tell whether the token is shown, or none is needed; refuse a client without it that needs it."""
        path = scope["path"]
        if not self._rules.needs_token:
            return True
        given = _authorization(headers)
        scopes = frozenset[str]().union(*map(self._rules.scopes_of_cookie, _cookies(headers)))
        scopes = scopes or self._scopes(scope, given)
        scope[BEARER_PLACE] = self._rules.place_of_token(given, list(_cookies(headers))) if scopes else -1
        if path in _PATHS_WITHOUT_TOKEN or path.startswith("/static/"):
            return bool(scopes)
        needed = scope_needed(scope["method"], path)
        if needed in scopes:
            return True
        if scopes:
            told = " and ".join(sorted(scopes))
            raise _Refused(403, f"this token is to {told} only; for this request it must be one to {needed}")
        message = "that is not the token" if given else _HOW_TO_ENTER
        browser = "sec-fetch-mode" in headers  # which would ask for a name and a password, beside our page
        raise _Refused(
            401, message, {"WWW-Authenticate": "Bearer" + ("" if browser else ', Basic realm="unstale"')}
        )

    def _scopes(self, scope: Scope, given: str) -> frozenset[str]:
        """Return what this token is for; refuse a client that has guessed too often."""
        if not given or self._guesses.known_wrong(given):
            return frozenset()
        address = (scope.get("client") or ("", 0))[0]
        wait = self._guesses.wait(address)
        if wait > 0.0:
            seconds = ceil(wait)
            message = f"too many wrong tokens; try again in {plural(seconds, 'second')}"
            raise _Refused(429, message, {"Retry-After": str(seconds)})
        if scopes := self._rules.scopes_of_token(given):
            self._guesses.right(address)
        else:
            self._guesses.wrong(address, given)
        return scopes

    async def _login(self, scope: Scope, headers: Headers, receive: Receive) -> Response:
        """Take the token from a person, whose browser keeps a cookie for it."""
        if not self._rules.needs_token:
            return RedirectResponse("/", 303)
        if scope["method"] in {"GET", "HEAD"}:
            return page("Enter", _LOGIN)
        if scope["method"] != "POST":
            raise _Refused(405, "only GET and POST", {"Allow": "GET, HEAD, POST"})
        _check_origin(headers)
        if _content_type(headers) != _FORM_TYPE:
            raise _Refused(415, f"the token must come as {_FORM_TYPE}")
        given = _fields(await _body(receive, self._logins)).get("token", "").strip()
        if not self._scopes(scope, given):
            return page("Enter", '<p role="alert">That is not the token.</p>\n' + _LOGIN, 403)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(
            COOKIE, cookie_of(given), httponly=True, samesite="strict", secure=scope["scheme"] == "https"
        )
        return answer


class _AnswerWithHeaders:
    """Adds to an answer the headers that it does not have yet.

    What is in /static/ may be kept and asked after. Where the answer is ready before all of the body is here,
    the server reads no more of it: the rest may be endless.
    """

    def __init__(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._still = scope["path"].startswith("/static/")
        self._more = _has_body(headers)
        self.begun = False

    async def receive(self) -> Message:
        """Take a part of the request."""
        message = await self._receive()
        if message["type"] == "http.request":
            self._more = message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the answer."""
        if message["type"] == "http.response.start":
            self.begun = True
            headers = MutableHeaders(scope=message)
            if self._still:
                headers.setdefault("Cache-Control", "no-cache")
            if self._more:
                headers["Connection"] = "close"
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)


def _without_body(send: Send) -> Send:
    """Answer HEAD as if it were GET, without the body."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return sent


def _check_size(scope: Scope, headers: Headers) -> None:
    address = scope.get("raw_path") or scope["path"].encode()
    if len(address) + len(scope["query_string"]) > _LONGEST_ADDRESS_BYTES:
        raise _Refused(414, f"an address can have {_LONGEST_ADDRESS_BYTES} bytes at most")
    if not scope["query_string"].isascii():
        raise _Refused(400, "what follows the ? must be ASCII; others are written with percent signs")
    if "transfer-encoding" in headers and "content-length" in headers:  # where does its body end?
        raise _Refused(400, "a request must not have both Content-Length and Transfer-Encoding")
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()) or len(length) > 18:
        raise _Refused(400, "Content-Length must be a number")
    if int(length) > _LARGEST_BODY_BYTES and not _is_content(scope):
        raise _too_large()


def _is_content(scope: Scope) -> bool:
    """Tell whether a request brings the content of a copy: its route takes it in pieces, and bounds it."""
    return scope["method"] == "PUT" and scope["path"].startswith("/api/contents/")


def _has_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0").strip("0") != ""


def _check_loader(headers: Headers) -> None:
    """Refuse what a page of another site loads unseen: it could keep us busy, or have polls made."""
    foreign = headers.get("sec-fetch-site", "none") not in {"same-origin", "none"}
    mode, place = headers.get("sec-fetch-mode", "navigate"), headers.get("sec-fetch-dest", "document")
    if foreign and (mode, place) != ("navigate", "document"):
        raise _Refused(403, "this was loaded by a page of another site, which may only link here")


def _check_origin(headers: Headers) -> None:
    """Refuse what another site has sent by the browser of somebody."""
    site = headers.get("sec-fetch-site", "same-origin")
    origin = headers.get("origin")
    foreign = site not in {"same-origin", "none"}
    if origin is not None and not foreign:
        try:
            parts = urlsplit(origin)
            ours = parts.scheme in {"http", "https"} and _same_host(
                parts.netloc, headers["host"], parts.scheme
            )
        except ValueError:
            ours = False
        foreign = not ours
    if foreign:
        raise _Refused(403, "this was sent by another site, which must not change anything here")


def _same_host(one: str, other: str, scheme: str) -> bool:
    port = ":443" if scheme == "https" else ":80"
    return one.lower().removesuffix(port) == other.lower().removesuffix(port)


def _check_content(scope: Scope, headers: Headers, body: bytes) -> None:
    """Refuse what a form of another site could have sent."""
    kind, path = _content_type(headers), scope["path"]
    if kind == _FORM_TYPE and not (path.startswith("/api/") or path == "/hints"):
        if not same(_fields(body).get("csrf", ""), csrf_token()):
            raise _Refused(403, "this form is not from here, or from before a restart: load the page again")
    elif kind != "application/json" and (body or scope["method"] != "DELETE"):
        raise _Refused(415, "the header Content-Type must be application/json")


def _check_raw(headers: Headers) -> None:
    """Refuse content that does not say that it is just bytes, as no form can."""
    if _content_type(headers) != "application/octet-stream":
        raise _Refused(415, "the header Content-Type must be application/octet-stream")


def _content_type(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _fields(body: bytes) -> dict[str, str]:
    """Return the fields of a form; the first of each name."""
    try:
        found = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=1000)
    except ValueError:
        raise _Refused(400, "this is not a form") from None
    return {name: values[0] for name, values in found.items()}


async def _body(receive: Receive, waiting: dict[asyncio.Timeout, None] | None = None) -> bytes:
    """Return the whole body of a request, which is not large; ``waiting`` has its limit until it is here."""
    parts: list[bytes] = []
    size = 0
    limit = asyncio.timeout(_BODY_SECONDS)
    kept = {} if waiting is None else waiting
    try:
        async with limit:
            kept[limit] = None
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise _Refused(400, "the request broke off")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > _LARGEST_BODY_BYTES:
                    raise _too_large()
                more = message.get("more_body", False)
    except TimeoutError:
        raise _Refused(408, "the request took too long to come") from None
    finally:
        kept.pop(limit, None)
    return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    """Hand on a body that has been read."""
    given = False

    async def handed() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return handed


def _too_large() -> _Refused:
    return _Refused(413, f"a body can have {_LARGEST_BODY_BYTES:,} bytes at most")


def _authorization(headers: Headers) -> str:
    """Return the token that is sent as one, or as a password, which is all that readers of feeds know."""
    kind, _, given = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return given.strip()
    if kind.lower() != "basic":
        return ""
    try:
        return b64decode(given, validate=True).decode().partition(":")[2]
    except ValueError:
        return ""


def _cookies(headers: Headers) -> Iterator[str]:
    """Return the cookies that may be ours: others set theirs for the same host, and write what they like."""
    for text in headers.getlist("cookie"):
        for part in text.split(";"):
            name, _, value = part.partition("=")
            if name.strip() == COOKIE:
                yield value.strip()
