"""The keys of mirror.toml: their names, what they mean, and how they are read."""

from __future__ import annotations

from dataclasses import dataclass

from unstale.mirror.settings import ALARMS, ORDERS, POLICIES
from unstale.mirror.tags import tags_of

from . import values
from .values import Read


@dataclass(frozen=True)
class Key:
    """One key of a section."""

    name: str
    read: Read
    default: str
    """The default, in the words of the reference."""
    example: str
    """As it is written in TOML."""
    about: str
    path: bool = False
    """Whether it names a file or a folder, relative to the folder of mirror.toml."""
    option: bool = False
    """Whether it is an option of the source, not of the mirror."""


@dataclass(frozen=True)
class Section:
    """A section of the file."""

    name: str
    heading: str
    """As it is written: ``[mirror]``, ``[[rule]]``, ``[databases.NAME]``."""
    about: str
    keys: tuple[Key, ...]
    many: bool = False
    """Whether the file may have several of them."""
    named: bool = False
    """Whether each has a name of its own."""

    def key(self, name: str) -> Key | None:
        """Return the key of this name, if there is one."""
        return next((key for key in self.keys if key.name == name), None)


_TIME = values.span()
_TIME_OR_NOTHING = values.span(nothing=True)

_MIRROR = (
    Key("store", values.secret, "mirror.db", '"mirror.db"',
        "Where all is kept: an SQLite file, or the address of a PostgreSQL database.", path=True),
    Key("copies", values.place_of_copies, "copies, beside the SQLite file", '"copies"',
        "Folder of the copies, or a bucket (`s3://bucket/prefix`; also `gs://` and `az://`). With PostgreSQL "
        "it must be given, and all workers must see the same one.",
        path=True),
    Key("shared", values.choice("no", "group"), '"no"', '"group"',
        "Who may use the files of the mirror: their owner alone (files have the mode 0600, folders 0700), or "
        "also the group (0660 and 2770). It counts when they are made."),
    Key("budget", values.poll_flow, "1000/day if `bytes` is not given, else no limit by polls", '"1000/day"',
        "Polls that may be made, per time."),
    Key("bytes", values.byte_flow, "no limit by bytes", '"200MB/day"', "Bytes that may be moved, per time."),
    Key("reserve", _TIME_OR_NOTHING, '"1 day"', '"1 day"',
        "Time of which unspent budget is kept, to be spent when polls are worth more: for first copies, and "
        "on busy days. No day spends more than its budget and the reserve. With 0 every minute keeps to the "
        "budget."),
    Key("max_rate", values.poll_flow, "10 times `budget`, at least 10/s; without a reserve, or with `bytes` "
        "alone, no limit", '"60/min"', "Polls that no minute exceeds, whatever is in reserve."),
    Key("objective", values.objective, '"freshness"', '"freshness"',
        "What the budget is spent for: that many copies are fresh; that stale ones are not old (`age`); that "
        "few changes are missed (`missed-updates`, or `harmonic`, where the n-th counts 1/n); that few "
        "copies are further behind than a time (`currency:6h`); that few have faded, which they do bit by "
        "bit after a poll whether or not they change (`decay:6h`); or a penalty of lags (`lag:log(1+x):1h`, "
        "and `missed:log(1+x):1h` of all changes that are missed). [More](../explanation/objectives.md)."),
    Key("policy", values.choice(*POLICIES), '"optimal"', '"uniform"',
        "How the budget is shared: so that the objective is best; every element as often as any other "
        "(`uniform`); or in proportion to how often each changes (`proportional`, which is worse than both). "
        "The last two look neither at the objective nor at weights and sizes."),
    Key("order", values.choice(*ORDERS), '"fixed"', '"random"',
        "How polls of an element are spread over time: at fixed intervals; once in each round, at a random "
        "moment (`random`); or at any time with the same chance (`purely-random`), so that nobody can tell "
        "when the next one comes. The more random, the less fresh: `unstale whatif mirror.toml`."),
    Key("contact", values.contact, "none", '"you@example.org"',
        "Where owners of sources can reach you: an address of mail or of a page. Each request tells it."),
    Key("concurrency", values.count(1, 100_000), "50", "50", "Polls at the same time, in one process."),
    Key("timeout", _TIME, "2min", '"2min"', "Time that one poll may take."),
    Key("max_size", values.size, "20MB", '"20MB"', "Bytes that a copy may have; more is a failure."),
    Key("keep", values.count(0), "10", "10", "Versions of each element that are kept; 0: all."),
    Key("archive", values.span(endless="never"), '"never"', '"90 days"',
        "Time after which an element that is gone is put away: it is polled no more and in no list, and its "
        "last copy stays. `unstale resume` brings it back."),
    Key("space", values.size, "no limit", '"2GB"',
        "Bytes that all copies may have together, before they are compressed. If they have more, old "
        "versions are deleted first, and then copies whose freshness is worth least for their bytes, by "
        "weights, reads and how often they change. These are `dropped`: they are polled again when a reader "
        "asks (see `poll_share`), or when there is room. Copies of what is gone stay."),
    Key("keep_polls", values.span(endless="forever"), '"365 days"', '"forever"',
        "Time for which the record of each poll is kept."),
    Key("polls_in_tables", values.count(10_000), "20000000", "2000000",
        "Polls that the store itself holds, about, at some 220 bytes each. Older ones are moved to Parquet "
        "files in the folder `polls` beside the copies, for as long as `keep_polls` says; `unstale export "
        "--history` has them as well."),
    Key("fetch", values.choice("here", "elsewhere"), '"here"', '"elsewhere"',
        "Who polls: the workers of the mirror, or fetchers of your own, which take leases from "
        "`unstale serve` and report what they saw. Then `unstale run` only plans."),
    Key("importance", values.choice("weights", "reads", "links"), '"weights"', '"weights"',
        "How much freshness of an element matters: its weight; its weight times how often its copy is read "
        "(`reads`); or its weight times its PageRank by the links that are followed (`links`)."),
    Key("cells", values.count(1, 4096), "1", "16",
        "Into how many cells a new mirror is divided: each has its own tables, planner and workers, and a "
        "part of the budget. [More](../how-to/run-a-fleet.md)."),
    Key("servers", values.addresses_of_servers, "that of `store`", '["postgresql://me@db2/mirror"]',
        "With several cells: further PostgreSQL databases in which they may be."),
    Key("lease", _TIME, "5min", '"5min"',
        "Time after which polls that a worker has taken go to another, if it has not been heard of."),
)  # fmt: skip

