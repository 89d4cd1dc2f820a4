"""mirror.toml: what it says is what is meant, and every mistake is told with file, line and key."""

import math
import re
import string
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from unstale import InvalidInput
from unstale.mirror.config.file import Config, find, load, without_password
from unstale.mirror.config.keys import SECTIONS
from unstale.mirror.config.template import template, write_template
from unstale.mirror.settings import (
    Browser,
    Composed,
    Database,
    DiscoveryLimits,
    GroupLimit,
    Http,
    Notify,
    Reads,
    Replicas,
    Rule,
    Settings,
)

FULL = """\
[mirror]
store = "data/m.db"
copies = "/srv/copies"
budget = "86400/day"
bytes = "3.6MB/h"
reserve = "6h"
max_rate = "60/min"
cells = 16
servers = ["postgresql://db2/${TOKEN}"]
objective = "age"
policy = "optimal"
order = "random"
contact = "https://example.org/bot"
concurrency = 7
timeout = "30s"
max_size = "1MiB"
keep = 0
archive = "90 days"
space = "2GB"
keep_polls = "90 days"
polls_in_tables = 2000000
importance = "reads"
fetch = "elsewhere"
shared = "group"
lease = "1min"

[http]
user_agent = "x/1"
robots = false
robots_max_age = "1h"
expiry = false
private = true
connect_timeout = "1s"
read_timeout = "2s"
max_redirects = 3
max_ratio = 50
headers = { Authorization = "Bearer ${TOKEN}" }
verify = false
ca_file = "ca.pem"

[discovery]
list = 1
host = 2
via = 3
total = 4
waiting = 5
pattern = 6
poll_share = "20%"

[[group]]
match = "http:a.example"
spacing = "5s"
[[group]]
match = "sql:*"
budget = "1/min"
objective = "missed-updates"
target = "90%"
[[group]]
match = "http:b.example"
concurrency = 9

[[rule]]
match = "https://a.example/*"
weight = 3
keep = 100
keep_for = "1 day"
tags = ["prices", "daily"]
objective = "currency:6h"
target = "95%"
max_age = "6h"
min_interval = "0s"
jitter = "10%"
windows = "mon-fri 22:00-06:00 Europe/Berlin"
group = "a"
change = "text"
trust_discovered = true
options = { own = [1, { x = true }], selector = "main" }
[[rule]]
match = "*"
max_age = "none"
jitter = 0.25

[browser]
executable = "chromium"
concurrency = 3
seconds = "10s"
bytes = "1MB"
memory = "1GB"
second = "10KB"
logins = "logins"

[[composed]]
name = "monthly report"
of = ["shop#orders", "shop#people"]
weight = 5
needs = "one"

[reads]
poll_share = "10%"
wait = "5s"
users = "header:X-User"
half_life = "30 days"
weights = { billing = 3 }

[databases.shop]
url = "postgresql://me:${TOKEN}@db/shop"
probe_interval = "10s"

[[notify]]
webhook = "https://example.org/${TOKEN}"
secret = "${TOKEN}"
timeout = "5s"
[[notify]]
command = "logger -t 'a mirror'"
match = "x*"
[[notify]]
email = ["me@example.org", "you@example.org"]
smtp = "smtps://mail.example.org"
sender = "mirror@example.org"
user = "me"
password = "${TOKEN}"
tell = ["changes", "failing"]
first = true
title = "{{ new }}"
message = '''
{{ diff }}
'''
link = "https://mirror.example.org"
digest = "1 day"
quiet = "all 22:00-07:00 Europe/Berlin"
[[notify]]
apprise = "json://localhost/${TOKEN}"

[replicas]
folder = "turns"
number = 2
count = 3
budget = "own"
addresses = ["http://a.example:8321", "https://b.example/", "http://c.example"]

[hints]
file = "hints.txt"
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a mirror.toml in an empty folder, which becomes the current one."""
    monkeypatch.chdir(tmp_path)

    def write(text):
        path = tmp_path / "mirror.toml"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return "mirror.toml"

    return write


