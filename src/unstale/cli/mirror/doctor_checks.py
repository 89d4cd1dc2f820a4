"""What ``unstale doctor`` looks at: each check says what it found, and what to do."""

from __future__ import annotations

import asyncio
import math
import os
import shutil
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal

from sqlalchemy import make_url
from sqlalchemy.exc import SQLAlchemyError

from unstale.cli.shared.progress import progress
from unstale.errors import InvalidInput, Trouble, UnstaleError
from unstale.mirror.config.file import Config, without_password
from unstale.mirror.engine.load_policy import load_sample
from unstale.mirror.engine.planner_state import PlannerState
from unstale.mirror.reports.gone import lost_groups
from unstale.mirror.reports.status import live_workers
from unstale.mirror.reports.windows import window_trouble
from unstale.mirror.secrets import HARMLESS_HEADERS, for_strangers, literal_secrets, origin
from unstale.mirror.settings import Settings
from unstale.mirror.source import Found, Known, Terms
from unstale.mirror.sources.registry import source_named
from unstale.mirror.sources.sql.database import error_words, open_database
from unstale.mirror.sources.sql.reading_only import rights_beyond_reading
from unstale.mirror.sql_engine import close_engine
from unstale.mirror.store.bucket import Bucket
from unstale.mirror.store.contract import Element
from unstale.quantities import show_duration
from unstale.wording import plural, show_budget, show_size, show_time

from .open import Opened, configured, open_mirror
from .status import bottlenecks

_DAY_SECONDS = 86400.0
_FEW_BYTES_FREE, _TOO_FEW_BYTES_FREE = 2e9, 1e8
"""Of disk space: a warning, and an error."""
_FIRST_POSSIBLE_SECOND = 1_735_689_600.0
"""The clock cannot be right if it says that it is before 2025."""
_MOST_FAULTS_SHOWN = 10
"""Of what is wrong with the store, or with copies."""
_COPIES_AT_ONCE = 1000
"""Copies that are read between two looks into the store."""
_MOST_ELEMENTS = 200_000
"""That are looked at one by one."""


@dataclass(frozen=True)
class Check:
    """What one check found."""

    level: Literal["ok", "warn", "error"]
    subject: str
    found: str
    todo: str = ""


def check_mirror(file: str | None, sample: int, *, deep: bool) -> list[Check]:
    """Check all there is, as far as the mirror can be opened; ``deep`` reads all copies."""
    try:
        config = configured(file)
    except InvalidInput as error:
        return [Check("error", "configuration", str(error))]
    checks = check_settings(config)
    try:
        with open_mirror(file) as opened:
            with progress("checking the store"):
                checks += check_all(opened)
            if deep:
                with progress("reading all copies"):
                    checks += check_copies(opened)
            if sample:
                with progress("polling a sample"):
                    checks += check_sources(opened, sample)
    except (InvalidInput, Trouble) as error:
        checks.append(Check("error", "store", str(error)))
    return checks


def check_settings(config: Config) -> list[Check]:
    """Check what mirror.toml says."""
    settings = config.settings
    said = [
        plural(len(settings.rules), "rule"),
        plural(len(settings.groups) - 1, "limit") + " of groups",
        plural(len(settings.databases), "database"),
    ]
    checks = [Check("ok", "configuration", f"{config.path}: {', '.join(said)}")]
    if settings.contact or settings.http.user_agent:
        checks.append(Check("ok", "contact", settings.contact or "in the user_agent"))
    else:
        todo = 'add contact = "you@example.org" below [mirror]'
        checks.append(Check("warn", "contact", "owners of sites cannot reach you", todo))
    if not settings.http.verify:
        todo = "name your own certificates with ca_file instead"
        checks.append(Check("warn", "certificates", "they are not checked (verify = false)", todo))
    if settings.replicas.folder is not None and not Path(settings.replicas.folder).is_dir():
        checks.append(Check("error", "replicas", f"{settings.replicas.folder}: it is not there", "make it"))
    if settings.hint_file is not None and not Path(settings.hint_file).parent.is_dir():
        checks.append(Check("error", "hints", f"{settings.hint_file}: its folder is not there", "make it"))
    for one in settings.notify:
        if one.command and shutil.which(one.command[0]) is None:
            told = f"there is no command {one.command[0]!r}"
            checks.append(Check("error", "notify", told, "install it, or correct [[notify]]"))
    return checks + _check_headers(config) + _check_drivers(config)


