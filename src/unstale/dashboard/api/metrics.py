"""``/metrics`` for Prometheus, and ``/healthz``."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder

from unstale.dashboard.guard import ADMITTED
from unstale.dashboard.mirror_gateway import MirrorGateway
from unstale.errors import Trouble
from unstale.mirror.mirror import Mirror
from unstale.mirror.reports.status import Status, live_workers

from .models import Health, problems

_MOST_GROUPS = 50
"""Groups that are told apart; the others are one."""
_OTHER = "other"
_SECRET = "the store cannot be used; show the token to be told why"  # noqa: S105
_POLLS_PER_READ, _MOST_READS_PER_REQUEST = 50_000, 10
"""Polls that are counted at once, and how often at each request."""


def router(gateway: MirrorGateway) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(tags=["mirror"])
    polls = _PollCounter()

    @routes.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"*/*": {}}, "description": "As Prometheus reads it."}, **problems()},
    )
    async def metrics(request: Request) -> Response:
        """Tell what Prometheus collects."""
        status = await gateway.status()
        counted = await gateway.do(polls.count)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collector(status, counted))
        try:
            encode, kind = choose_encoder(request.headers.get("accept", ""))
        except (TypeError, ValueError):  # it asks for a version that is no number
            encode, kind = choose_encoder("")
        return Response(encode(registry), headers={"Content-Type": kind})

    @routes.get("/healthz", responses={**problems(), 503: {"model": Health, "description": "It cannot."}})
    async def healthz(
        request: Request,
        response: Response,
        running: Annotated[bool, Query(description="Whether somebody must be polling.")] = False,  # noqa: FBT002
    ) -> Health:
        """Tell whether the mirror can be used."""
        try:
            runs = await gateway.kept("workers", _runs, fresh_for=1.0)
        except Trouble as trouble:
            detail = str(trouble) if request.scope.get(ADMITTED) else _SECRET
            health = Health(status="trouble", running=False, detail=detail)
        else:
            well = runs or not running
            detail = "" if well else "nobody is polling; start with: unstale run"
            health = Health(status="ok" if well else "trouble", running=runs, detail=detail)
        response.status_code = 200 if health.status == "ok" else 503
        return health

    return routes


def _runs(mirror: Mirror) -> bool:
    """Tell whether somebody polls."""
    with mirror.store.begin() as t:
        return bool(live_workers(t, mirror.clock.now()))


class _PollCounter:
    """Counts polls, from the first look on, so that numbers never fall."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._traffic = 0.0
        self._last: int | None = None
        self._names: dict[int, str] = {}
        self._told: set[str] = set()
        self._lock = threading.Lock()

    def count(self, mirror: Mirror) -> tuple[dict[tuple[str, str], int], float]:
        """Return polls by group and outcome, and bytes."""
        with self._lock, mirror.store.begin() as t:
            if self._last is None:
                latest = t.polls(None, 1)
                self._last = latest[0].id if latest else 0
            for _ in range(_MOST_READS_PER_REQUEST):
                heard = t.heard(self._last, _POLLS_PER_READ)
                if not heard.poll.size:
                    break
                self._last = int(heard.poll[-1])
                self._traffic += float(heard.traffic.sum())
                group: dict[int, int] = {}
                for columns in t.load(sorted(set(heard.element.tolist()))):
                    group.update(zip(columns.id.tolist(), columns.group.tolist(), strict=True))
                if not set(group.values()) <= self._names.keys():
                    self._names = {one.id: one.name for one in t.groups()}
                for element, outcome in zip(heard.element.tolist(), heard.outcome, strict=True):
                    self._counts[self._label(self._names.get(group.get(element, 0), _OTHER)), outcome] += 1
            return dict(self._counts), self._traffic

    def _label(self, name: str) -> str:
        """Return how a group is called: those that come first by their names."""
        if name in self._told or len(self._told) < _MOST_GROUPS:
            self._told.add(name)
            return name
        return _OTHER


class _Collector:
    """Tells Prometheus what is known."""

    def __init__(self, status: Status, counted: tuple[dict[tuple[str, str], int], float]) -> None:
        self._status, self._counted = status, counted

    def collect(self) -> Iterator[Metric]:
        """Return what there is; what is not known is left out."""
        status = self._status
        span, kept, first = "in the last day", status.reserve, status.first_copies
        for name, value, text in (
            ("freshness", status.freshness.value, "Estimated weighted share of copies that are fresh."),
            ("freshness_low", status.freshness.low, "Lower end of a 90 % interval of the freshness."),
            ("freshness_high", status.freshness.high, "Upper end of a 90 % interval of the freshness."),
            ("freshness_predicted", status.predicted, "Freshness that the budget buys, by the plan."),
            ("age_seconds", status.age, "Weighted mean of the expected ages of copies."),
            ("price", status.price, "What a poll must be worth, per unit of budget."),
            ("budget_polls_per_second", status.budget, "Budget of polls."),
            ("budget_bytes_per_second", status.byte_budget, "Budget of bytes."),
            ("spent_polls_per_second", status.spent, f"Polls, {span}."),
            ("spent_bytes_per_second", status.traffic, f"Bytes that polls moved, {span}."),
            ("reserve_seconds", None if kept is None else kept.span, "Seconds of which budget is kept."),
            ("reserve_level", None if kept is None else kept.level, "Share of the reserve that is there."),
            ("first_copies_missing", 0 if first is None else first.total - first.done, "Never polled."),
            ("overdue", status.overdue, "Elements that are worth far more than the price."),
            ("running", status.running, "Whether somebody polls."),
            ("workers", status.workers, "Processes that poll."),
            ("groups", len(status.groups), "Groups that have elements."),
            (
                "groups_blocked",
                sum(group.blocked_until > status.now for group in status.groups),
                "Groups that are left alone for now.",
            ),
        ):
            if value is not None and isfinite(value):
                yield GaugeMetricFamily(f"unstale_{name}", text, value=float(value))
        yield _gauge("elements", "Elements by state.", "state", status.elements)
        yield _gauge("polls_last_day", f"Polls by outcome, {span}.", "outcome", status.polls)
        if status.audit is not None and isfinite(status.audit.true):
            yield GaugeMetricFamily(
                "unstale_audited_freshness", "Share of fresh copies, by the last audit.", status.audit.true
            )
        counts, traffic = self._counted
        polls = CounterMetricFamily(
            "unstale_polls", "Polls, since metrics were first asked for.", labels=["group", "outcome"]
        )
        for (group, outcome), count in sorted(counts.items()):
            polls.add_metric([group, outcome], count)
        yield polls
        yield CounterMetricFamily(
            "unstale_traffic_bytes",
            "Bytes that polls moved, since metrics were first asked for.",
            value=traffic,
        )


def _gauge(name: str, text: str, label: str, values: Mapping[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"unstale_{name}", text, labels=[label])
    for key, value in sorted(values.items()):
        family.add_metric([key], value)
    return family
