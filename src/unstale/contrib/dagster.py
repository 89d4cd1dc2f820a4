"""Dagster: a sensor that tells of new versions of assets, and starts a run when there are some."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster

from unstale.errors import Trouble

from .change_feed import ChangeFeed

__all__ = ["changes_sensor"]


def changes_sensor(
    assets: Mapping[str, str],
    *,
    server: str = "http://127.0.0.1:8321",
    token: str | None = None,
    name: str = "unstale_changes",
    seconds: int = 30,
    **options: Any,  # noqa: ANN401  (those of dagster.sensor)
) -> dagster.SensorDefinition:
    """Return a sensor of the changes of elements.

    Each change becomes an observation of its asset, whose data version is the digest of the content. All
    changes since the last tick together start one run of ``job`` or ``target``. The cursor is the number of
    the last change, so nothing starts a run twice, whatever is restarted; the first tick begins with what
    comes next.

    Parameters
    ----------
    assets
        the key of an element, and the asset that it is
    server, token
        where the mirror is served, and a token that is to read
    name
        of the sensor
    seconds
        between two ticks, at least
    options
        ``job`` or ``target``, ``default_status`` and others of `dagster.sensor`
    """
    feed = ChangeFeed(server, assets, token=token)

    @dagster.sensor(name=name, minimum_interval_seconds=seconds, **options)  # type: ignore[untyped-decorator]
    def sensor(context: dagster.SensorEvaluationContext) -> dagster.SensorResult:
        try:
            if not context.cursor:
                said = "changes are looked for from now on"
                return dagster.SensorResult(skip_reason=said, cursor=str(feed.last()))
            changes, last = feed.after(int(context.cursor))
        except Trouble as error:
            return dagster.SensorResult(skip_reason=str(error), cursor=context.cursor)
        if not changes:
            return dagster.SensorResult(skip_reason="nothing has changed", cursor=str(last))
        events = [
            dagster.AssetObservation(
                assets[change.key].split("/"),
                metadata={"unstale/change": change.number, "unstale/seen": change.time},
                tags={"dagster/data_version": change.digest},
            )
            for change in changes
        ]
        run = dagster.RunRequest(run_key=f"unstale-{last}", tags={"unstale/change": str(last)})
        return dagster.SensorResult(run_requests=[run], asset_events=events, cursor=str(last))

    return sensor
