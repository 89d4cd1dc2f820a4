"""Messages for people: a real server of mail and a real target of Apprise, on this machine."""

import asyncio
import email
import email.policy
import json
import shutil
import ssl
import subprocess
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from unstale.mirror.clock import SimulatedClock
from unstale.mirror.notify.apprise_services import AppriseTarget
from unstale.mirror.notify.messages import Message
from unstale.mirror.notify.notifier import Notifier
from unstale.mirror.notify.report import recipient_status, send_test
from unstale.mirror.reports.alarms import AlarmLog
from unstale.mirror.settings import Notify

from .test_notify import START, Changing, serving

HOUR, DAY = 3600.0, 86400.0
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:aiosmtpd")


class Post:
    """What the server of mail takes, or does not."""

    def __init__(self):
        self.mails, self.refusals = [], []

    async def handle_DATA(self, server, session, envelope):  # noqa: ARG002, N802
        if self.refusals:
            return self.refusals.pop(0)
        mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
        self.mails.append(
            SimpleNamespace(to=envelope.rcpt_tos, mail=mail, text=mail.get_content().replace("\r\n", "\n"))
        )
        return "250 OK"


class Office(Controller):
    """Listens on any free port."""

    def _trigger_server(self):
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


@contextmanager
def post_office(**more):
    post = Post()
    controller = Office(post, hostname="127.0.0.1", port=0, **more)
    controller.start()
    post.port = controller.port
    try:
        yield post
    finally:
        controller.stop()


@pytest.fixture(scope="module")
def office():
    with post_office() as post:
        yield post


@pytest.fixture
def post(office):
    office.mails, office.refusals = [], []
    return office


@pytest.fixture
def changing(tmp_path):
    made = Changing(tmp_path)
    yield made
    made.store.close()


def mail_to(post, *people, **more):
    return Notify(email=people or ("me@example.org",), smtp=f"smtp://127.0.0.1:{post.port}", **more)


def notifier_of(changing, *notify, clock=None):
    made = Notifier(notify, changing.store, clock or SimulatedClock(START), copies=changing.copies)
    made.prepare()
    return made


def deliver(notifier):
    return asyncio.run(notifier.deliver())


def test_a_change_is_a_mail_with_what_changed(changing, post):
    notify = mail_to(post, "me@example.org", "you@example.org", title="{{ key }}: {{ old }} -> {{ new }}")
    notifier = notifier_of(changing, notify)
    changing.change(2)
    assert deliver(notifier) == 4
    assert [(one.to, one.mail["Subject"]) for one in post.mails if one.to == ["me@example.org"]] == [
        (["me@example.org"], "python:a: -> 1"),
        (["me@example.org"], "python:a: 1 -> 2"),
    ]
    last = post.mails[-1]
    assert "-1\n+2" in last.text
    assert last.mail["From"] == "unstale@127.0.0.1"
    assert deliver(notifier) == 0


def test_first_copies_are_no_news_for_people(changing, post):
    notifier = notifier_of(changing, mail_to(post, match="*:b"), mail_to(post, "all@example.org", first=True))
    with changing.store.begin() as t:
        t.remove(changing.ids, START)
        t.forget(changing.ids)
        from unstale.mirror.store.contract import Addition

        changing.ids = t.add([Addition("python:b", "python", "python")], START)
    _first_copy(changing)
    deliver(notifier)
    assert [one.to for one in post.mails] == [["all@example.org"]]
    assert "is new" in post.mails[0].mail["Subject"]


def _first_copy(changing):
    from unstale.mirror.store.sql.imported_polls import Brought, Past, recall

    digest, size = changing.copies.put(b"first")
    with changing.store.begin() as t:
        recall(t, [Past(changing.ids[0], START + 9, "new", brought=Brought(digest, size, "text/plain"))])


def test_a_service_that_refuses_for_a_day_is_told_all_in_order_after_a_restart(changing, post):
    clock = SimulatedClock(START + 100.0)
    notifier = notifier_of(changing, mail_to(post), clock=clock)
    post.refusals = ["451 try later"] * 10_000

    async def a_day():
        attempts = 0
        for hour in range(24):
            changing.change(1, which=hour % 2)
            await notifier.deliver()
            attempts += 1
            await clock.until(max(clock.now() + HOUR, notifier.status()[0].next_try))
        return attempts

    assert asyncio.run(a_day()) == 24
    assert not post.mails
    report = recipient_status([mail_to(post)], changing.store)[0]
    assert (report.waiting, report.trouble) == (24, "change 1: 451 try later")
    again = notifier_of(changing, mail_to(post), clock=clock)  # a new process
    post.refusals = []
    assert deliver(again) == 24
    [mail] = post.mails  # no flood
    assert mail.mail["Subject"] == "24 changes"
    assert mail.text.index("python:a") < mail.text.index("python:b")
    assert "+24" in mail.text
    assert recipient_status([mail_to(post)], changing.store)[0].waiting == 0


def test_what_a_server_never_takes_is_sent_in_brief(changing, post):
    clock = SimulatedClock(START)
    notifier = notifier_of(changing, mail_to(post), clock=clock)
    changing.change()
    post.refusals = ["554 this is spam"]
    assert deliver(notifier) == 0
    asyncio.run(clock.until(notifier.status()[0].next_try))
    assert deliver(notifier) == 1
    assert "in brief" in post.mails[0].text


