"""No way leads from a public address to a private one."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale.mirror.sources.http import private_addresses
from unstale.mirror.sources.http.private_addresses import is_public, named_private

from .hostile import Hostile, answer

PAGE = answer(b"page")
OUTSIDE = "127.0.0.2"
"""An address of this machine that the tests take for a public one; 127.0.0.1 stays private."""


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "127.255.1.2", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.0.1",  # noqa: S104
     "169.254.169.254", "100.64.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "239.1.1.1", "240.0.0.1",
     "255.255.255.255", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12:3456::1", "fec0::1",
     "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::127.0.0.1",
     "64:ff9b::10.0.0.1", "64:ff9b:1::1", "2002:7f00:1::", "2002:a00:1::1", "2001:db8::1",
     "2001:0:53aa:64c::1", "100::1", "4000::1", "not an address", ""],
)  # fmt: skip
def test_private_addresses(address):
    assert not is_public(address)


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "93.184.216.34", "8.8.8.8", "2606:4700::1111", "2a00:1450:4001::1", "::ffff:8.8.8.8",
     "64:ff9b::8.8.8.8", "2002:808:808::1"],
)  # fmt: skip
def test_public_addresses(address):
    assert is_public(address)


@given(st.ip_addresses(v=4))
def test_an_address_is_as_public_within_another_as_it_is_itself(address):
    mapped = IPv6Address(0xFFFF << 32 | int(address))
    translated = IPv6Address(int(ip_address("64:ff9b::")) | int(address))
    assert is_public(str(mapped)) == is_public(str(translated)) == is_public(str(address))
    if is_public(str(address)):
        assert address.is_global


@pytest.mark.parametrize(
    ("host", "private"),
    [("localhost", True), ("a.localhost", True), ("printer.local", True), ("nas", True), ("wiki.corp", True),
     ("x.home.arpa", True), ("db.internal", True), ("10.0.0.1", True), ("::1", True), ("fd00::1", True),
     ("example.org", False), ("local.example.org", False), ("8.8.8.8", False), ("2606:4700::1111", False),
     ("notlocal", True), ("example.localx", False)],
)  # fmt: skip
def test_what_a_name_means(host, private):
    assert named_private(host) is private


def polled(visitor, addresses, path="/", *, host="site.example", pages=None, bind="0.0.0.0"):  # noqa: S104
    async def main():
        async with Hostile(pages or {}, host=bind) as server:
            for name, page in list(server.pages.items()):
                if isinstance(page, bytes):
                    server.pages[name] = page.replace(b"PORT", str(server.port).encode())
            source = visitor.among(addresses, public={OUTSIDE})
            found = await visitor.poll(f"http://{host}:{server.port}{path}")
            await source.close()
            return found, server

    return asyncio.run(main())


def test_a_public_name_with_a_private_address_is_refused(visitor):
    for robots in (True, False):
        found, server = polled(visitor.set(robots=robots), {"site.example": ["127.0.0.1"]}, pages={"/": PAGE})
        assert found.outcome == "refused"
        assert "private address" in found.detail
        assert not server.requests
        assert server.connections == 0


def test_unless_it_is_allowed(visitor):
    found, _ = polled(visitor.set(private=True), {"site.example": ["127.0.0.1"]}, pages={"/": PAGE})
    assert found.outcome == "changed"


def test_a_public_name_with_a_public_address_is_polled(visitor):
    found, _ = polled(visitor, {"site.example": [OUTSIDE]}, pages={"/": PAGE})
    assert found.outcome == "changed"


def test_of_mixed_addresses_the_public_ones_are_used(visitor):
    peers = []

    async def page(_, writer):
        peers.append(writer.get_extra_info("sockname")[0])
        writer.write(PAGE)

    addresses = {"site.example": ["127.0.0.1", OUTSIDE, "::1", "10.0.0.1"]}
    found, _ = polled(visitor, addresses, pages={"/": page})
    assert found.outcome == "changed"
    assert peers == [OUTSIDE]


@pytest.mark.parametrize(
    "target",
    ["http://127.0.0.1:PORT/secret", "http://localhost:PORT/secret", "http://nas.local:PORT/secret",
     "http://other.example:PORT/secret", "http://[::ffff:127.0.0.1]:PORT/secret", "http://0.0.0.0:PORT/secret",
     "//127.0.0.1:PORT/secret", "http://127.0.0.1.:PORT/secret", "http://%31%32%37.0.0.1:PORT/secret"],
)  # fmt: skip
@pytest.mark.parametrize("robots", [True, False])
def test_a_redirect_from_outside_does_not_lead_inside(visitor, target, robots):
    pages = {"/": answer(b"", "302 Found", Location=target), "/secret": PAGE}
    addresses = {
        "site.example": [OUTSIDE],
        "localhost": ["127.0.0.1"],
        "nas.local": ["127.0.0.1"],
        "other.example": ["127.0.0.1"],
    }
    found, server = polled(visitor.set(robots=robots), addresses, pages=pages)
    assert found.outcome in {"refused", "failed"}
    assert found.outcome == "refused" or "cannot be followed" in found.detail
    assert not server.asked("/secret")


def test_nor_does_a_redirect_of_robots(visitor):
    pages = {"/robots.txt": answer(b"", "302 Found", Location="http://127.0.0.1:PORT/secret"), "/": PAGE}
    found, server = polled(visitor, {"site.example": [OUTSIDE]}, pages=pages)
    assert found.outcome == "refused"
    assert not server.asked("/secret")


def test_nor_does_a_name_that_changes_its_address(visitor):
    """The connection goes to the address that was checked; the name is not looked up again."""
    answers = [[OUTSIDE], ["127.0.0.1"], ["127.0.0.1"], ["127.0.0.1"]]
    found, server = polled(visitor, Rebinding(answers), pages={"/": PAGE, "/robots.txt": PAGE})
    assert found.outcome == "changed"
    assert len(answers) == 3
    assert {request.connection for request in server.requests} == {1}


class Rebinding(dict):
    """Another address at each look-up."""

    def __init__(self, answers):
        super().__init__()
        self.answers = answers

    def __contains__(self, _):
        return True

    def __getitem__(self, _):
        return self.answers.pop(0)


def test_a_connection_that_was_made_inside_does_not_serve_those_from_outside(visitor):
    async def main():
        async with Hostile({"/secret": PAGE}, host="0.0.0.0") as server:  # noqa: S104
            server.pages["/"] = answer(b"", "302 Found", Location=f"http://nas.local:{server.port}/secret")
            source = visitor.among({"site.example": [OUTSIDE], "nas.local": ["127.0.0.1"]}, public={OUTSIDE})
            inside = await visitor.poll(f"http://nas.local:{server.port}/secret")
            outside = await visitor.poll(f"http://site.example:{server.port}/")
            await source.close()
            return inside, outside, server

    inside, outside, server = asyncio.run(main())
    assert inside.outcome == "changed", "the user named it"
    assert outside.outcome == "refused"
    assert len(server.asked("/secret")) == 1


def test_who_starts_inside_may_go_on_inside_and_out_but_not_back(visitor):
    async def main():
        async with Hostile({"/end": PAGE}, host="0.0.0.0") as server:  # noqa: S104
            inside, outside = f"http://127.0.0.1:{server.port}", f"http://site.example:{server.port}"
            server.pages["/in"] = answer(b"", "302 Found", Location=f"{inside}/end")
            server.pages["/out"] = answer(b"", "302 Found", Location=f"{outside}/end")
            server.pages["/out-and-in"] = answer(b"", "302 Found", Location=f"{outside}/in")
            source = visitor.among({"site.example": [OUTSIDE]}, public={OUTSIDE})
            found = [await visitor.poll(f"{inside}{path}") for path in ("/in", "/out", "/out-and-in")]
            await source.close()
            return [one.outcome for one in found]

    assert asyncio.run(main()) == ["changed", "changed", "refused"]


def test_the_socket_is_the_last_to_check():
    info = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 80))
    with pytest.raises(private_addresses.PrivateAddress):
        private_addresses.guarded_socket(info, is_public)
    private_addresses.guarded_socket(info, None).close()


def test_the_resolver_gives_back_what_may_be_connected_to():
    async def resolved(addresses, public):
        with ThreadPoolExecutor(1) as threads:
            found = await private_addresses.Resolver(lambda *_: addresses, threads, public).resolve(
                "site.example", 80
            )
        return [one["host"] for one in found]

    mixed = ["10.0.0.1", "8.8.8.8", "8.8.8.8", "::1", "2606:4700::1111"]
    assert asyncio.run(resolved(mixed, is_public)) == ["8.8.8.8", "2606:4700::1111"]
    assert len(asyncio.run(resolved(mixed, None))) == 4
    with pytest.raises(private_addresses.PrivateAddress, match=r"site\.example is 10\.0\.0\.1"):
        asyncio.run(resolved(["10.0.0.1"], is_public))
    with pytest.raises(OSError, match="no address"):
        asyncio.run(resolved([], is_public))


def test_robots_from_inside_must_not_come_in_by_a_public_name_either(visitor):
    pages = {"/robots.txt": answer(b"", "302 Found", Location="http://site.example:PORT/secret"), "/": PAGE}
    found, server = polled(visitor, {"site.example": ["127.0.0.1"]}, host="127.0.0.1", pages=pages)
    assert found.outcome == "refused"
    assert not server.asked("/secret")
