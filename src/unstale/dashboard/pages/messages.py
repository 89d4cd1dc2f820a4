"""The page of messages: who is told, what waits, alarms, and a button that sends a test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.responses import Response

from unstale.dashboard.mirror_gateway import MirrorGateway
from unstale.mirror.mirror import Mirror
from unstale.mirror.notify.report import TestResult, recipient_status, send_test
from unstale.mirror.reports.alarms import AlarmLog

_ALARMS_SHOWN = 20
_TEST_EVERY_SECONDS = 2.0
"""Between two test messages, whoever asks for them."""


def add_message_pages(routes: APIRouter, gateway: MirrorGateway, render: Callable[..., Response]) -> None:
    """Add the page to the routes."""
    sending = asyncio.Lock()

    async def page(tests: Sequence[TestResult] = ()) -> Response:
        def work(mirror: Mirror) -> dict[str, object]:
            with mirror.store.begin() as t:
                alarms = AlarmLog(t.state()).latest[-_ALARMS_SHOWN:][::-1]
            found = recipient_status(mirror.settings.notify, mirror.store)
            return {"recipients": found, "alarms": alarms, "now": mirror.clock.now()}

        return render("notify.html", tests=tests, **await gateway.do(work))

    @routes.get("/notify")
    async def notify() -> Response:
        return await page()

    @routes.post("/notify/{number}/test")
    async def test(number: int) -> Response:
        async with sending:
            mirror = gateway.mirror
            done = await send_test(mirror.settings.notify, mirror.clock.now(), number)
            await asyncio.sleep(_TEST_EVERY_SECONDS if done else 0.0)
        if not done:
            raise HTTPException(404, f"there is no recipient number {number} in this mirror")
        return await page(done)