def _check_headers(config: Config) -> list[Check]:
    """Check that secrets are not written out in the file, nor sent to every host."""
    settings, lines = config.settings, config.lines
    todo = 'write it as "${NAME}", and set that variable of the environment'
    checks = []
    for i, rule in enumerate(settings.rules):
        for name in literal_secrets(rule.options):
            told = f"[[rule]] in line {lines.get(('rule', i))} has the value of the header {name} written out"
            checks.append(Check("warn", "secrets", told, todo))
    for name in settings.http.headers:
        if name.lower() not in HARMLESS_HEADERS:
            told = f"[http] headers: {name} goes to every host, also to those that feeds and sitemaps name"
            checks.append(Check("warn", "secrets", told, "if it is a secret, move it to a [[rule]]"))
    return checks


def _check_drivers(config: Config) -> list[Check]:
    """Check that databases have drivers; addresses may have passwords, and are not repeated."""
    checks = []
    for name, database in config.settings.databases.items():
        try:
            make_url(database.url).get_dialect().import_dbapi()
        except ModuleNotFoundError as error:
            told = f"[databases.{name}] needs the Python package {error.name}"
            checks.append(Check("error", "databases", told, f"pip install {error.name}"))
        except SQLAlchemyError:
            told = f"[databases.{name}] url is not an address that SQLAlchemy knows"
            checks.append(Check("error", "databases", told, "see docs/how-to/mirror-tables.md"))
    return checks


def check_all(opened: Opened) -> list[Check]:
    """Check the store and all that depends on it."""
    return [
        *_check_store(opened),
        *_check_file_rights(opened),
        *_check_secrets(opened),
        *_check_space(opened),
        *_check_clock(opened),
        *_check_budget(opened),
        *_check_groups(opened),
        *_check_names(opened),
        *_check_health(opened),
    ]


def _check_store(opened: Opened) -> list[Check]:
    if (lacking := opened.mirror.store.lacking()) is not None:
        todo = "use PostgreSQL itself: on this one two planners could run at the same time"
        return [Check("error", "store", f"it only looks like PostgreSQL: {lacking}", todo)]
    if (foreign := opened.mirror.store.foreign_copies()) is not None:
        told, _, todo = foreign.partition("; ")
        return [Check("error", "copies", told, todo)]
    wrong = opened.mirror.store.check()
    if wrong:
        todo = "stop the runner of the mirror, and restore a back-up; unstale export saves what is not wrong"
        moved = (
            "if copies were moved, set copies in mirror.toml to where they are; else run the mirror: the "
            "latest are fetched again"
        )
        return [
            Check("error", "store", told, moved if ": its copy" in told else todo)
            for told in wrong[:_MOST_FAULTS_SHOWN]
        ] + [Check("error", "store", f"and {len(wrong) - _MOST_FAULTS_SHOWN:,} more")] * (
            len(wrong) > _MOST_FAULTS_SHOWN
        )
    return [
        Check("ok", "store", f"{without_password(opened.config.store)}: whole, and all its copies are there")
    ]


def check_copies(opened: Opened) -> list[Check]:
    """Read the latest copy of each element; have those that are damaged fetched again."""
    mirror, where = opened.mirror, opened.mirror.copies.place.address
    damaged: list[int] = []
    after, count = 0, 0
    while True:
        with mirror.store.begin() as t:
            some = t.latest(after, _COPIES_AT_ONCE)
        if not some:
            break
        after, count = some[-1][0], count + len(some)
        damaged += [element for element, digest in some if mirror.copies.is_damaged(digest)]
    if not damaged:
        return [Check("ok", "copies", f"{where}: {plural(count, 'latest copy')} read, none damaged")]
    with mirror.store.begin() as t:
        t.refetch(damaged)
        keys = [element.key for element in t.numbered(damaged[:_MOST_FAULTS_SHOWN]).values()]
    told = f"{where}: {len(damaged):,} of {plural(count, 'latest copy')} damaged: {', '.join(keys)}"
    more = f" and {len(damaged) - len(keys):,} more" if len(damaged) > len(keys) else ""
    todo = "the next poll of each fetches it again; check the disk"
    return [Check("error", "copies", told + more, todo)]


