"""Who may ask for what."""

import asyncio
from base64 import b64encode

import pytest
from starlette.datastructures import Headers

from unstale import InvalidInput
from unstale.dashboard import guard as guarding
from unstale.dashboard.access_rules import ANY, LOOPBACK, AccessRules, ScopedToken, read_tokens
from unstale.dashboard.api import metrics
from unstale.dashboard.guard import COOKIE, GuardMiddleware, csrf_token

from .conftest import TestClient

TOKEN = "a-token-that-nobody-guesses"  # noqa: S105
OURS = "http://127.0.0.1:8321"
FORM = {"content-type": "application/x-www-form-urlencoded"}


def hint(client, **headers):
    return client.post("/hints", json={"keys": ["python:news"]}, headers=headers)


# --- the name of the host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8321", "localhost:1", "LocalHost", "[::1]:8321"])
def test_our_names(still, host):
    assert still().get("/healthz", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8321", "127.0.0.1.evil.example", "localhost.evil.example", "[::2]"]
)
def test_names_that_others_have_made_to_lead_here(still, host):
    answer = still().get("/api/status", headers={"host": host})
    assert answer.status_code == 421
    assert "is not a name of this server" in answer.json()["error"]


@pytest.mark.parametrize("host", ["", "a b", "127.0.0.1:x", "user@127.0.0.1", "127.0.0.1/", "<script>", "ü"])
def test_names_that_are_none(still, host):
    assert still().get("/api/status", headers={"host": host.encode()}).status_code == 400


def test_names_that_were_given(still):
    client = still(hosts=LOOPBACK | {"mirror.example"})
    assert client.get("/healthz", headers={"host": "Mirror.Example:80"}).status_code == 200
    assert client.get("/healthz", headers={"host": "evil.example"}).status_code == 421


def test_any_name_only_with_a_token(still):
    with pytest.raises(InvalidInput, match="without a token"):
        AccessRules(hosts=frozenset({ANY}))
    client = still(token=TOKEN, hosts=frozenset({ANY}))
    assert client.get("/healthz", headers={"host": "whatever.example"}).status_code == 200


# --- the token


@pytest.mark.parametrize("token", ["", "short", "ü" * 20, "x" * 20 + "\n"])
def test_tokens_that_are_none(token):
    with pytest.raises(InvalidInput, match="at least 16 printable ASCII characters"):
        AccessRules(token)


def test_nothing_without_the_token(still):
    client = still(token=TOKEN)
    for path in (
        "/", "/api/status", "/api/openapi.json", "/copies/python:news", "/metrics", "/changes.atom"
    ):  # fmt: skip
        for headers in (
            {},
            {"authorization": "Bearer wrong"},
            {"authorization": f"Basic {TOKEN}"},
            {"authorization": "Bearer"},
            {"authorization": "Basic " + b64encode(f"{TOKEN}:wrong".encode()).decode()},
            {"authorization": "Basic " + b64encode(b"\xff\xfe:x").decode()},
            {"authorization": f"Bearer {TOKEN}x"},
            {"cookie": f"{COOKIE}={TOKEN}"},
            {"cookie": f"{COOKIE}="},
            {"cookie": "\x01;;=;"},
            {"authorization": b"Bearer \xff\xfe"},
        ):
            answer = client.get(path, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == 'Bearer, Basic realm="unstale"'
            assert "news" not in answer.text


def test_readers_of_feeds_send_it_as_a_password(ask):
    client = ask(token=TOKEN)
    assert client.get("/changes.atom", auth=("anybody", TOKEN)).status_code == 200
    refused = client.get("/changes.atom", headers={"sec-fetch-mode": "cors"})
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")


@pytest.mark.parametrize("others", ['foo={"a":1}; {}', "{}; x[]=,", f"{COOKIE}=old; {{}}", "a;{};b", "{}"])
def test_cookies_of_others_do_not_hide_ours(still, others):
    cookie = others.replace("{}", f"{COOKIE}={AccessRules(TOKEN).cookie}")
    assert still(token=TOKEN).get("/api/openapi.json", headers={"cookie": cookie}).status_code == 200


def test_edits_need_it_too(ask):
    client = ask(token=TOKEN)
    assert hint(client).status_code == 401
    assert client.delete("/api/elements/1").status_code == 401
    assert client.post("/what-if/apply", data={"csrf": csrf_token()}).status_code == 401
    assert hint(client, authorization=f"Bearer {TOKEN}").status_code == 200


def test_people_are_asked_for_it(still):
    client = still(token=TOKEN)
    sent = client.get("/", headers={"accept": "text/html"})
    assert (sent.status_code, sent.headers["location"]) == (303, "/login")
    page = client.get("/login")
    assert page.status_code == 200
    assert 'name="token"' in page.text
    assert csrf_token() not in page.text  # anybody can read this page
    wrong = client.post("/login", data={"token": "wrong"})
    assert wrong.status_code == 403
    assert "set-cookie" not in wrong.headers
    right = client.post("/login", data={"token": f" {TOKEN}\n"}, headers={"origin": OURS})
    assert (right.status_code, right.headers["location"]) == (303, "/")
    cookie = right.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert TOKEN not in cookie
    assert client.get("/api/status").status_code == 200  # it has the cookie now


def test_the_door_is_for_forms_of_ours(still):
    client = still(token=TOKEN)
    cross = client.post("/login", data={"token": TOKEN}, headers={"origin": "https://evil.example"})
    assert cross.status_code == 403
    assert client.post("/login", json={"token": TOKEN}).status_code == 415
    assert client.put("/login").status_code == 405
    assert client.post("/login", content=b"\xff\xfe=", headers=FORM).status_code in {400, 403}
    assert client.post("/login", content="a&" * 5000, headers=FORM).status_code in {400, 403}
    assert client.post("/login", content=b"x" * 1_000_001, headers=FORM).status_code == 413


def test_without_a_token_there_is_no_door(still):
    assert still().get("/login").headers["location"] == "/"


# --- other sites


FOREIGN = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://127.0.0.1:9999"},
    {"origin": "http://localhost:8321"},
    {"origin": "file://"},
    {"origin": "http://[broken"},
    {"origin": "ftp://127.0.0.1:8321"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "cross-site", "origin": OURS},
    {"sec-fetch-site": "same-origin", "origin": "https://evil.example"},
]


