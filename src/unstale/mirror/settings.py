"""What a user can say about a mirror: one frozen value, whether it comes from mirror.toml or from Python.

Times are in seconds, budgets per second. `unstale.mirror.config.file` reads and checks mirror.toml; here are
the meanings and the defaults. What may be a secret is in no repr.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from math import inf

from .source import Json

_FASTEST_TIMES, _FASTEST_AT_LEAST = 10.0, 10.0
"""At which a reserve is spent, unless it is said: times the budget, and polls per second, at least."""

POLICIES = ("optimal", "uniform", "proportional")
"""How a mirror can share its budget."""
ORDERS = ("fixed", "random", "purely-random")
"""How a mirror can spread the polls of an element over time."""

ALARMS = ("overdue", "failing", "budget", "freshness", "gone")
"""Kinds of alarms; see `unstale.mirror.reports.alarms`."""

__all__ = [
    "ALARMS",
    "ORDERS",
    "POLICIES",
    "Browser",
    "Composed",
    "Database",
    "DiscoveryLimits",
    "GroupLimit",
    "Http",
    "Notify",
    "Reads",
    "Replicas",
    "Rule",
    "Settings",
]


@dataclass(frozen=True)
class Rule:
    """What holds for all elements with such keys; of several rules the last that says it counts."""

    match: str = "*"
    """A pattern as of a shell: ``https://example.org/news/*``."""
    weight: float | None = None
    max_age: float | None = None
    """Poll at least this often, whatever that seems to be worth."""
    min_interval: float | None = None
    """Poll no more often than this."""
    objective: str | None = None
    """What they are polled for: see `unstale.policy.terms`."""
    target: float | None = None
    """Share of them that should be fresh, which the price serves first."""
    jitter: float | None = None
    """Stretch each interval by a random factor between 1 - jitter and 1 + jitter."""
    windows: str | None = None
    """When polls are allowed: ``mon-fri 22:00-06:00 Europe/Berlin``."""
    group: str | None = None
    """Name of the group, instead of the host or the database."""
    keep: int | None = None
    """Versions that are kept of each, 0: all."""
    keep_for: float | None = None
    """Seconds for which versions are kept; the latest stays. inf: for ever."""
    tags: tuple[str, ...] = ()
    """By which people find them; those of all rules that fit."""
    options: Mapping[str, Json] = field(default_factory=dict, repr=False)
    """For the source: ``change``, ``selector``, ``ignore``, ``cursor``, ..."""
    trust_discovered: bool = False
    """Whether its headers and other secrets are also for elements that another origin has named."""

    def matches(self, key: str) -> bool:
        """Tell whether the rule is about this element."""
        return self.match == "*" or fnmatchcase(key, self.match)


@dataclass(frozen=True)
class Composed:
    """Something that is made from several elements, and fresh if all of them are, or if one is."""

    name: str
    of: tuple[str, ...]
    """Patterns of the keys of its parts."""
    weight: float = 1.0
    needs: str = "all"
    """``all``: it is fresh if all parts are. ``one``: if one of them is."""

    def matches(self, key: str) -> bool:
        """Tell whether an element is a part of it."""
        return any(fnmatchcase(key, one) for one in self.of)


@dataclass(frozen=True)
class GroupLimit:
    """What polls of one group must keep to; the first whose pattern matches the name of the group counts.

    Of what its elements are polled for, the first that says it counts, and rules for keys count more.
    """

    match: str = "*"
    spacing: float = 0.0
    """Seconds between the starts of two polls, at least."""
    concurrency: int = 1_000_000
    """Polls at the same time, at most."""
    objective: str | None = None
    """What its elements are polled for: see `unstale.policy.terms`."""
    target: float | None = None
    """Share of its elements that should be fresh, which the price serves first."""

    def matches(self, group: str) -> bool:
        """Tell whether it is about this group."""
        return fnmatchcase(group, self.match)


@dataclass(frozen=True)
class Http:
    """How pages are fetched."""

    user_agent: str | None = None
    """None: the name and version of unstale, with the contact."""
    robots: bool = True
    robots_max_age: float = 86400.0
    """Seconds after which robots.txt is fetched again."""
    expiry: bool = True
    """Whether Cache-Control and Expires say for how long pages stay as they are; believed as far as true."""
    private: bool = False
    """Whether a public address may lead to a private one, by a redirect or by DNS."""
    connect_timeout: float = 10.0
    read_timeout: float = 20.0
    """Between two parts of an answer."""
    max_redirects: int = 10
    max_ratio: float = 200.0
    """Bytes after decompression per byte before it; more is taken for a bomb."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further headers of each request, to every host."""
    verify: bool = True
    """Whether certificates are checked."""
    ca_file: str | None = None
    """Certificates to trust instead of those of the system."""