_HTTP = (
    Key("user_agent", values.text("a text in quotes, without control characters"),
        "unstale, its version and the contact", '"my-mirror/1.0 (+https://example.org/about)"',
        "How requests call themselves."),
    Key("robots", values.flag, "true", "true", "Whether robots.txt is obeyed."),
    Key("robots_max_age", _TIME, "1 day", '"1 day"', "Time after which robots.txt is fetched again."),
    Key("expiry", values.flag, "true", "false",
        "Whether `Cache-Control: max-age` and `Expires` are promises that a page stays as it is. They count "
        "as far as they have proved true, for each host."),
    Key("private", values.flag, "false", "false",
        "Whether a public address may lead to a private one, by a redirect or by DNS."),
    Key("connect_timeout", _TIME, "10s", '"10s"', "Time to wait for a connection."),
    Key("read_timeout", _TIME, "20s", '"20s"', "Time to wait for an answer, and between two parts of it."),
    Key("max_redirects", values.count(0, 100), "10", "10", "Redirects that are followed."),
    Key("max_ratio", values.ratio, "200", "200",
        "Bytes after decompression for each byte before; more is taken for a bomb."),
    Key("headers", values.headers, "none", '{ Accept-Language = "en" }',
        "Further headers of each request. `${NAME}` is that variable of the environment."),
    Key("verify", values.flag, "true", "true", "Whether certificates are checked."),
    Key("ca_file", values.any_text, "those of the system", '"our-ca.pem"', "Certificates to trust.",
        path=True),
)  # fmt: skip