def _check_file_rights(opened: Opened) -> list[Check]:
    """Check that nobody can read the store and the copies but those who should."""
    mirror = opened.mirror
    shared = mirror.copies.shared
    store = mirror.store.url.removeprefix("sqlite:///")
    ours = [Path(store)] if "://" not in store else []
    checks = []
    for path in [*ours, *mirror.copies.place.own_files] if os.name != "nt" else []:
        mode = path.stat().st_mode & 0o777 if path.exists() else 0
        if mode & (0o007 if shared else 0o077):
            all_in_it = "-R " if path.is_dir() else ""
            todo = f"chmod {all_in_it}{'o' if shared else 'go'}-rwx {path}"
            if not shared:
                todo += ', or say shared = "group" below [mirror] if that is meant'
            told = f"{path}: others can read it (its mode is {mode:04o})"
            checks.append(Check("warn", "rights", told, todo))
    return checks


def _check_secrets(opened: Opened) -> list[Check]:
    """Check for elements with secrets that are written out, and for some that may lack one."""
    rules = [
        rule
        for rule in opened.mirror.settings.rules
        if not rule.trust_discovered and for_strangers(rule.options) != rule.options
    ]
    literal: list[str] = []
    without: list[str] = []
    for element in islice(opened.mirror.elements(), _MOST_ELEMENTS):
        options = element.given.get("options")
        if isinstance(options, dict) and literal_secrets(options):
            literal.append(element.key)
        foreign = element.given.get("author", origin(element.key)) != origin(element.key)
        denied = element.state == "failing" and element.detail.startswith(("401", "403"))
        if foreign and denied and any(rule.matches(element.key) for rule in rules):
            without.append(element.key)
    checks = []
    if literal:
        told = f"{plural(len(literal), 'element')} with a header that may be a secret, such as {literal[0]}"
        todo = 'write its value as "${NAME}", or say it in a [[rule]]'
        checks.append(Check("warn", "secrets", told, todo))
    if without:
        told = (
            f"{plural(len(without), 'element')} named by another host, so without secrets of rules, and "
            f"refused by the server, such as {without[0]}"
        )
        todo = "add what you trust yourself, or say trust_discovered = true in the [[rule]]"
        checks.append(Check("warn", "secrets", told, todo))
    return checks


def _check_space(opened: Opened) -> list[Check]:
    """Check that copies can be written, and that there is room for them."""
    copies = opened.mirror.copies.place
    if isinstance(copies, Bucket):
        try:
            return [Check("ok", "copies", copies.try_out())]
        except Trouble as error:
            return [Check("error", "copies", str(error))]
    place = folder = copies.own_files[0]
    while not place.exists() and place != place.parent:
        place = place.parent
    if not os.access(place, os.W_OK):
        return [Check("error", "copies", f"{folder}: cannot be written to", "correct its permissions")]
    free = shutil.disk_usage(place).free
    told = f"{folder}: {show_size(free)} free"
    if free < _TOO_FEW_BYTES_FREE:
        return [Check("error", "copies", told, "make room, or keep fewer versions (keep in mirror.toml)")]
    if free < _FEW_BYTES_FREE:
        return [Check("warn", "copies", told, "make room soon, or keep fewer versions (keep in mirror.toml)")]
    return [Check("ok", "copies", told)]


def _check_clock(opened: Opened) -> list[Check]:
    from unstale.mirror.reports.status import TOLD_SKEW_SECONDS, skew_words

    now, skew = opened.mirror.clock.now(), opened.mirror.clock.skew
    if abs(skew) > TOLD_SKEW_SECONDS:
        return [Check("error", "clock", skew_words("this machine", skew), "set it, or let NTP do that")]
    last = next((poll.time for poll in opened.mirror.polls(limit=1)), 0.0)
    if now < _FIRST_POSSIBLE_SECOND:
        return [Check("error", "clock", f"it says {show_time(now)}", "set it, or let NTP do that")]
    if last > now + 60:
        told = f"the last poll is from {show_time(last)}, which is {show_duration(last - now)} ahead"
        return [Check("error", "clock", told, "set the clock, or let NTP do that")]
    return [Check("ok", "clock", show_time(now))]


