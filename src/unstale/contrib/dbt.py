"""dbt: writes ``sources.json``, so that ``dbt build --select source_status:fresher+`` builds what is new.

``python -m unstale.contrib.dbt --mirror DIR --project DIR``, instead of ``dbt source freshness``: no query is
made, since the mirror knows when each table was seen to change. A source of dbt is the element that its
``meta: {unstale: KEY}`` names, or the one table of the mirror with its schema and name.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from unstale.errors import InvalidInput, UnstaleError
from unstale.mirror.config.file import FILE, load
from unstale.mirror.json_values import moment
from unstale.mirror.mirror import Mirror
from unstale.mirror.store.contract import Element
from unstale.tables.atomic_files import replacing

__all__ = ["sources_json", "write_sources"]

_SCHEMA = "https://schemas.getdbt.com/dbt/sources/v3.json"


def sources_json(
    manifest: Mapping[str, Any], elements: Iterable[tuple[Element, float]], now: float
) -> dict[str, Any]:
    """Return the freshness of the sources of a project that are elements, as dbt writes it.

    ``elements``: each with the moment at which its latest version was seen.
    """
    changed = {element.key: (element, seen) for element, seen in elements}
    tables: dict[str, list[str]] = {}
    for key in changed:
        tables.setdefault(key.partition("#")[2].lower(), []).append(key)
    results = []
    for unique_id, source in sorted(manifest["sources"].items()):
        named = _key_of(source, tables)
        if named is None or named not in changed:
            continue
        element, seen = changed[named]
        results.append(
            {
                "unique_id": unique_id,
                "max_loaded_at": moment(seen),
                "snapshotted_at": moment(element.last),
                "max_loaded_at_time_ago_in_s": max(now - seen, 0.0),
                "status": "pass",
                "criteria": {"warn_after": None, "error_after": None, "filter": None},
                "adapter_response": {},
                "timing": [],
                "thread_id": "unstale",
                "execution_time": 0.0,
            }
        )
    return _artifact(results)


def write_sources(mirror: Mirror, project: Path, state: Path) -> int:
    """Write ``target/sources.json`` of a project; return how many of its sources are elements.

    If there is no ``sources.json`` in ``state`` yet, an empty one is written: then all is fresher.
    """
    target = project / "target"
    try:
        manifest = json.loads((target / "manifest.json").read_text("utf-8"))
    except OSError:
        raise InvalidInput(f"there is no {target / 'manifest.json'}; run: dbt parse") from None
    named = {str(said["unstale"]) for said in map(_meta, manifest["sources"].values()) if "unstale" in said}
    found = []
    for element in mirror.elements():
        if element.version is not None and (element.source == "sql" or element.key in named):
            with mirror.store.begin() as t:
                (latest,) = t.versions(element=element.id, limit=1, latest_first=True)
            found.append((element, latest.time))
    told = sources_json(manifest, found, mirror.clock.now())
    _write(target / "sources.json", told)
    if not (state / "sources.json").exists():
        _write(state / "sources.json", _artifact([]))
    return len(told["results"])


def _key_of(source: Mapping[str, Any], tables: Mapping[str, list[str]]) -> str | None:
    """Return the key of the element that a source of dbt is; None if it is none."""
    said = _meta(source)
    if "unstale" in said:
        return str(said["unstale"])
    names = (f"{source['schema']}.{source['identifier']}", source["identifier"])
    found = next((tables[name.lower()] for name in names if name.lower() in tables), [])
    if len(found) > 1:
        raise InvalidInput(
            f"{source['unique_id']} may be {' or '.join(sorted(found))}; say which: meta: {{unstale: KEY}}"
        )
    return found[0] if found else None


def _meta(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a project says of a source, for others than dbt."""
    return {**source.get("meta", {}), **source.get("config", {}).get("meta", {})}


def _artifact(results: list[dict[str, Any]]) -> dict[str, Any]:
    said = {
        "dbt_schema_version": _SCHEMA,
        "dbt_version": "1.9.0",
        "generated_at": datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "invocation_id": str(uuid.uuid4()),
        "env": {},
    }
    return {"metadata": said, "results": results, "elapsed_time": 0.0}


def _write(path: Path, told: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(str(path)) as file:
        file.write(json.dumps(told).encode())


@click.command()
@click.option("--mirror", "where", default=".", help="The folder of the mirror, or its mirror.toml.")
@click.option("--project", default=".", help="The folder of the project of dbt.")
@click.option("--state", default="state", help="The folder that dbt build gets as --state.")
def main(where: str, project: str, state: str) -> None:
    """Write target/sources.json of a project of dbt, by what a mirror knows."""
    place = Path(where)
    try:
        config = load(place / FILE if place.is_dir() else place)
        with Mirror(config.store, settings=config.settings, copies=config.copies) as mirror:
            count = write_sources(mirror, Path(project), Path(project, state))
    except UnstaleError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{count} sources of dbt are elements of the mirror.")


if __name__ == "__main__":
    main()
