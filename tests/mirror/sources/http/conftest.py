"""What the tests of pages share."""

from dataclasses import replace
from pathlib import Path

import pytest

from unstale.mirror.settings import Http, Settings
from unstale.mirror.source import Known, Terms
from unstale.mirror.sources.http.poll import Poller
from unstale.mirror.sources.http.source import HttpSource

PATIENT = Http(connect_timeout=20.0, read_timeout=20.0)
"""All the time that a busy machine may need."""


class Visitor:
    """Polls pages."""

    def __init__(self, scratch: Path):
        self.scratch = scratch
        self.settings = Settings(http=PATIENT)
        self.source = None

    async def __aenter__(self):
        self.source = HttpSource(self.settings)
        return self

    async def __aexit__(self, *_):
        await self.source.close()

    def set(self, **http):
        self.settings = replace(self.settings, http=replace(self.settings.http, **http))
        return self

    def among(self, addresses, public=()):
        """Let names have these addresses, and take some for public that are not."""

        def lookup(host, _):
            if host not in addresses:
                raise OSError(f"{host}: no such name")
            return list(addresses[host])

        self.source = HttpSource(
            self.settings, Poller(self.settings, lookup=lookup, public=lambda address: address in public)
        )
        return self.source

    async def poll(
        self,
        url,
        *,
        options=None,
        before=None,
        spend=None,
        timeout=30.0,  # noqa: ASYNC109  of the poll, as a user would give it
        max_size=3_000_000,
    ):
        """Poll a page; ``before`` is what the last poll of it found."""
        known = Known(
            url,
            options or {},
            (before.validators or {}) if before else {},
            before.fingerprint if before else None,
        )
        return await self.source.poll(known, Terms(self.scratch, max_size, timeout, spend))


@pytest.fixture
def visitor(tmp_path):
    return Visitor(tmp_path)


@pytest.fixture
def hasty(tmp_path):
    return Visitor(tmp_path).set(connect_timeout=1.0, read_timeout=0.4)