_GROUP = (
    Key("match", values.patterns, '"*"', '"http:api.example.org"',
        "Names of groups, as a pattern of a shell. Pages are in the group `http:HOST`, tables in "
        "`sql:DATABASE`, files in `file:PLACE`; or in that of a rule."),
    Key("spacing", _TIME_OR_NOTHING, "1s for pages, else 0s", '"5s"',
        "Time between the starts of two polls, at least."),
    Key("concurrency", values.count(1, 1_000_000), "2 for pages, else no limit", "1",
        "Polls at the same time, at most."),
    Key("budget", values.poll_flow, "none", '"1000/day"',
        "Polls per time, at most: another way to say `spacing`."),
    Key("objective", values.objective, "that of `[mirror]`", '"age"',
        "What elements of these groups are polled for, unless a rule says it of their keys."),
    Key("target", values.inner_share, "none", '"95%"',
        "Share of the elements of these groups that should be fresh, likewise."),
)  # fmt: skip

_RULE = (
    Key("match", values.patterns, "must be given", '"https://example.org/news/*"',
        'Keys, as a pattern of a shell; `"*"` is all.'),
    Key("weight", values.weight, "1", "5", "How much freshness of these elements matters."),
    Key("objective", values.objective, "that of `[mirror]`", '"age"',
        "What these elements are polled for, at the one price for all."),
    Key("target", values.inner_share, "none", '"95%"',
        "Share of these elements that should be fresh. The price serves it first; `unstale status` says if "
        "the budget cannot, and which could."),
    Key("max_age", values.span(endless="none"), '"none"', '"6h"',
        "Poll at least this often, whatever that seems to be worth."),
    Key("min_interval", _TIME_OR_NOTHING, "0s", '"5min"', "Poll no more often than this."),
    Key("jitter", values.portion, "0%", '"10%"', "Vary intervals at random, by up to this share."),
    Key("windows", values.when, "at any time", '"mon-fri 22:00-06:00 Europe/Berlin"',
        "When polls are allowed."),
    Key("group", values.any_text, "the host, the database or the place", '"shop"',
        "Name of the group. A group of your own has only those limits that a `[[group]]` gives it."),
    Key("keep", values.count(0), "as `[mirror]` says", "100", "Versions of each that are kept; 0: all."),
    Key("keep_for", values.span(endless="forever"), '"forever"', '"90 days"',
        "Time for which versions are kept after they were seen. The latest always stays."),
    Key("tags", tags_of, "none", '["prices"]',
        "Words by which people find them. Those of all rules that fit count, and those of the element."),
    Key("trust_discovered", values.flag, "false", "true",
        "Whether headers and other secrets of this rule are also for elements that a feed or a sitemap of "
        "another host, port or scheme has named."),
    Key("options", values.options, "none", '{ region = "north" }',
        "More for the source: what a source that does not come with unstale wants to be told."),
)  # fmt: skip