def test_everything_can_be_said(write, monkeypatch):
    monkeypatch.setenv("TOKEN", "s3cret")
    config = load(write(FULL))
    polite = Settings().groups[0]
    assert config.settings == Settings(
        budget=1.0,
        byte_budget=1000.0,
        reserve=21600.0,
        max_rate=1.0,
        objective="age",
        policy="optimal",
        order="random",
        contact="https://example.org/bot",
        concurrency=7,
        timeout=30.0,
        max_size=2**20,
        keep=0,
        space=2_000_000_000,
        keep_polls=90 * 86400.0,
        polls_in_tables=2_000_000,
        archive=90 * 86400.0,
        importance="reads",
        fetch="elsewhere",
        shared="group",
        cells=16,
        servers=("postgresql://db2/s3cret",),
        lease=60.0,
        rules=(
            Rule(
                "https://a.example/*",
                weight=3.0,
                objective="currency:6h",
                target=0.95,
                max_age=21600.0,
                min_interval=0.0,
                jitter=0.1,
                windows="mon-fri 22:00-06:00 Europe/Berlin",
                group="a",
                keep=100,
                keep_for=86400.0,
                tags=("daily", "prices"),
                options={"own": [1, {"x": True}], "selector": "main", "change": "text"},
                trust_discovered=True,
            ),
            Rule(max_age=math.inf, jitter=0.25),
        ),
        groups=(
            GroupLimit("http:a.example", spacing=5.0, concurrency=polite.concurrency),
            GroupLimit("sql:*", spacing=60.0, objective="missed-updates", target=0.9),
            GroupLimit("http:b.example", spacing=polite.spacing, concurrency=9),
            polite,
        ),
        http=Http(
            user_agent="x/1",
            robots=False,
            robots_max_age=3600.0,
            expiry=False,
            private=True,
            connect_timeout=1.0,
            read_timeout=2.0,
            max_redirects=3,
            max_ratio=50.0,
            headers={"Authorization": "Bearer ${TOKEN}"},  # which is put in when it is sent
            verify=False,
            ca_file="ca.pem",
        ),
        discovery=DiscoveryLimits(list=1, host=2, via=3, total=4, waiting=5, pattern=6, poll_share=0.2),
        browser=Browser("chromium", 3, 10.0, 1_000_000, 1_000_000_000, 10_000, "logins"),
        composed=(Composed("monthly report", ("shop#orders", "shop#people"), 5.0, "one"),),
        reads=Reads(0.1, 5.0, "header:X-User", 30 * 86400.0, {"billing": 3.0}),
        replicas=Replicas(
            "turns", 2, 3, "own", ("http://a.example:8321", "https://b.example", "http://c.example")
        ),
        databases={"shop": Database("postgresql://me:s3cret@db/shop", 10.0)},
        notify=(
            Notify(webhook="https://example.org/s3cret", secret="s3cret", timeout=5.0),  # noqa: S106
            Notify(command=("logger", "-t", "a mirror"), match="x*"),
            Notify(
                email=("me@example.org", "you@example.org"),
                smtp="smtps://mail.example.org",
                sender="mirror@example.org",
                user="me",
                password="s3cret",  # noqa: S106
                tell=("changes", "failing"),
                first=True,
                title="{{ new }}",
                message="{{ diff }}\n",
                link="https://mirror.example.org",
                digest=86400.0,
                quiet="all 22:00-07:00 Europe/Berlin",
            ),
            Notify(apprise="json://localhost/s3cret"),
        ),
        hint_file="hints.txt",
    )
    assert config.store == "data/m.db"
    assert str(config.copies) == "/srv/copies"
    assert "s3cret" not in repr(config)


def test_the_full_example_says_every_key():
    for section in SECTIONS:
        for key in section.keys:
            assert key.option or f"\n{key.name} = " in FULL


