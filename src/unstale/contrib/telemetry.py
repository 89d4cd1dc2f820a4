"""Traces and metrics of a mirror, sent to a collector by OpenTelemetry.

It listens to the events of a worker. Where they go, and how often, the variables of the environment say that
all programs with OpenTelemetry know: ``OTEL_EXPORTER_OTLP_ENDPOINT``, ``OTEL_METRIC_EXPORT_INTERVAL``,
``OTEL_RESOURCE_ATTRIBUTES`` and so on. Sending happens in threads of the SDK; a collector that is away costs
what was not sent, and nothing of the mirror.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib.metadata import version
from math import isfinite
from typing import Any, Self

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode

from unstale.mirror.engine.events import Event

__all__ = ["Telemetry"]

_NANOSECONDS = 1e9
_GAUGES = {
    "freshness": ("1", "Weighted share of copies that are fresh now, as estimated."),
    "price": ("1", "What a poll must be worth, per unit of budget."),
    "elements": ("{element}", "Elements that the mirror polls."),
    "gone": ("{element}", "Elements whose sources say that they are gone."),
    "in_flight": ("{poll}", "Polls that run now."),
}
"""What a tick tells of the mirror, with unit and meaning."""
_BAD = frozenset({"failed", "refused"})
_MOST_CHARACTERS = 300


class Telemetry:
    """A listener for `Mirror.run` that sends a span for each poll, and metrics of all of them.

    A poll is the span ``poll``: its outcome, traffic and element are attributes. If it failed or was refused,
    its status is that of an error. What is trouble is a span ``trouble``. The metrics are counters of polls,
    changes, traffic and troubles, a histogram of how long polls take, and gauges of freshness and price.

    Parameters
    ----------
    name
        Of the mirror; ``service.name`` unless the environment says another.
    """

    def __init__(self, name: str = "unstale") -> None:
        given = {"service.name": name, "service.version": version("unstale")}
        elsewhere = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
        if "OTEL_SERVICE_NAME" in os.environ or "service.name=" in elsewhere:
            del given["service.name"]  # which would count more than the environment
        resource = Resource(given).merge(Resource.create({}))
        if resource.attributes.get("service.name", "").startswith(
            "unknown_service"
        ):  # the environment says none
            resource = resource.merge(Resource(given))
        self._tracing = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._tracing.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        reader = PeriodicExportingMetricReader(OTLPMetricExporter())
        self._metering = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        self._tracer = self._tracing.get_tracer("unstale")
        meter = self._metering.get_meter("unstale")
        self._polls = meter.create_counter("unstale.polls", "{poll}", "Polls that were recorded.")
        self._changes = meter.create_counter("unstale.changes", "{change}", "Changes that polls saw.")
        self._traffic = meter.create_counter("unstale.traffic", "By", "Bytes that polls moved.")
        self._troubles = meter.create_counter(
            "unstale.troubles", "{trouble}", "Troubles that the mirror told."
        )
        self._seconds = meter.create_histogram("unstale.poll.duration", "s", "How long polls take.")
        self._latest: dict[str, float] = {}
        for gauge, (unit, about) in _GAUGES.items():
            meter.create_observable_gauge(f"unstale.{gauge}", [self._observer(gauge)], unit, about)

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Send what has not been sent, and end."""
        self.close()

    def __call__(self, event: Event) -> None:
        """Take an event of the mirror."""
        if event.kind == "poll":
            self._poll(event)
        elif event.kind == "change" and not event.data["first"]:
            self._changes.add(1)
        elif event.kind == "trouble":
            self._troubles.add(1)
            span = self._tracer.start_span("trouble", start_time=_nanoseconds(event.time))
            span.set_status(Status(StatusCode.ERROR, event.detail[:_MOST_CHARACTERS]))
            span.end(_nanoseconds(event.time))
        elif event.kind == "tick":
            known = {name: event.data.get(name) for name in _GAUGES}
            self._latest = {
                name: float(value)
                for name, value in known.items()
                if isinstance(value, int | float) and isfinite(value)
            }

    def close(self) -> None:
        """Send what has not been sent, for some seconds at most, and end."""
        self._metering.shutdown(timeout_millis=5000)
        self._tracing.shutdown()

    def _poll(self, event: Event) -> None:
        data = event.data
        told: dict[str, Any] = {"unstale.outcome": data["outcome"], "unstale.source": data["source"]}
        self._polls.add(1, told)
        self._traffic.add(int(data["traffic"]), told)
        self._seconds.record(float(data["seconds"]), told)
        more = {"unstale.key": event.key, "unstale.traffic": int(data["traffic"])}
        if event.detail:
            more["unstale.detail"] = event.detail[:_MOST_CHARACTERS]
        began = _nanoseconds(data["began"])
        span = self._tracer.start_span("poll", kind=SpanKind.CLIENT, start_time=began, attributes=told | more)
        if data["outcome"] in _BAD:
            span.set_status(Status(StatusCode.ERROR, event.detail[:_MOST_CHARACTERS]))
        span.end(_nanoseconds(data["began"] + data["seconds"]))

    def _observer(self, name: str) -> Any:  # noqa: ANN401
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            return [Observation(self._latest[name])] if name in self._latest else []

        return observe


def _nanoseconds(seconds: float) -> int:
    return int(seconds * _NANOSECONDS)