_OPTIONS = (
    # pages
    Key("change", values.change, '"bytes", or "text" with a selector', '"text"',
        "Pages: what counts as a change: every byte, the main text, the value of JSON (`json:/items/0`: the "
        "value there), or the first `price` in what the selector selects.", option=True),
    Key("threshold", values.threshold, "any change", '"5%"',
        "Pages: what a price, or a number of JSON, must change by: a share, or an amount.", option=True),
    Key("selector", values.any_text, "none", '"main article"',
        "Pages: only what this CSS selector selects counts; of JSON, what this JSON pointer names.",
        option=True),
    Key("ignore", values.regexes, "none", "['Page views: \\d+']",
        "Pages: regular expressions; what they match does not count.", option=True),
    Key("conditional", values.flag, "true", "false",
        "Pages: whether to ask on condition that something has changed. Some servers deny changes then.",
        option=True),
    Key("headers", values.headers, "none", '{ Authorization = "Bearer ${TOKEN}" }',
        "Pages: further headers, sent to the host of the page alone. `${NAME}` is that variable of the "
        "environment.", option=True),
    Key("links", values.count(0, 8), "0", "2",
        "Pages: how many steps links are followed from the page. What they lead to becomes an element, "
        "within `only`, `skip`, `hosts` and `[discovery]`; `nofollow` is obeyed.", option=True),
    # rendered pages
    Key("render", values.choice("auto", "always"), '"auto"', '"always"',
        "Rendered pages: `auto` renders only pages that are shells without their text, which is learned.",
        option=True),
    Key("wait", values.any_text, "none", '"#prices"',
        "Rendered pages: a CSS selector that must be there before the page is read.", option=True),
    Key("click", values.several, "none", '["#more"]', "Rendered pages: CSS selectors that are clicked first.",
        option=True),
    Key("login", values.any_text, "none", '"shop"', "Rendered pages: name of a saved login.", option=True),
    Key("logged_in", values.any_text, "none", '"#account"',
        "Rendered pages: a CSS selector that is there only while the login is good.", option=True),
    Key("screenshot", values.flag, "false", "true", "Rendered pages: whether the copy is a picture.",
        option=True),
    # what names others
    Key("discover", values.wanted, "true", '"https://example.org/news/*"',
        "Feeds, sitemaps, folders and links: whether what they name becomes an element; or patterns of what "
        "does.",
        option=True),
    Key("only", values.several, "everything", '["https://example.org/*"]',
        "Feeds, sitemaps, folders and links: patterns; what matches none is left out.", option=True),
    Key("skip", values.several, "nothing", '["*.tmp"]',
        "Folders and links: patterns; what matches one is left out.", option=True),
    Key("hosts", values.choice("own", "any"), '"own" for sitemaps and links, "any" for feeds', '"any"',
        "Feeds, sitemaps and links: whether addresses of other hosts count.", option=True),
    # files
    Key("follow", values.flag, "false", "true",
        "Folders: whether links to files count that lead out of the folder.", option=True),
    Key("trust_mtime", values.flag, "true", "false",
        "Files: whether a file whose size and time are as before need not be read.", option=True),
    Key("storage", values.table, "none", "{ anon = true }", "Files: what their file system wants to know.",
        option=True),
    # tables
    Key("query", values.statement, "none", '"select id, name from people where active"',
        "Tables: rows of this statement instead of a whole table; the key is only a name then.", option=True),
    Key("tables", values.several, "not known", '["people"]', "Tables: all that a query or a view reads.",
        option=True),
    Key("split", values.any_text, "none", '"region"',
        "Tables: a column; the rows of each of its values are an element.", option=True),
    Key("cursor", values.any_text, "none", '"updated_at"',
        "Tables: a column that grows with every change.", option=True),
    Key("count", values.flag, "true", "false",
        "Tables: whether rows are counted with the cursor, so as to notice deletes.", option=True),
    Key("probe", values.statement, "none", '"select max(version) from people"',
        "Tables: a statement whose answer is the same as long as nothing has changed; instead of a cursor.",
        option=True),
    Key("checksum", values.flag, "false", "true",
        "Tables: whether rows are summed up in the database before they are read.", option=True),
)  # fmt: skip

_BROWSER = (
    Key("executable", values.any_text, "the Chromium on the path", '"/usr/bin/chromium"', "The browser."),
    Key("concurrency", values.count(1, 100), "2", "2", "Pages that are open at the same time."),
    Key("seconds", _TIME, "30s", '"30s"', "Time that a page may take."),
    Key("bytes", values.size, "20MB", '"20MB"', "What a page may ask for, with all that belongs to it."),
    Key("memory", values.size, "1500MB", '"1500MB"',
        "Memory of all processes of the browser; with more it is killed and started again."),
    Key("second", values.size, "100KB", '"100KB"',
        "What a second of the browser costs of a budget of `bytes`, beside what it moves."),
    Key("logins", values.any_text, "none", '"logins"',
        "Folder of saved logins, each a file NAME.json as Playwright saves it.", path=True),
)  # fmt: skip

_DISCOVERY = (
    Key("list", values.count(0), "50000", "200000",
        "Elements that one list (a feed, a sitemap, a folder) has named."),
    Key("host", values.count(0), "100000", "500000", "Elements of one host, or of another group."),
    Key("via", values.count(0), "100000", "500000",
        "Elements that go back to one list that you named, with those of the lists that it named."),
    Key("total", values.count(0), "1000000", "5000000",
        "Elements of the mirror, up to which lists discover more."),
    Key("waiting", values.count(1), "10000", "50000",
        "Elements of one list that wait for their first poll. Others come in after them."),
    Key("pattern", values.count(1), "1000", "100",
        "Pages found by following links whose addresses differ only in numbers and in values of a query: "
        "calendars and the like have no end."),
    Key("poll_share", values.inner_share, '"50%"', '"20%"',
        "Share of the budget for first polls of elements, while polls of others are worth the price. What "
        "others leave is for first polls, too."),
)  # fmt: skip