def test_all_settings_can_be_said():
    sections = {section.name: {key.name for key in section.keys if not key.option} for section in SECTIONS}

    def named(kind):
        return {field.name for field in fields(kind)}

    assert sections["http"] == named(Http)
    assert sections["browser"] == named(Browser)
    assert sections["group"] == named(GroupLimit) | {"budget"}
    assert sections["rule"] == named(Rule)
    assert sections["databases"] == named(Database)
    assert sections["notify"] == named(Notify)
    assert sections["discovery"] == named(DiscoveryLimits)
    assert sections["reads"] == named(Reads)
    assert sections["replicas"] == named(Replicas)
    assert sections["composed"] == named(Composed)
    elsewhere = {
        "rules",
        "groups",
        "http",
        "browser",
        "databases",
        "discovery",
        "reads",
        "replicas",
        "composed",
        "notify",
        "hint_file",
    }
    assert sections["mirror"] == (named(Settings) - elsewhere - {"byte_budget"}) | {
        "bytes",
        "store",
        "copies",
    }


def test_nothing_said_is_the_default(write):
    assert load(write("")) == Config(Settings(), "mirror.db", None, find())
    assert load(write("[mirror]\r\nkeep = 3\r\n")).settings == Settings(keep=3)
    assert load(write("\ufeff[mirror]\nkeep = 3\n")).settings == Settings(keep=3)


def test_replicas_may_share_one_budget(write):
    text = (
        '[mirror]\nbudget = "300/h"\nbytes = "30MB/h"\nmax_rate = "3/s"\n'
        '[replicas]\nfolder = "x"\nnumber = 1\ncount = 3\n'
    )
    own, part = (load(write(text + more)).settings for more in ("", 'budget = "shared"\n'))
    assert (own.budget, own.byte_budget, own.max_rate) == (300 / 3600, 30e6 / 3600, 3.0)
    assert (part.budget, part.byte_budget, part.max_rate) == pytest.approx((100 / 3600, 10e6 / 3600, 1.0))


def test_paths_are_relative_to_the_file(tmp_path):
    path = tmp_path / "there" / "m.toml"
    path.parent.mkdir()
    path.write_text('[mirror]\nstore = "a.db"\ncopies = "b"\n[hints]\nfile = "/c"\n[http]\nca_file="d.pem"\n')
    config = load(path)
    assert config.store == str(path.parent / "a.db")
    assert config.copies == path.parent / "b"
    assert config.settings.hint_file == "/c"
    assert config.settings.http.ca_file == str(path.parent / "d.pem")


def test_which_file(tmp_path, monkeypatch):
    monkeypatch.delenv("UNSTALE_MIRROR", raising=False)
    assert find(tmp_path) == tmp_path / "mirror.toml"
    monkeypatch.setenv("UNSTALE_MIRROR", str(tmp_path / "other.toml"))
    assert find() == tmp_path / "other.toml"
    monkeypatch.setenv("UNSTALE_MIRROR", str(tmp_path))
    assert find() == tmp_path / "mirror.toml"