def _check_budget(opened: Opened) -> list[Check]:
    """Check that the budget is enough for what max_age demands, and for a poll of each now and then."""
    with opened.mirror.store.begin() as t:
        settings = PlannerState.read(t.state()).in_force(opened.mirror.settings)
    demand, bytes_demanded, urgent, count = 0.0, 0.0, 0, 0
    for element in opened.mirror.elements():
        count += 1
        if count > _MOST_ELEMENTS:
            break
        if math.isfinite(element.max_age):
            urgent += 1
            demand += 1.0 / element.max_age
            bytes_demanded += (element.size if math.isfinite(element.size) else 0.0) / element.max_age
    shown = show_budget(settings.budget, settings.byte_budget)
    polls, moved = settings.budget or math.inf, settings.byte_budget or math.inf
    if demand > polls or bytes_demanded > moved:
        needed = show_budget(
            demand if demand > polls else None, bytes_demanded if bytes_demanded > moved else None
        )
        told = f"max_age of {plural(urgent, 'element')} needs {needed}, but there are {shown}"
        return [Check("error", "budget", told, "raise the budget, or max_age")]
    if demand > 0.8 * polls:
        told = f"max_age of {plural(urgent, 'element')} needs {demand / polls:.0%} of {shown}"
        return [Check("warn", "budget", told, "raise the budget: it leaves little for the other elements")]
    if count and polls * 30 * 86400 < count:
        told = f"{shown} for {plural(count, 'element')} is less than a poll of each in a month"
        return [Check("warn", "budget", told, "raise the budget, or remove elements")]
    if settings != opened.mirror.settings:
        said = show_budget(opened.mirror.settings.budget, opened.mirror.settings.byte_budget)
        shown += f", which you set later; mirror.toml says {said}"
    return [Check("ok", "budget", shown), *_check_reserve(settings, count)]


def _check_reserve(settings: Settings, count: int) -> list[Check]:
    """Check that the reserve can be used, and that what is kept is not too much to be spent at once."""
    reserve, fastest = settings.reserve, settings.fastest
    checks = []
    if fastest is not None and settings.budget is not None and fastest < settings.budget:
        told = f"max_rate, {show_budget(fastest, None)}, is less than the budget"
        checks.append(
            Check(
                "warn", "reserve", told, "raise max_rate, or lower the budget: the mirror can never spend it"
            )
        )
    if reserve > 31 * _DAY_SECONDS:
        told = f"reserve is {show_duration(reserve)}: after a pause, so much may be spent in one day"
        checks.append(Check("warn", "reserve", told, "a day or a week is enough for busy days"))
    if settings.budget is not None and 0 < reserve * settings.budget < 1:
        told = f"reserve is {show_duration(reserve)}, in which the budget pays for less than one poll"
        checks.append(Check("warn", "reserve", told, 'give it more time, or say reserve = "0"'))
    if not reserve and settings.budget is not None and count > _DAY_SECONDS * settings.budget:
        told = f"without a reserve, first copies of {plural(count, 'element')} take more than a day"
        checks.append(Check("warn", "reserve", told, 'reserve = "1 day" pays for them at once'))
    return checks


def _check_groups(opened: Opened) -> list[Check]:
    """Check that windows and the spacing of groups let the budget be spent."""
    mirror = opened.mirror
    with mirror.store.begin() as t:
        policy, _ = load_sample(mirror.settings, t)
    windows = window_trouble(policy, mirror.clock.now())
    todo = (
        "if the owner of the host agrees, lower its spacing in [[group]] of mirror.toml; or lower the budget"
    )
    wider = "widen [[rule]] windows, or lower the budget"
    return [
        *(Check("warn", "group", line, todo) for line in bottlenecks(mirror.status())[:10]),
        *(Check("warn", "windows", line, wider) for line in windows),
    ]


def _check_names(opened: Opened) -> list[Check]:
    """Check that patterns in mirror.toml mean something."""
    settings, lines = opened.config.settings, opened.config.lines
    with opened.mirror.store.begin() as transaction:
        groups = [group.name for group in transaction.groups()]
    checks = []
    for i, limit in enumerate(settings.groups[:-1]):
        if groups and not any(limit.matches(name) for name in groups):
            near = next((name for name in groups if limit.match.split(":")[-1] in name), groups[0])
            told = f"[[group]] in line {lines.get(('group', i))} matches no group: {limit.match!r}"
            checks.append(Check("warn", "groups", told, f"groups are called like {near!r}"))
    for i, rule in enumerate(settings.rules):
        if rule.match != "*" and groups and next(iter(opened.mirror.elements(rule.match)), None) is None:
            told = f"[[rule]] in line {lines.get(('rule', i))} matches no element: {rule.match!r}"
            checks.append(Check("warn", "rules", told, "correct the pattern, or add elements that match it"))
    return checks