_COMPOSED = (
    Key("name", values.any_text, "must be given", '"monthly report"', "Its name."),
    Key("of", values.several, "must be given", '["shop#orders", "shop#people"]',
        "Keys of its parts, as patterns of a shell: it is fresh if all of them are."),
    Key("weight", values.weight, "1", "5", "How much it matters that it is fresh, beside its parts."),
    Key("needs", values.choice("all", "one"), '"all"', '"one"',
        "Whether it takes all parts to be fresh, or one of them suffices: several sources of the same data."),
)  # fmt: skip

_READS = (
    Key("poll_share", values.portion, "0%", '"10%"',
        "Share of the budget for polls at once, of copies that are not as fresh as a reader wants "
        "(`Cache-Control: max-age=60` or `X-Unstale-Min-Fresh: 0.9` in the request). With 0 there are none."),
    Key("wait", _TIME, "10s", '"10s"', "Time for which a reader waits for such a poll."),
    Key("users", values.users, '"no"', '"header:X-User"',
        "What tells readers apart: a header (`header:NAME`) or a cookie (`cookie:NAME`) of the request, or "
        "the user name that comes with the token (`token`). "
        "Plain names are kept; cookies, and whatever may be the address of a person, are kept as hashes."),
    Key("half_life", _TIME, "7 days", '"30 days"', "Time in which reads count half."),
    Key("weights", values.user_weights, "1 for each", "{ billing = 3 }",
        'How much users count, by name, with `importance = "reads"`: each as a whole, however many reads.'),
)  # fmt: skip

_REPLICAS = (
    Key("folder", values.any_text, "must be given", '"/srv/shared/replicas"',
        "A folder that all replicas see: each writes down there which elements it has polled.", path=True),
    Key("number", values.count(1, 100), "must be given", "1", "Which of the replicas this mirror is."),
    Key("count", values.count(1, 100), "must be given", "2", "How many replicas there are."),
    Key("budget", values.choice("own", "shared"), '"own"', '"shared"',
        "Whether each replica has a budget of its own, or `budget`, `bytes` and `max_rate` below `[mirror]` "
        "are what all of them have together: each spends an equal part then, and that of one that is gone is "
        "not spent by others."),
    Key("addresses", values.addresses_of_replicas, "none",
        '["http://a.internal:8321", "http://b.internal:8321"]',
        "Where readers reach `unstale serve` of each replica, in the order of their numbers. Then readers "
        "may ask any: who asks for a copy that another has polled later is sent there (307)."),
)  # fmt: skip

_DATABASE = (
    Key("url", values.secret, "must be given", '"postgresql://reader:${PASSWORD}@db.example.org/shop"',
        "Address, as SQLAlchemy writes it. `${PASSWORD}` is that variable of the environment."),
    Key("probe_interval", _TIME_OR_NOTHING, "0s", '"10s"',
        "Time for which one look at the catalogue serves all elements of the database."),
)  # fmt: skip

