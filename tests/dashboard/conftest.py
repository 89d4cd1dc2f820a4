"""A small mirror, and a dashboard of it that is asked without a network."""

import warnings
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from unstale import Mirror
from unstale.dashboard.access_rules import AccessRules
from unstale.dashboard.app import create_app
from unstale.dashboard.mirror_gateway import MirrorGateway
from unstale.mirror.settings import Settings

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "Using `httpx` with `starlette.testclient`")
    from starlette.testclient import TestClient

ROOT = "http://127.0.0.1:8321"
HOSTILE = '"><script>alert(1)</script>\r\nSet-Cookie: a=b'


@dataclass
class Web:
    """What there is to be mirrored; change it as you like."""

    pages: dict[str, object] = field(default_factory=dict)


@pytest.fixture
def web():
    return Web({"news": "one\ntwo\nthree\n", "about": "<h1>about</h1>"})


@pytest.fixture
def mirror(tmp_path, web):
    """Return a mirror of two texts, each polled once; ``mirror.step()`` polls new ones."""
    with Mirror(tmp_path / "mirror.db", settings=Settings(budget=1000.0)) as made:
        for name in web.pages:
            made.add(f"python:{name}", poll=lambda name=name: web.pages[name])

        def step():
            """Poll what is due; again if a busy machine came too late for all of it."""
            return next((polls for _ in range(5) if (polls := Mirror.step(made))), 0)

        made.step = step
        first_copies(made)
        yield made


def first_copies(mirror):
    """Poll until each element has a copy: on a busy machine one step may come too late for some."""
    while any(element.version is None for element in mirror.elements()):
        mirror.step()


@pytest.fixture
def ask(mirror):
    """Return what makes clients: ``ask()``, ``ask(token=...)``, or ``ask(own=True)`` of an app of its own."""
    clients = []

    def client(*, own=False, **guard):
        if own or guard:
            clients.append(client_of(mirror.store.url, mirror.settings, **guard))
        else:
            again = Mirror(mirror.store.url, settings=mirror.settings)
            clients.append(AgainClient(MirrorGateway(again, fresh_for=0.0)))
        return clients[-1].__enter__()

    yield client
    for made in clients:
        if made.portal is not None:  # nobody has left it yet
            made.__exit__(None, None, None)


@pytest.fixture(scope="package")
def still(tmp_path_factory):
    """Return what makes clients of a mirror as above that all tests share, and none of them changes."""
    folder = tmp_path_factory.mktemp("still")
    settings = Settings(budget=1000.0)
    with Mirror(folder / "mirror.db", settings=settings) as made, ExitStack() as stack:
        for name in ("news", "about"):
            made.add(f"python:{name}", poll=lambda name=name: name)
        first_copies(made)
        kept = {}

        def client(**guard):
            name = repr(sorted(guard.items()))
            if name not in kept:
                kept[name] = stack.enter_context(client_of(made.store.url, settings, **guard))
            kept[name].cookies.clear()
            return kept[name]

        yield client


def client_of(store, settings, copies=None, **guard):
    gateway = MirrorGateway(Mirror(store, settings=settings, copies=copies), fresh_for=0.0)
    return TestClient(create_app(gateway, AccessRules(**guard)), base_url=ROOT, follow_redirects=False)


class Door:
    """Stands for one gateway after the other, so that an app can be used again."""

    def __init__(self, gateway):
        self.gateway = gateway

    def __getattr__(self, name):
        return getattr(self.gateway, name)


class AgainClient(TestClient):
    """A client of an app that another test had: to make one takes longer than most tests."""

    _free: ClassVar = []

    def __init__(self, gateway):
        if not AgainClient._free:
            door = Door(gateway)
            AgainClient._free.append((create_app(door, AccessRules()), door))
        self._kept = app, door = AgainClient._free.pop()
        door.gateway, gateway.trusted = gateway, False
        super().__init__(app, base_url=ROOT, follow_redirects=False)

    def __exit__(self, *error):
        super().__exit__(*error)
        AgainClient._free.append(self._kept)