def _check_health(opened: Opened) -> list[Check]:
    """Check how elements do, and whether somebody polls them."""
    with opened.mirror.store.begin() as transaction:
        states = transaction.count()
        running = bool(transaction.workers(opened.mirror.clock.now()))
        policy, _ = load_sample(opened.mirror.settings, transaction)
    count = sum(number for state, number in states.items() if state != "removed")
    again = opened.again
    if not count:
        return [Check("warn", "elements", "there are none", f"unstale add{again} KEY")]
    bad = states.get("failing", 0) + states.get("refused", 0)
    told = f"{plural(count, 'element')}, {f'{bad:,} of which fail or are refused' if bad else 'none fails'}"
    checks = [
        Check(
            "warn" if bad > 0.1 * count else "ok",
            "elements",
            told,
            f"see unstale status{again}" if bad else "",
        )
    ]
    if gone := states.get("gone", 0):
        losses = [str(one) for one in lost_groups(policy)]
        told = (
            f"{gone:,} of {plural(count, 'element')} {'is' if gone == 1 else 'are'} gone; their copies stay"
        )
        level: Literal["ok", "warn"] = "warn" if losses or gone > 0.5 * count else "ok"
        todo = f"see unstale status{again}, and remove what does not come back" if level == "warn" else ""
        checks.append(Check(level, "gone", told, todo))
        checks += [Check("warn", "gone", *one.split(". ", 1)) for one in losses[:_MOST_FAULTS_SHOWN]]
    if running:
        checks.append(Check("ok", "runner", "the mirror is running"))
    else:
        checks.append(Check("warn", "runner", "nobody polls", opened.start))
    return checks


def check_sources(opened: Opened, sample: int) -> list[Check]:
    """Poll a few elements, each of another group, and see whether their sources answer."""
    chosen: dict[str, Element] = {}
    with opened.mirror.store.begin() as transaction:
        if sample and live_workers(transaction, opened.mirror.clock.now()):
            told = f"the mirror is running, so unstale doctor polls nothing; see unstale status{opened.again}"
            return [Check("ok", "sources", told)]  # polls from here would come on top of its budget
        now = opened.mirror.clock.now()
        blocked = {group.name for group in transaction.groups() if group.blocked_until > now}
    for i, element in enumerate(opened.mirror.elements()):
        if len(chosen) == sample or i > _MOST_ELEMENTS:
            break
        if element.group not in blocked and element.source != "python":
            chosen.setdefault(element.group, element)
    checks = _check_database_rights(opened)
    if not chosen:
        return checks
    found = asyncio.run(_polled(opened, list(chosen.values())))
    for element, one in zip(chosen.values(), found, strict=True):
        told = f"{element.key}: {one.detail or one.outcome}"
        if one.outcome in {"failed", "refused"}:
            checks.append(
                Check("warn", f"source {element.source}", told, "try again, or look from elsewhere")
            )
        else:
            checks.append(Check("ok", f"source {element.source}", told))
    return checks


def _check_database_rights(opened: Opened) -> list[Check]:
    """Check that users of PostgreSQL may only read."""
    checks = []
    for name, database in opened.config.settings.databases.items():
        if not database.url.startswith("postgres"):
            continue
        subject = f"database {name}"
        try:
            there = open_database(name, database)
        except UnstaleError as error:
            checks.append(Check("error", subject, str(error)))
            continue
        try:
            with there.engine.connect() as connection:
                more = rights_beyond_reading(connection)
        except SQLAlchemyError as error:
            told, todo = error_words(error, there.secrets)[1], "see docs/how-to/mirror-tables.md"
            checks.append(Check("warn", subject, told, todo))
        else:
            todo = "polls need SELECT alone: give them a user with no other right"
            if more is None:
                checks.append(Check("ok", subject, "its user may only read"))
            else:
                checks.append(Check("warn", subject, f"its user {more}", todo))
        finally:
            close_engine(there.engine)
    return checks


async def _polled(opened: Opened, elements: list[Element]) -> list[Found]:
    mirror = opened.mirror
    limit = min(mirror.settings.timeout, 30.0)
    own = (*mirror.copies.place.own_files, *mirror.store.own_files)
    terms = Terms(mirror.copies.scratch, mirror.settings.max_size, limit, own=own)

    async def poll(element: Element) -> Found:
        known = Known(element.key, element.options, element.validators, element.fingerprint)
        try:
            async with asyncio.timeout(limit + 1):
                found = await source_named(mirror.sources, element.source).poll(known, terms)
        except TimeoutError:
            return Found("failed", f"no answer within {show_duration(limit)}")
        except (UnstaleError, OSError) as error:
            return Found("failed", str(error))
        if isinstance(found.body, Path):
            mirror.copies.discard(found.body)
        return replace(found, body=None)

    try:
        return await asyncio.gather(*(poll(element) for element in elements))
    finally:
        for name in {element.source for element in elements}:
            await source_named(mirror.sources, name).close()