def test_other_sites_change_nothing(ask, mirror):
    client = ask()
    element = mirror.find("python:news").id
    for headers in FOREIGN:
        for answer in (
            hint(client, **headers),
            client.delete(f"/api/elements/{element}", headers=headers),
            client.post("/api/budget", json={"budget": 5.0}, headers=headers),
            client.post(f"/elements/{element}/hint", data={"csrf": csrf_token()}, headers=headers),
        ):
            assert answer.status_code == 403, headers
            assert "another site" in answer.text
    assert mirror.find("python:news").state == "ok"


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("path", ["/api/ideas", "/copies/python:news", "/elements", "/changes.atom"])
def test_a_page_of_another_site_may_link_here_and_loads_nothing(ask, path, site):
    """It could keep all threads busy, and have copies polled (``cache: "no-cache"``), unseen."""
    client = ask()
    for mode, place in (
        ("no-cors", "image"),
        ("cors", "empty"),
        ("navigate", "iframe"),
    ):
        loaded = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": place}
        answer = client.get(path, headers=loaded)
        assert (answer.status_code, "another site" in answer.text) == (403, True)
        assert client.get(path, headers={**loaded, "sec-fetch-site": "same-origin"}).status_code != 403
    linked = {"sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert client.get(path, headers=linked).status_code != 403


@pytest.mark.parametrize(
    "headers",
    [{}, {"origin": OURS}, {"sec-fetch-site": "same-origin", "origin": OURS}, {"sec-fetch-site": "none"}],
)
def test_our_own_pages_and_programs_do(ask, headers):
    assert hint(ask(), **headers).status_code == 200


def test_behind_a_proxy_that_does_tls(ask):
    client = ask(hosts=LOOPBACK | {"mirror.example"})
    assert hint(client, host="mirror.example", origin="https://mirror.example").status_code == 200
    assert hint(client, host="mirror.example:443", origin="https://mirror.example").status_code == 200
    assert hint(client, host="mirror.example", origin="https://mirror.example.evil").status_code == 403


@pytest.mark.parametrize(
    "kind", ["text/plain", "multipart/form-data; boundary=x", "", "application/jsonx", "text/json"]
)
def test_what_a_form_of_another_site_can_send_is_not_json(still, kind):
    answer = still().post("/hints", content=b'{"keys": ["python:news"]}', headers={"content-type": kind})
    assert answer.status_code == 415


def test_forms_carry_what_only_our_pages_know(ask, mirror):
    client = ask()
    path = f"/elements/{mirror.find('python:news').id}/hint"
    for fields in ({}, {"csrf": ""}, {"csrf": "0" * 64}, {"csrf": "ü"}):
        answer = client.post(path, data=fields)
        assert answer.status_code in {403, 415}
    assert client.post(path, content=b"", headers=FORM).status_code == 403
    assert client.post(path, content=f"csrf={csrf_token()}", headers=FORM).status_code == 303


# --- sizes


def test_large_requests_are_refused(still):
    client = still()
    assert client.get("/copies/" + "x" * 9000).status_code == 414
    assert client.get("/api/elements", params={"search": "x" * 9000}).status_code == 414
    big = b'{"keys": ["' + b"x" * 1_000_000 + b'"]}'
    json = {"content-type": "application/json"}
    assert client.post("/hints", content=big, headers=json).status_code == 413
    assert (
        client.post("/hints", content=iter([big[:600_000], big[600_000:]]), headers=json).status_code == 413
    )
    assert client.get("/api/status", headers={"content-length": "10000000"}).status_code == 413
    for length in ("x", "-1", "9" * 30, "1.5"):
        assert client.get("/api/status", headers={"content-length": length}).status_code == 400


def test_slow_requests_are_given_up(monkeypatch):
    monkeypatch.setattr(guarding, "_BODY_SECONDS", 0.05)
    sent = []

    async def receive():
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b" ", "more_body": True}

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/hints", "query_string": b"", "headers": headers}
    asyncio.run(GuardMiddleware(None, AccessRules())(scope, receive, send))
    assert sent[0]["status"] == 408