@dataclass(frozen=True)
class Browser:
    """What the one browser may take that renders pages."""

    executable: str | None = None
    """None: the Chromium that is found on the path."""
    concurrency: int = 2
    """Pages that are open at the same time."""
    seconds: float = 30.0
    """That a page may take."""
    bytes: int = 20_000_000
    """That a page may ask for, with all that belongs to it."""
    memory: int = 1_500_000_000
    """Bytes that all its processes may have; with more it is killed and started again."""
    second: int = 100_000
    """Bytes of the budget that a second of the browser costs."""
    logins: str | None = None
    """A folder of saved logins."""


@dataclass(frozen=True)
class DiscoveryLimits:
    """How many elements feeds, sitemaps and folders may discover; what is beyond is left out."""

    list: int = 50_000
    """Elements that one list has named."""
    host: int = 100_000
    """Elements of one group; others that users add themselves are no matter of limits."""
    via: int = 100_000
    """Elements that go back to one list that a user named, with those of the lists that it named."""
    total: int = 1_000_000
    """Elements of the mirror up to which lists may discover more."""
    waiting: int = 10_000
    """Elements of one list that wait for their first poll."""
    pattern: int = 1000
    """Pages found by following links whose addresses differ only in numbers and in values of a query."""
    poll_share: float = 0.5
    """Share of the budget for first polls, while polls of others are worth the price."""


@dataclass(frozen=True)
class Reads:
    """What readers of copies may ask for."""

    poll_share: float = 0.0
    """Share of the budget for polls at once, of copies that are not as fresh as a reader wants; 0: none."""
    wait: float = 10.0
    """Seconds for which a reader waits for such a poll."""
    users: str = "no"
    """What tells users apart: ``header:NAME``, ``cookie:NAME``, ``token`` (the user name that comes with it);
    ``no``: nothing does."""
    half_life: float = 7 * 86400.0
    """Seconds in which reads count half."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """How much users count, by name; others count 1."""


@dataclass(frozen=True)
class Replicas:
    """Mirrors of the same elements that take turns."""

    folder: str | None = None
    """Where they tell each other of polls; None: there is no other."""
    number: int = 1
    """Which of them this one is, from 1 on."""
    count: int = 1
    """How many there are."""
    budget: str = "own"
    """``own``: each has what its settings say. ``shared``: mirror.toml said what all have together, and the
    settings have the part of this one."""
    addresses: tuple[str, ...] = ()
    """Where readers reach each of them, in the order of their numbers; empty: nobody is sent to others."""


@dataclass(frozen=True)
class Database:
    """A database that elements are tables of."""

    url: str = field(repr=False)
    """As SQLAlchemy writes it."""
    probe_interval: float = 0.0
    """Seconds for which one look at the catalogue serves all elements of the database."""


@dataclass(frozen=True)
class Notify:
    """Where the mirror sends changes: one of webhook, command, email and apprise is given."""

    webhook: str | None = field(default=None, repr=False)
    """Address that gets each change as a POST of JSON."""
    command: tuple[str, ...] = ()
    """Command that is run for each change, with the change as JSON on its standard input."""
    email: tuple[str, ...] = ()
    """Addresses of people who get messages by mail; each on its own."""
    apprise: str | None = field(default=None, repr=False)
    """Address of a service that Apprise knows."""
    match: str = "*"
    """For which keys."""
    tell: tuple[str, ...] | None = None
    """``changes``, ``alarms``, or kinds of alarms; None: changes, and to people alarms as well."""
    first: bool | None = None
    """Whether first copies are told; None: not to people."""
    title: str | None = None
    message: str | None = None
    """Templates of what people get; None: the usual ones."""
    link: str | None = None
    """Address under which people see the dashboard, for links; None: links lead to the source."""
    digest: float = 0.0
    """Seconds for which changes are collected for one message."""
    quiet: str | None = None
    """When people get nothing: ``22:00-07:00 Europe/Berlin``."""
    smtp: str | None = None
    """Server of mail: ``smtps://mail.example.org``."""
    sender: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)
    """Key with which each POST is signed."""
    timeout: float = 30.0
    """Seconds that one delivery may take."""


