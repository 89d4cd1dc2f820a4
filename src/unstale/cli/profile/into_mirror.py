"""``unstale profile --into-mirror``: accesses in logs as reads of the copies of a mirror."""

from __future__ import annotations

from time import time

from unstale.cli.shared.printing import console, print_json
from unstale.tables import AccessLog, Requests
from unstale.wording import plural

_DAY_SECONDS = 86400.0


def read_into_mirror(
    mirror_file: str,
    logs: tuple[str, ...],
    requests: Requests,
    *,
    kind: str | None,
    fields: dict[str, str],
    until: float | None,
    as_json: bool,
) -> None:
    """Count accesses in logs as reads of a mirror, and say what came of it.

    Parameters
    ----------
    mirror_file
        The mirror.toml of the mirror.
    logs, requests, kind, fields, until
        As for ``unstale profile``.
    as_json
        Whether to print JSON.
    """
    from unstale.cli.mirror.open import open_mirror
    from unstale.mirror.exchange.access_reads import take_in_accesses

    with open_mirror(mirror_file) as opened:
        users = opened.mirror.settings.reads.users != "no"
        latest = min(time() if until is None else until, time() + _DAY_SECONDS)
        readers = [
            AccessLog(log, kind=kind, fields=fields, requests=requests, users=users, until=latest)
            for log in logs
        ]
        got = take_in_accesses(opened.mirror, (part for one in readers for part in one.read(lambda _: None)))
    if as_json:
        print_json(got.to_json())
        return
    told = f"{plural(got.reads, 'read')} of {plural(got.elements, 'element')} counted"
    if got.unknown:
        told += f"; {got.unknown:,} of what is not in the mirror"
    if got.before:
        told += f"; {got.before:,} were counted before"
    console().print(told)