MAIL = '[[notify]]\nemail = "me@example.org"\nsmtp = "smtps://mail.example.org"\n'
MISTAKES = [
    # names
    ('[mirror]\nbudgets = "1/h"', 2, "[mirror] has no key 'budgets'; did you mean 'budget'?"),
    ('[mirror]\n\n"Budget" = "1/h"', 3, "[mirror] has no key 'Budget'; did you mean 'budget'?"),
    ('[mirror]\nspacing = "1s"', 2, "[mirror] has no key 'spacing'; it belongs below [[group]]"),
    ("[http]\nxyzzy = 1", 2, "[http] has no key 'xyzzy'; there are user_agent, robots,"),
    ("[[rule]]\nweight = 2", 1, 'must say which elements it is for: match = "https://example.org/news/*"'),
    ("[[rule]]\nxyzzy = 1", 2, "goes into options = { ... }"),
    ("[mirorr]\n", 1, "there is no section 'mirorr'; did you mean [mirror]?"),
    ("\n[[rules]]\n", 2, "there is no section 'rules'; did you mean [[rule]]?"),
    ("[qwerty]\n", 1, "there is no section 'qwerty'; there are [mirror], [http], [[group]],"),
    ('budget = "1/h"', 1, "'budget' is in no section; it belongs below [mirror]"),
    ("qwerty = 1", 1, "'qwerty' is in no section; each key belongs into a section"),
    ("[rule]\nweight = 1", 1, "there can be several [[rule]]: write it with two brackets"),
    ("[[mirror]]\n", 1, "'mirror' must be a section: write [mirror]"),
    ('mirror = "x"', 1, "'mirror' must be a section: write [mirror]"),
    ("rule = [1]", 1, "there can be several [[rule]]"),
    ("[replicas]\nnumber = 1\ncount = 2", 1, "[replicas] folder must be given"),
    ('[replicas]\nfolder = "x"\nnumber = 3\ncount = 2', 3, "number must be from 1 to 2, the count; it is 3"),
    ('[replicas]\nfolder = "x"\nnumber = 1\ncount = 2\nbudget = "shared"', 5, "needs a budget to share"),
    ('[replicas]\nfolder = "x"\nnumber = 1\ncount = 2\naddresses = ["http://a"]', 5, "must be 2, one for"),
    ('[replicas]\naddresses = ["a.example"]', 2, "an address that begins with https:// or http://"),
    ('[replicas]\naddresses = ["http://me:pw@a"]', 2, "addresses without logins and queries"),
    # quantities
    ('[[rule]]\n[[rule]]\nmax_age = "soon"', 3, "[[rule]] max_age must be a time, such as 90s,"),
    ('[[rule]]\nmax_age = "soon"', 2, "2 weeks or \"none\"; it is 'soon'"),
    ("[[rule]]\nmax_age = 90", 2, '6h, 1.5 days or 2 weeks, or "none", in quotes; it is 90'),
    ('[mirror]\ntimeout = "0s"', 2, "[mirror] timeout must be a time"),
    ("[mirror]\nbudget = 1000", 2, "budget must be polls per time, such as 1000/day, in quotes; it is 1000"),
    ('[mirror]\nbudget = "20MB/h"', 2, "for bytes there is [mirror] bytes; it is '20MB/h'"),
    ('[mirror]\nbudget = "0/day"', 2, "[mirror] budget must be more than nothing"),
    ('[mirror]\nbytes = "20/h"', 2, "[mirror] bytes must be bytes per time, such as 200MB/day; it is '20/h'"),
    ('[mirror]\nmax_size = "20"', 2, "[mirror] max_size must be a number of bytes, such as 20MB or 512KiB"),
    ('[mirror]\nmax_size = "2MB/h"', 2, "[mirror] max_size must be a number of bytes"),
    ("[mirror]\nkeep = -1", 2, "[mirror] keep must be a whole number >= 0; it is -1"),
    ("[mirror]\nkeep = true", 2, "[mirror] keep must be a whole number >= 0; it is true"),
    ("[mirror]\nconcurrency = 0", 2, "[mirror] concurrency must be a whole number >= 1; it is 0"),
    ('[mirror]\nobjective = "fresh"', 2, "[mirror] objective must be one of freshness, age"),
    ('[mirror]\nkeep_polls = "x"', 2, "2 weeks or \"forever\"; it is 'x'"),
    ('[mirror]\ncontact = "me"', 2, "[mirror] contact must be where you can be reached"),
    ("[http]\nmax_ratio = 0.5", 2, "[http] max_ratio must be a number from 1 to 1e9"),
    ('[http]\nverify = "yes"', 2, "[http] verify must be true or false; it is 'yes'"),
    ("[discovery]\npoll_share = 1", 2, "[discovery] poll_share must be a share between 0% and 100%"),
    ('[[group]]\nmatch = "a"\nobjective = "fresh"', 3, "[[group]] objective must be one of freshness, age"),
    ("[[rule]]\nweight = -1", 2, "[[rule]] weight must be a number from 0 to 1e100, such as 2.5; it is -1"),
    ("[[rule]]\nweight = nan", 2, "[[rule]] weight must be a number"),
    ("[[rule]]\njitter = 2", 2, "[[rule]] jitter must be a share between 0% and 100%"),
    ('[[rule]]\nwindows = "nights"', 2, "[[rule]] windows must be like 'mon-fri 22:00"),
    ('[[rule]]\nmatch = ""', 2, "[[rule]] match must be a pattern as of a shell"),
    ("[[rule]]\noptions = 1", 2, "[[rule]] options must be a table"),
    ("[[rule]]\n[rule.options]\nx = {y = 2020-01-01}", 3, "[[rule]] options.x.y must be a text, a finite"),
    ("[[rule]]\n\nignore = '('", 3, "[[rule]] ignore must be a regular expression; in '('"),
    ("[[rule]]\n[rule.options]\nignore = ['(']", 3, "options.ignore must be a regular expression; in '('"),
    ('[[rule]]\nselector = "main["', 2, "[[rule]] selector"),
    ('[[rule]]\ncursor = "a"\nprobe = "select 1"', 2, "[[rule]] cursor and probe both say when to read"),
    ('[[rule]]\nchange = "text"\noptions = { change = "json" }', 3, "[[rule]] says change twice"),
    ('[[rule]]\nselctor = "main"', 2, "[[rule]] has no key 'selctor'; did you mean 'selector'?"),
    # what belongs together
    ('[[group]]\nspacing = "1s"\nbudget = "1/h"', 3, "[[group]] has spacing or budget, not both"),
    ("[[notify]]\nmatch = 'x'", 1, "[[notify]] needs either webhook or command"),
    ('[[notify]]\nemail = "me@x.org"', 2, "[[notify]] email needs smtp, the server"),
    (f'{MAIL}title = "{{{{ new"', 4, "[[notify]] title: unexpected end of template"),
    (f'{MAIL}message = """\none\n{{{{ tilte }}}}\n"""', 6, "message: there is no 'tilte'; there are"),
    (f'{MAIL}message = "{{{{ title.x.y }}}}"', 4, "[[notify]] message: 'str object' has no attribute 'x'"),
    (f'{MAIL}password = "x"', 1, "[[notify]] user and password must be given together"),
    ('[[notify]]\nemail = "me"\nsmtp = "smtp://x"', 2, "email must be an address of mail, such as"),
    ('[[notify]]\nemail = "a@b"\nsmtp = "mail.example.org"', 3, "smtp must be smtps://HOST or smtp://"),
    (f'{MAIL}quiet = "22:00"', 4, "[[notify]] quiet must be like"),
    (f'{MAIL}quiet = "all 00:00-24:00 UTC"', 4, "[[notify]] quiet must leave some time for messages"),
    (f'{MAIL}tell = "everything"', 4, "[[notify]] tell must be some of changes, alarms, overdue"),
    ('[[notify]]\ncommand = "true"\ndigest = "1h"', 3, "[[notify]] digest is for email and apprise"),
    ('[[notify]]\napprise = "nosuch://x"', 2, "[[notify]] apprise must be an address that Apprise knows"),
    ("[databases.x]\n", 1, "[databases.x] needs url"),
    ('[databases.x]\nurl = "nonsense"', 2, "[databases.x] url must be an address such as postgresql://"),
    ("[databases]\nx = 1", 2, "[databases.x] must be a section with url = ..."),
    ('[databases."a b"]\nurl = "x"', 1, "a database must have a name of letters"),
    ('[mirror]\nstore = "postgresql://h/db"', 2, "[mirror] copies must be given if the store is not"),
    ('[mirror]\ncopies = "ftp://host/copies"', 2, "copies must be a folder that this machine sees, or"),
    ('[mirror]\ncopies = "c"\nstore = "mysql://h/db"', 3, "store must be a file or begin with postgresql://"),
    ('[databases.x]\nurl = "${NOT_SET_HERE}"', 2, "needs the environment variable NOT_SET_HERE,"),
    ('[databases.x]\nurl = "${a b}"', 2, "must name variables of the environment like ${PASSWORD}"),
    # TOML
    ("[mirror]\nbudget = 1000/day", 2, "this is not TOML: expected newline or end of document after a"),
    ("[mirror]\nkeep = 1\nkeep = 2", 3, "this is not TOML: cannot overwrite a value"),
    ('[mirror]\n\nstore = "x\n', 3, "this is not TOML: "),
    ('[mirror]\ncontact = """\n\n', 2, "this is not TOML: "),
    ("[mirror]\nkeep = " + "1" * 5000, 2, "this is not TOML: "),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "told"), MISTAKES)