def test_digests_and_quiet_hours(changing, post):
    clock = SimulatedClock(START + 3.0)  # 22:13 in UTC
    daily = mail_to(post, "daily@example.org", digest=DAY)
    sleeper = mail_to(post, "sleeper@example.org", quiet="all 22:00-07:00 UTC")
    notifier = notifier_of(changing, daily, sleeper, clock=clock)

    async def later(seconds):
        await clock.until(clock.now() + seconds)
        return await notifier.deliver()

    changing.change(2)
    assert asyncio.run(later(0.0)) == 0
    changing.change(1, which=1)
    assert asyncio.run(later(8 * HOUR)) == 0
    assert asyncio.run(later(1 * HOUR)) == 3  # it is past seven
    assert {one.to[0] for one in post.mails} == {"sleeper@example.org"}
    changing.change()
    assert asyncio.run(later(15 * HOUR)) == 4  # a day after the first change
    [mail] = [one for one in post.mails if one.to == ["daily@example.org"]]
    assert mail.mail["Subject"] == "4 changes"


def test_alarms_come_between_the_changes_and_wait_with_them(changing, post):
    notifier = notifier_of(changing, mail_to(post), mail_to(post, "ops@example.org", tell=("failing",)))
    changing.change()  # at START + 1
    with changing.store.begin() as t:
        log = AlarmLog(t.state())
        log.news({("failing", "http:x"): "2 of 3 elements of http:x cannot be polled"}, START + 1.5)
        t.keep(log.to_keep())
    changing.change()
    assert deliver(notifier) == 4
    told = [one.mail["Subject"] for one in post.mails if one.to == ["me@example.org"]]
    assert told == ["café has changed", "Alarm: failing: http:x", "café has changed"]
    assert [one.text.strip() for one in post.mails if one.to == ["ops@example.org"]] == [
        "2 of 3 elements of http:x cannot be polled"
    ]
    with changing.store.begin() as t:
        log = AlarmLog(t.state())
        assert not log.news({("failing", "http:x"): "3 of 3"}, START + 3.0)
        assert [one.over for one in log.news({}, START + 4.0)] == [True]


def test_programs_get_alarms_as_json_if_they_ask(changing):
    async def run():
        async with serving() as hook:
            notifier = notifier_of(changing, Notify(webhook=hook.url, tell=("changes", "alarms")))
            with changing.store.begin() as t:
                log = AlarmLog(t.state())
                log.news({("budget", ""): "The reserve is used up"}, START)
                t.keep(log.to_keep())
            assert await notifier.deliver() == 1
            assert hook.got[0]["alarm"] == "budget"
            assert hook.got[0]["text"] == "The reserve is used up"
            assert hook.headers[0][0]["webhook-id"] == "alarm-1"
            await notifier.close()

    asyncio.run(run())


def test_a_login_over_tls_and_a_wrong_password_that_is_not_shown(tmp_path, monkeypatch):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(  # noqa: S603
        [shutil.which("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-keyout", str(key), "-out", str(certificate), "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def login(server, session, envelope, mechanism, data):  # noqa: ARG001
        return AuthResult(success=data.password == b"right/p@ss", handled=False)

    with post_office(tls_context=context, require_starttls=True, authenticator=login) as post:

        def tried(password):
            notify = mail_to(post, "me@example.org", user="me", password=password)
            return asyncio.run(send_test([notify], START))[0]

        assert "certificate" in tried("right/p@ss").trouble.lower()  # nobody vouches for it
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        wrong = tried("wr0ng-s3cret")
        assert "535" in wrong.trouble
        assert "s3cret" not in wrong.trouble
        assert not post.mails
        assert not tried("right/p@ss").trouble
        assert post.mails[0].mail["Subject"] == "Test: A price has changed"


def test_apprise_reaches_its_target_and_its_address_is_not_told(changing):
    async def run():
        async with serving() as hook:
            address = hook.url.replace("http://", "json://me:s3cretword@").partition("?")[0]
            notifier = notifier_of(changing, Notify(apprise=address, message="{{ diff }}"))
            hook.answers = [(500, 0, "")]
            changing.change()
            assert await notifier.deliver() == 0
            state = notifier.status()[0]
            assert "500" in state.trouble
            assert "s3cretword" not in f"{state}{recipient_status([Notify(apprise=address)], changing.store)}"
            again = notifier_of(changing, Notify(apprise=address, message="{{ diff }}"))
            assert await again.deliver() == 1
            assert (hook.got[0]["title"], hook.got[0]["message"]) == ("café has changed", "1")
            hook.got.clear()
            assert [one.trouble for one in await send_test([Notify(apprise=address)], START)] == [""]
            assert hook.got[0]["title"].startswith("Test: ")
            json.dumps(hook.got)
            hook.got.clear()  # mail and chats take HTML, and a page could write it
            html = AppriseTarget(f"{address}?format=html", 30.0)
            await html.tell("1", START, Message("A title", "+<img src=//evil.example/seen>"))
            assert hook.got[0]["message"].startswith("+&lt;img")

    asyncio.run(run())


def test_a_template_that_fails_for_one_change_tells_it_all_the_same(changing, post):
    notifier = notifier_of(changing, mail_to(post, message="{{ 1 / (new | int - 1) }}"))
    changing.change()
    deliver(notifier)
    assert "The template of this message failed: ZeroDivisionError" in post.mails[0].text


def test_a_hostile_title_stays_in_its_line(changing, post):
    notifier = notifier_of(changing, mail_to(post, title="{{ new }}"))
    digest, size = changing.copies.put(b"Hello\r\nBcc: victim@example.org\r\n\r\n{{ 7 * 7 }}")
    from unstale.mirror.store.sql.imported_polls import Brought, Past, recall

    with changing.store.begin() as t:
        recall(t, [Past(changing.ids[0], START + 9, "changed", brought=Brought(digest, size, "text/plain"))])
    deliver(notifier)
    [one] = post.mails
    assert one.mail["Bcc"] is None
    assert "{{ 7 * 7 }}" in one.mail["Subject"]