@dataclass(frozen=True)
class Settings:
    """All of it."""

    budget: float | None = None
    """Polls per second; None: no limit by polls."""
    byte_budget: float | None = None
    """Bytes per second; None: no limit by bytes."""
    reserve: float = 86400.0
    """Seconds of which unspent budget is kept, to be spent when polls are worth more; 0: nothing is kept."""
    max_rate: float | None = None
    """Polls per second that no minute exceeds, whatever is in reserve; None: see `fastest`."""
    objective: str = "freshness"
    """What the budget is spent for: ``freshness``, ``age``, ...; see `unstale.policy.terms`."""
    policy: str = "optimal"
    """How polls are shared: ``optimal`` by the objective; ``uniform``; ``proportional`` to change rates."""
    order: str = "fixed"
    """How polls of an element are spread: ``fixed`` intervals, ``random``, or ``purely-random`` ones."""
    contact: str | None = None
    """Where the owners of sources can reach you: an address of a page or of mail, for the User-Agent."""
    concurrency: int = 50
    """Polls at the same time, in one process."""
    timeout: float = 120.0
    """Seconds that one poll may take."""
    shared: str = "no"
    """``no``: the files of the mirror are made for their owner alone. ``group``: for the group as well."""
    max_size: int = 20_000_000
    """Bytes that a copy may have."""
    keep: int = 10
    """Versions of each element that are kept; 0: all."""
    archive: float = inf
    """Seconds after which elements that are gone are put away; inf: never."""
    space: int | None = None
    """Bytes that all copies may have together, before they are compressed; None: any number."""
    keep_polls: float = 365 * 86400.0
    """Seconds for which the record of each poll is kept."""
    polls_in_tables: int = 20_000_000
    """Polls that the store holds, about; older ones are in files beside the copies."""
    fetch: str = "here"
    """``here``: workers poll. ``elsewhere``: they only plan, and fetchers take leases and report."""
    importance: str = "weights"
    """``weights``: as given. ``reads``: times how often copies are read. ``links``: times their PageRank."""
    rules: tuple[Rule, ...] = ()
    groups: tuple[GroupLimit, ...] = (GroupLimit("http:*", spacing=1.0, concurrency=2),)
    """Groups of pages are called ``http:HOST``, those of databases ``sql:NAME``, of files ``file:PLACE``."""
    http: Http = Http()
    browser: Browser = Browser()
    discovery: DiscoveryLimits = DiscoveryLimits()
    composed: tuple[Composed, ...] = ()
    reads: Reads = Reads()
    replicas: Replicas = Replicas()
    databases: Mapping[str, Database] = field(default_factory=dict)
    notify: tuple[Notify, ...] = ()
    hint_file: str | None = None
    """A file to which others append hints: a key per line, or JSON with key and time."""
    cells: int = 1
    """Into how many parts a new mirror is divided, each a mirror of its own, which share only the price."""
    servers: tuple[str, ...] = field(default=(), repr=False)
    """Addresses of further databases in which cells may be."""
    lease: float = 300.0
    """Seconds after which what a worker had taken is given to another, if it has not been heard of."""

    @property
    def fastest(self) -> float | None:
        """Polls per second that no minute exceeds; None: any.

        If nothing is said and there is a reserve, it is ten times the budget of polls, and at least 10.

        >>> Settings(budget=0.1).fastest, Settings(budget=50.0).fastest
        (10.0, 500.0)
        >>> Settings(budget=50.0, reserve=0.0).fastest is None
        True
        """
        if self.max_rate is not None or self.budget is None or not self.reserve > 0:
            return self.max_rate
        return max(_FASTEST_TIMES * self.budget, _FASTEST_AT_LEAST)

    @property
    def worths_by(self) -> str:
        """What worths and the price are by; another price is looked for if it changes.

        >>> Settings().worths_by, Settings(policy="uniform").worths_by
        ('freshness', 'freshness uniform fixed')
        """
        plain = (self.policy, self.order) == ("optimal", "fixed")
        return self.objective if plain else f"{self.objective} {self.policy} {self.order}"

    def aims(self, group: str) -> tuple[str | None, GroupLimit | None]:
        """Return what elements of a group are polled for, and what promises how many of them are fresh.

        >>> Settings(groups=(GroupLimit("http:*", objective="age"),)).aims("http:example.org")
        ('age', None)
        """
        own = [limit for limit in self.groups if limit.matches(group)]
        objective = next((one.objective for one in own if one.objective is not None), None)
        return objective, next((one for one in own if one.target is not None), None)

    def limit(self, group: str) -> GroupLimit:
        """Return what polls of a group must keep to.

        >>> Settings().limit("http:example.org").spacing, Settings().limit("sql:warehouse").spacing
        (1.0, 0.0)
        """
        return next((limit for limit in self.groups if limit.matches(group)), GroupLimit())