def answered(app, *, method="GET", path="/healthz", parts=(b"",), **headers):
    """Return how an application behind a guard answers, how many parts it took, and what it raised."""
    sent, left = [], list(parts)

    async def receive():
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    async def send(message):
        sent.append(message)

    given = {"host": "localhost", **{name.replace("_", "-"): value for name, value in headers.items()}}
    scope = {
        "type": "http", "method": method, "path": path, "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }  # fmt: skip
    raised = None
    try:
        asyncio.run(GuardMiddleware(app, AccessRules())(scope, receive, send))
    except RuntimeError as error:
        raised = error
    return sent[0]["status"], Headers(raw=sent[0]["headers"]), len(parts) - len(left), raised


async def well(_, __, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_endless_bodies_of_requests_that_need_none_are_cut_off(method):
    endless = [b"x" * 100_000] * 50
    status, headers, taken, _ = answered(well, method=method, parts=endless, transfer_encoding="chunked")
    assert (status, headers["connection"], taken) == (413, "close", 11)
    status, headers, taken, _ = answered(well, method=method, parts=[b"x", b"y"], content_length="2")
    assert (status, "connection" in headers, taken) == (200, False, 2)


def test_who_is_refused_before_the_body_came_is_not_listened_to_any_more():
    sent = {"method": "POST", "path": "/hints", "parts": [b"x"] * 5, "transfer_encoding": "chunked"}
    status, headers, taken, _ = answered(well, origin="https://evil.example", **sent)
    assert (status, headers["connection"], taken) == (403, "close", 0)
    status, headers, taken, _ = answered(well, content_type="text/plain", **sent)
    assert (status, "connection" in headers, taken) == (415, False, 5)


def test_there_are_no_web_sockets():
    sent = []

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message)

    asyncio.run(GuardMiddleware(None, AccessRules())({"type": "websocket", "path": "/"}, receive, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]


# --- what every answer says


@pytest.mark.parametrize(
    "path", ["/", "/api/status", "/healthz", "/nothing", "/copies/python:about", "/copies/nothing"]
)
def test_every_answer_has_the_headers(still, path):
    answer = still().get(path)
    rules = answer.headers["content-security-policy"]
    assert "default-src 'none'" in rules
    assert "frame-ancestors 'none'" in rules
    assert "base-uri 'none'" in rules
    assert "unsafe-eval" not in rules
    assert "script-src 'unsafe-inline'" not in rules
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert "cache-control" in answer.headers
    assert "access-control-allow-origin" not in answer.headers


def test_what_is_the_same_for_everybody_needs_no_token_and_can_be_kept(still):
    answer = still(token=TOKEN).get("/static/style.css")
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-cache"
    tag = {"if-none-match": answer.headers["etag"]}
    assert still(token=TOKEN).get("/static/style.css", headers=tag).status_code == 304
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd"):
        assert still().get(path).status_code == 404


@pytest.mark.parametrize("path", ["/", "/api/openapi.json", "/healthz", "/static/style.css", "/nothing"])
def test_head_is_get_without_the_content(still, path):
    head, got = still().head(path), still().get(path)
    assert head.content == b""
    assert head.status_code == got.status_code
    assert head.headers["content-type"] == got.headers["content-type"]


def test_refusals_have_them_too(still):
    for answer in (
        still().get("/", headers={"host": "evil.example"}),
        still(token=TOKEN).get("/"),
        hint(still(), origin="https://evil.example"),
    ):
        assert "default-src 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("begun", [False, True])
def test_mistakes_of_ours_have_them_too_and_are_told_to_the_server(begun):
    async def wrong(scope, receive, send):
        if begun:
            await well(scope, receive, send)
        raise RuntimeError("secret")

    status, headers, _, raised = answered(wrong)
    assert status == (200 if begun else 500)
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert str(raised) == "secret"


def test_mistakes_are_told_once_and_in_the_same_way(ask, monkeypatch):
    def wrong(_):
        raise ValueError("secret")

    monkeypatch.setattr(metrics, "_runs", wrong)
    client = TestClient(ask().app, OURS, raise_server_exceptions=False)
    answer = client.get("/healthz")
    assert (answer.status_code, answer.json()) == (500, {"error": guarding._BUG})
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert client.head("/healthz").status_code == 500


def test_people_are_told_in_a_page_and_nothing_is_injected(still):
    answer = still().get("/<script>alert(1)</script>", headers={"accept": "text/html"})
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")
    assert "<script>" not in answer.text


def test_other_sites_get_no_leave_to_look(still):
    asked = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    answer = still().options("/hints", headers=asked)
    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_what_programs_do_wrong_is_said(ask):
    client = ask()
    form = client.post("/hints", content=b'{"keys": ["python:news"]}', headers=FORM)
    assert (form.status_code, form.json()) == (
        415, {"error": "the header Content-Type must be application/json"}
    )  # fmt: skip
    kind = {"content-type": "application/json"}
    broken = client.post("/hints", content=b'{"keys": [', headers=kind)
    assert (broken.status_code, broken.json()["error"][:21]) == (422, "the body is not JSON:")
    assert "there is no body" in client.post("/hints", headers=kind).json()["error"]
    assert client.put("/api/elements/1", content=b"x").status_code == 405
    secret = ask(token=TOKEN)
    wrong = secret.get("/api/status", headers={"authorization": "Bearer wrong"})
    assert (wrong.status_code, wrong.json()) == (401, {"error": "that is not the token"})


# --- what tokens are for


def test_a_token_is_for_what_it_says(ask):
    tokens = {scope: f"a-token-to-{scope}-only" for scope in ("read", "lease", "edit")}
    more = tuple(ScopedToken(token, frozenset({scope})) for scope, token in tokens.items())
    client = ask(token=TOKEN, more=more)
    asked = {
        "read": ("GET", "/api/status", None),
        "lease": ("POST", "/api/leases", {"fetcher": "a"}),
        "edit": ("POST", "/hints", {"keys": ["python:news"]}),
    }
    for shown, token in tokens.items():
        for needed, (method, path, body) in asked.items():
            answer = client.request(method, path, json=body, headers={"authorization": f"Bearer {token}"})
            if shown == needed:
                assert answer.status_code in {200, 409}  # this mirror polls itself
            else:
                assert answer.status_code == 403
                assert answer.json()["error"] == (
                    f"this token is to {shown} only; for this request it must be one to {needed}"
                )
    for method, path, body in asked.values():
        answer = client.request(method, path, json=body, headers={"authorization": f"Bearer {TOKEN}"})
        assert answer.status_code in {200, 409}


def test_a_cookie_is_for_what_its_token_is_for(ask):
    client = ask(more=(ScopedToken(TOKEN, frozenset({"read"})),))
    assert client.get("/api/status").status_code == 401
    entered = client.post("/login", data={"token": TOKEN}, headers={"origin": OURS})
    assert entered.status_code == 303
    assert client.get("/api/status").status_code == 200
    assert hint(client).status_code == 403
    assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "there is no token in it"),
        ("# nothing\n\n", "there is no token in it"),
        ("short", "line 1: a token must have at least 16"),
        (f"# one\n{TOKEN} reed", r"line 2: a token must be for some of read, lease and edit; .*\['reed'\]"),
        ("".join(f"{TOKEN}{i:03}\n" for i in range(101)), "101 tokens; 100 are allowed"),
    ],
)
def test_files_of_tokens_that_cannot_be(text, why):
    with pytest.raises(InvalidInput, match=why):
        read_tokens(text, "tokens.txt")


def test_tokens_are_told_apart_and_not_shown():
    with pytest.raises(InvalidInput, match="given twice"):
        AccessRules(TOKEN, more=(ScopedToken(TOKEN),))
    assert TOKEN not in repr(AccessRules(TOKEN, more=(ScopedToken(TOKEN + "x"),)))