_NOTIFY = (
    Key("webhook", values.address, "none", '"https://example.org/changed"',
        "Address that gets each change as a POST of JSON. `${NAME}` is that variable of the environment."),
    Key("command", values.command, "none", '["logger", "-t", "mirror"]',
        "Command that is run for each change, with the change as JSON on its standard input."),
    Key("email", values.mail_addresses, "none", '"you@example.org"',
        "Person who gets a message by mail for each change; or a list of persons."),
    Key("apprise", values.secret, "none", '"ntfy://ntfy.example.org/my-topic"',
        "Address of a chat, a push service or whatever else "
        "[Apprise](https://github.com/caronc/apprise/wiki) reaches: it gets messages, too."),
    Key("match", values.patterns, '"*"', '"https://example.org/news/*"',
        "For which keys, as a pattern of a shell."),
    Key("tell", values.words("changes", "alarms", *ALARMS), '"changes", and to people also "alarms"',
        '["changes", "failing"]',
        "What of: `changes`; `alarms`, or some kinds of them: `overdue` (not polled within `max_age`), "
        "`failing`, `budget` (used up), `freshness` (below `target`), `gone` (most of a group at once)."),
    Key("first", values.flag, "false for people, true for programs", "true",
        "Whether first copies are told, too, which are no changes."),
    Key("title", values.template, "the title of the page, and that it has changed",
        '"{{ title or key }}: {{ new }}"',
        "People: the title of a message. A template of Jinja with `key`, `title`, `old`, `new` (what the "
        "selector selects, or the lines that differ), `diff`, `link`, `time`, `first`, `size`, `change`."),
    Key("message", values.template, "the key and the difference", '"{{ diff }}"',
        "People: the message, likewise; it may have several lines."),
    Key("link", values.address, "links lead to the page itself", '"https://mirror.example.org"',
        "People: where they reach the dashboard; links in messages lead there."),
    Key("digest", _TIME_OR_NOTHING, "each change at once", '"1 day"',
        "People: time for which changes are collected, and told in one message."),
    Key("quiet", values.when, "never", '"all 22:00-07:00 Europe/Berlin"',
        "People: when they get nothing. What came meanwhile is told afterwards."),
    Key("smtp", values.any_text, "must be given with `email`", '"smtps://mail.example.org"',
        "Mail: the server that takes it. `smtps://` is TLS from the start (port 465), `smtp://` begins it "
        "with STARTTLS (port 587); without TLS mail goes to this machine alone."),
    Key("sender", values.any_text, "`user` if that is an address, else unstale@SERVER",
        '"mirror@example.org"', "Mail: whom it is from."),
    Key("user", values.any_text, "no login", '"mirror@example.org"', "Mail: the login at the server."),
    Key("password", values.secret, "no login", '"${PASSWORD}"', "Mail: its password."),
    Key("secret", values.secret, "none", '"${WEBHOOK_SECRET}"', "Key with which each POST is signed."),
    Key("timeout", _TIME, "30s", '"30s"', "Time that one delivery may take."),
)  # fmt: skip

_HINTS = (
    Key("file", values.any_text, "none", '"hints.txt"',
        "A file to which others append hints: a key per line, or JSON with `key` and `time`.", path=True),
)  # fmt: skip

SECTIONS = (
    Section("mirror", "[mirror]", "The mirror as a whole.", _MIRROR),
    Section("http", "[http]", "How pages are fetched.", _HTTP),
    Section(
        "group",
        "[[group]]",
        "What polls of a group of elements must keep to, and are for; as many as you like. The first whose "
        "`match` fits the name of a group counts, of `objective` and `target` the first that says it. Groups "
        "of pages that none fits have a poll each second, two at a time.",
        _GROUP,
        many=True,
    ),
    Section(
        "rule",
        "[[rule]]",
        "What holds for elements with such keys; as many as you like. Of several that fit, the last that "
        "says it counts, and what `unstale add` says of an element counts more.",
        (*_RULE[:-1], *_OPTIONS, _RULE[-1]),
        many=True,
    ),
    Section("browser", "[browser]", "The one browser that renders pages.", _BROWSER),
    Section(
        "discovery",
        "[discovery]",
        "How many elements lists may discover. What is beyond a limit is left out, and `unstale status` says "
        "so. What you add yourself is not limited.",
        _DISCOVERY,
    ),
    Section(
        "composed",
        "[[composed]]",
        "Something that is made from several elements, and is fresh if all of them are, or if one is; as "
        "many as you like.",
        _COMPOSED,
        many=True,
    ),
    Section("reads", "[reads]", "What readers of copies may ask for.", _READS),
    Section(
        "replicas",
        "[replicas]",
        "Several mirrors of the same elements that take turns, each with its own store: together they are as "
        "fresh as one mirror with all budgets, for readers that get the freshest copy.",
        _REPLICAS,
    ),
    Section(
        "databases", "[databases.NAME]", "A database that elements are tables of.", _DATABASE, named=True
    ),
    Section(
        "notify", "[[notify]]", "Where changes go to; as many targets as you like.", _NOTIFY, many=True
    ),
    Section("hints", "[hints]", "Hints that something may have changed.", _HINTS),
)  # fmt: skip
