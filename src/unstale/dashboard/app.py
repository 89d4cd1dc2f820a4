"""The dashboard: its parts, put together."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from unstale.errors import InvalidInput, NoAnswer, Trouble

from .access_rules import AccessRules
from .api import api, copies, feeds, fetching, metrics
from .error_responses import problem, wants_page
from .guard import GuardMiddleware
from .mirror_gateway import MirrorGateway
from .pages import pages

_STATIC = Path(__file__).parent / "static"
_ABOUT = (
    "What a mirror knows, for programs: how fresh it is, what it spends and why, its elements, copies and "
    "changes. Budgets, rates and what is spent are per second, other times are in seconds, sizes are in "
    'bytes, moments are in UTC. The answer to a request that fails is `{"error": "..."}`.'
)


def create_app(gateway: MirrorGateway, rules: AccessRules, *, early: bool = False) -> FastAPI:
    """Return the dashboard of a mirror, which it closes in the end.

    ``early``: what takes long with a million elements is begun at once, not when somebody asks for it. The
    process is the application's own.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        looking = asyncio.create_task(_begin(gateway) if early else asyncio.sleep(0))
        looking.add_done_callback(lambda done: done.cancelled() or done.exception())  # who asks will be told
        yield
        looking.cancel()
        await gateway.close()

    app = FastAPI(
        title="unstale",
        description=_ABOUT,
        version=version("unstale"),
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
        lifespan=lifespan,
    )
    app.add_middleware(GuardMiddleware, rules=rules)
    _tell_errors(app)
    gateway.trusted = rules.needs_token
    app.mount("/static", StaticFiles(directory=_STATIC), name="static")

    for part in (fetching, pages, api, copies, feeds, metrics):  # they are looked through in this order
        app.include_router(part.router(gateway))
    return app


async def _begin(gateway: MirrorGateway) -> None:
    """Look at all elements; then leave alone what has been loaded: to look at it for garbage takes long."""
    try:
        await gateway.view()
    finally:
        gc.freeze()


def _tell_errors(app: FastAPI) -> None:
    """Tell all errors in the same way."""

    def tell(request: Request, status: int, message: str, headers: dict[str, str] | None = None) -> Response:
        as_page = wants_page(request.url.path, request.headers.get("accept", ""))
        return problem(status, message, as_page=as_page, headers=headers)

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101
        return tell(request, error.status_code, str(error.detail), dict(error.headers or {}))

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101
        return tell(request, 422, "; ".join(map(_said, error.errors()[:5]))[:2000])

    async def refused(request: Request, error: Exception) -> Response:
        return tell(request, 422, str(error))

    async def trouble(request: Request, error: Exception) -> Response:
        return tell(request, 503, str(error), {"Retry-After": "5"})

    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(InvalidInput, refused)
    app.add_exception_handler(NoAnswer, refused)
    app.add_exception_handler(Trouble, trouble)


def _said(error: Mapping[str, Any]) -> str:
    """Say what is wrong with a request."""
    where = [str(one) for one in error["loc"]]
    if error["type"] == "json_invalid":
        return f"the body is not JSON: {error.get('ctx', {}).get('error', 'it cannot be read')}"
    if where == ["body"] and error["type"] == "missing":
        return "there is no body; it must be JSON"
    return f"{'.'.join(where[1:]) or where[0]}: {error['msg']}"