def test_mistakes_are_told(write, text, line, told):
    with pytest.raises(InvalidInput) as error:
        load(write(text))
    assert str(error.value).startswith(f"mirror.toml, line {line}: ")
    assert told in str(error.value)
    assert "\n" not in str(error.value)


SECRETS = [
    "[databases.x]\nurl = 's3cret\\u0007'".replace("'", '"'),
    '[databases.x]\nurl = ["s3cret"]',
    '[[notify]]\nwebhook = "ftp://s3cret"',
    '[[notify]]\ncommand = "x s3cret \'"',
    '[[notify]]\napprise = "nosuch://s3cret"',
    '[[notify]]\nemail = "a@b"\nsmtp = "smtp://me:s3cret@mail"',
    '[http]\nheaders = { Authorization = "s3cret\\n" }',
    '[mirror]\nstore = "mysql://me:s3cret@h/db"',
    '[mirror]\nstore = "postgresql://me:s3cret@h/db"',
    '[databases.x]\nurl = "s3cret:${"',
]  # fmt: skip


@pytest.mark.parametrize("text", SECRETS)
def test_secrets_are_not_repeated(write, text):
    with pytest.raises(InvalidInput) as error:
        load(write(text))
    assert "s3cret" not in str(error.value)


@given(st.text(string.ascii_letters, min_size=3), st.text(string.ascii_letters, min_size=3))
def test_passwords_are_not_shown(user, password):
    shown = without_password(f"postgresql+psycopg://{user}:{password}@db:5432/x?sslpassword={password}")
    assert shown == f"postgresql+psycopg://{user}:***@db:5432/x"


