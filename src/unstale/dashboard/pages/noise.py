"""The page of noise: parts of an element that change at each look, and a button that ignores them."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter
from starlette.responses import RedirectResponse, Response

from unstale.dashboard.mirror_gateway import MirrorGateway, numbered
from unstale.errors import InvalidInput
from unstale.mirror.mirror import Mirror
from unstale.mirror.reports.noise import NoiseReport
from unstale.mirror.reports.noise_of_element import ignoring, noise_of

from .edit_element import there


def add_noise_pages(routes: APIRouter, gateway: MirrorGateway, render: Callable[..., Response]) -> None:
    """Add the page to the routes."""

    @routes.get("/elements/{number}/noise")
    async def noise(number: int) -> Response:
        element = await gateway.do(lambda mirror: numbered(mirror, number))

        def work(mirror: Mirror) -> NoiseReport | str:
            try:
                return noise_of(mirror.store, mirror.copies, element)
            except InvalidInput as error:
                return str(error)

        found = await gateway.kept(f"noise {number} {element.version}", work)
        report, complaint = (None, found) if isinstance(found, str) else (found, "")
        now = gateway.mirror.clock.now()
        return render("noise.html", element=element, report=report, complaint=complaint, now=now)

    @routes.post("/elements/{number}/noise")
    async def accept(number: int) -> Response:
        def work(mirror: Mirror) -> None:
            element = there(mirror, number)
            report = noise_of(mirror.store, mirror.copies, element)
            if report.ignore:
                more = ignoring(element.options, report.ignore)
                mirror.add(element.key, source=element.source, ignore=more)

        await gateway.change(work)
        return RedirectResponse(f"/elements/{number}", 303)
