"""Answers that say that something could not be done: JSON for programs, a small page for people."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from http.client import responses

from starlette.responses import HTMLResponse, JSONResponse, Response

_PROGRAMS = ("/api/", "/hints", "/copies/", "/changes.", "/metrics", "/healthz")
"""Where only programs look."""


def wants_page(path: str, accept: str) -> bool:
    """Tell whether a person is looking.

    >>> wants_page("/elements/7", "text/html,*/*;q=0.8"), wants_page("/api/status", "text/html")
    (True, False)
    """
    return "text/html" in accept and not path.startswith(_PROGRAMS)


def problem(
    status: int, message: str, *, as_page: bool = False, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an answer that says what is wrong."""
    if not as_page:
        return JSONResponse({"error": message}, status, headers)
    title = responses.get(status, "Error")
    if message == title:  # nobody has said more
        message = "There is no such page here." if status == 404 else "This cannot be done here."
    body = f'<h1>{escape(title)}</h1>\n<p>{escape(message)}</p>\n<p><a href="/">To the overview</a></p>'
    return page(title, body, status, headers)


def page(title: str, body: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a page that needs nothing else; ``body`` is HTML."""
    return HTMLResponse(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)} - unstale</title>\n"
        '<meta name="color-scheme" content="light dark">\n'
        '<link rel="icon" href="/static/icon.svg" type="image/svg+xml">\n'
        '<link rel="stylesheet" href="/static/style.css">\n</head>\n'
        f'<body class="bare">\n<main>\n{body}\n</main>\n</body>\n</html>\n',
        status,
        headers,
    )