def test_files_that_are_none(tmp_path, monkeypatch, write):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        InvalidInput, match=r"mirror.toml: no such file; make one with 'unstale init', or name"
    ):
        load("mirror.toml")
    with pytest.raises(InvalidInput, match=r"is a folder, and should be a file mirror\.toml"):
        load(tmp_path)
    with pytest.raises(InvalidInput, match="cannot be read"):
        load("a\0b")
    with pytest.raises(InvalidInput, match=r"mirror.toml, line 2: is not UTF-8 \(byte 0xe9\)"):
        load(write("[mirror]\ncontact = 'é'".encode("latin-1")))
    with pytest.raises(InvalidInput, match=r"line 1: is not UTF-8"):
        load(write("[mirror]\n".encode("utf-16")))
    with pytest.raises(InvalidInput, match="more than 10 MB"):
        load(write(b"#" * 10_000_001))
    with pytest.raises(InvalidInput, match="nested too deeply"):
        load(write("[mirror]\nkeep = " + "[" * 100_000))


@given(st.binary(max_size=200))
def test_random_bytes_never_crash(write, content):
    loaded_or_refused(write(content))


PIECES = st.sampled_from(
    ["[", "]", "[[", "]]", "{", "}", "=", '"', "'", '"""', "\n", "\\", "#", ",", ".", " ", "-", "1e999", "0",
     "nan", "true", "\x00", "\ud7ff", "\x85", "9" * 25, "2020-01-01", "mirror", "x" * 50]
)  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, len(FULL)), st.integers(0, 12), PIECES), min_size=1, max_size=4))
@example([(0, 0, "[" * 3000)])
def test_mutated_files_never_crash(write, monkeypatch, edits):
    monkeypatch.setenv("TOKEN", "s3cret")
    text = FULL
    for place, cut, piece in edits:
        text = text[:place] + piece + text[place + cut :]
    loaded_or_refused(write(text))


TOML_VALUES = st.sampled_from(
    ["1", "-1", "0", "1e400", "nan", "-inf", "true", '""', '"x"', '"1/h"', '"6h"', '"0s"', '"\\u0000"',
     '"1MB"', '"~nobody-here/x"', "[]", '["a"]', "[[]]", "{}", '{a = "b"}', '{"" = 1}', "2020-01-01",
     "07:32:00", '"["', '"("', '"1e400/day"', '"1e-99/day"', '"99999999999y"', '"\\u2028"', '"x://"', '"*"',
     "9223372036854775808"]
)  # fmt: skip


