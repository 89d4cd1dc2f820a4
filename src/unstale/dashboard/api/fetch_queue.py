"""Where fetchers queue: all that wait are served in one transaction, so that many are as quick as one."""

from __future__ import annotations

import asyncio
from functools import partial

from unstale.dashboard.mirror_gateway import MirrorGateway
from unstale.errors import InvalidInput
from unstale.mirror.engine.fetchers import FetchDesk, LeaseRequest, Reported, ReportRequest, TakenLeases
from unstale.mirror.mirror import Mirror

_MOST_AT_ONCE = 20
"""Requests in one transaction: others who write wait for it."""

_Request = LeaseRequest | ReportRequest
_Answer = TakenLeases | Reported


class FetchQueue:
    """Requests of fetchers that wait for the store."""

    def __init__(self, gateway: MirrorGateway, desk: FetchDesk) -> None:
        self._gateway, self._desk = gateway, desk
        self._waiting: list[tuple[_Request, asyncio.Future[_Answer]]] = []
        self._serving: asyncio.Task[None] | None = None

    async def ask(self, request: _Request) -> _Answer:
        """Wait for the answer to a request, or raise why there is none."""
        future: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        if self._serving is None or self._serving.done():
            self._serving = asyncio.create_task(self._serve())
        return await future

    async def _serve(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:_MOST_AT_ONCE], self._waiting[_MOST_AT_ONCE:]
            asked = [request for request, _ in batch]
            answers: list[_Answer | Exception]
            try:
                answers = list(await self._gateway.change(partial(self._answers, asked), forget=False))
            except Exception as error:  # noqa: BLE001  (each of them is told)
                answers = [error] * len(batch)
            for (_, future), answer in zip(batch, answers, strict=True):
                if future.done():  # nobody waits for it any more
                    continue
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

    def _answers(self, asked: list[_Request], _: Mirror) -> list[TakenLeases | Reported | InvalidInput]:
        return self._desk.serve(asked)