@given(st.data())
def test_no_value_of_any_key_crashes(write, data):
    section = data.draw(st.sampled_from(SECTIONS))
    keys = data.draw(st.lists(st.sampled_from(section.keys), unique=True, max_size=4))
    lines = [f"{key.name} = {data.draw(TOML_VALUES)}" for key in keys]
    loaded_or_refused(write("\n".join([section.heading, *lines])))


def loaded_or_refused(path):
    try:
        assert isinstance(load(path), Config)
    except InvalidInput as error:
        told = str(error)
    else:
        told = "mirror.toml"
    assert told.startswith("mirror.toml")
    assert "\n" not in told


@pytest.mark.parametrize("kind", ["rule", "group"])
@pytest.mark.parametrize("aim", ['target = "90 %"', 'objective = "age"'])
def test_a_policy_without_objective_takes_no_rules_with_one(tmp_path, aim, kind):
    path = tmp_path / "mirror.toml"
    path.write_text(f'[mirror]\npolicy = "uniform"\n[[{kind}]]\nmatch = "*"\n{aim}\n')
    with pytest.raises(InvalidInput, match=rf"mirror.toml, line 5: \[\[{kind}\]\] .* looks at no objective"):
        load(path)


def test_the_template_can_be_used_as_it_is(tmp_path):
    path = tmp_path / "new" / "mirror.toml"
    write_template(path, budget="50/h", contact="me@example.org")
    text = path.read_text("utf-8")
    assert "](" not in text
    for page in re.findall(r"See (docs/[\w/-]+\.md)", text):
        assert (Path(__file__).parents[3] / page).is_file(), page
    assert "See docs/explanation/objectives.md" in text
    config = load(path)
    assert config.settings == Settings(budget=50 / 3600, contact="me@example.org")
    with pytest.raises(InvalidInput, match="is there already"):
        write_template(path)
    write_template(tmp_path / "p.toml", store="postgresql://me:secret@db/x")
    assert load(tmp_path / "p.toml").copies == tmp_path / "copies"
    assert (tmp_path / "p.toml").stat().st_mode & 0o077 == 0


EITHER = {
    '#policy = "uniform"',  # as there are rules with a target
    '#budget = "1000/day"',  # of a group, which has spacing as well
    '#probe = "select max(version) from people"',  # as there is a cursor
    '#query = "select id, name from people where active"',  # as there is a split
    '#command = ["logger", "-t", "mirror"]',  # as there is an address of mail, as the next three
    '#webhook = "https://example.org/changed"',
    '#threshold = "5%"',  # as the text counts
    '#apprise = "ntfy://ntfy.example.org/my-topic"',
    '#secret = "${WEBHOOK_SECRET}"',
}


def test_the_template_has_every_key_and_its_examples_are_right(write, monkeypatch):
    monkeypatch.setenv("PASSWORD", "x")
    monkeypatch.setenv("TOKEN", "y")
    monkeypatch.setenv("WEBHOOK_SECRET", "z")
    text = template()
    for section in SECTIONS:
        assert f"\n{section.heading}\n" in text or f"\n#{section.heading}\n" in text
        for key in section.keys:
            assert f"\n{key.name} = " in text or f"\n#{key.name} = {key.example}\n" in text
    assert max(map(len, text.splitlines())) <= 100
    live = "\n".join(
        line.removeprefix("#") if line.startswith("#") and not line.startswith("# ") else line
        for line in text.splitlines()
        if line not in EITHER
    )
    said = load(write(live)).settings
    assert said.rules[0].weight == 5.0
    assert said.rules[0].options["ignore"] == [r"Page views: \d+"]
    assert said.databases["NAME"].url.startswith("postgresql://reader:x@")


def test_the_stated_defaults_are_those_of_the_settings(write):
    for section in SECTIONS[:2]:
        for key in section.keys:
            if key.default.strip('"') == key.example.strip('"') and key.name not in {"store", "copies"}:
                assert load(write(f"{section.heading}\n{key.name} = {key.example}")).settings == Settings()
