"""Certificates are checked."""

import asyncio
import shutil
import ssl
import subprocess

import pytest

from unstale.errors import InvalidInput
from unstale.mirror.settings import Http, Settings
from unstale.mirror.sources.http.poll import Poller

from .hostile import Hostile, answer


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate with")
    subprocess.run(  # noqa: S603  no shell, no input
        [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", key, "-out", cert],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context, str(cert)


@pytest.fixture
def polled(visitor, certificate):
    def poll(path="/", host=None, **http):
        async def main():
            async with Hostile({"/": answer(b"page")}, tls=certificate[0]) as server, visitor.set(**http):
                return await visitor.poll(server.url(path, host))

        return asyncio.run(main())

    return poll


def test_who_signs_for_himself_is_not_trusted(polled):
    for robots in (True, False):
        found = polled(robots=robots)
        assert found.outcome == "failed"
        assert "the certificate of 127.0.0.1 is not to be trusted" in found.detail
        assert "self-signed" in found.detail


def test_unless_told_so(polled, certificate):
    assert polled(ca_file=certificate[1]).outcome == "changed"


def test_or_nothing_is_checked(polled):
    assert polled(verify=False).outcome == "changed"


def test_a_certificate_for_another_name_is_none(polled, certificate):
    found = polled(ca_file=certificate[1], host="localhost", robots=False)
    assert found.outcome == "failed"
    assert "not valid for 'localhost'" in found.detail


def test_a_server_that_does_not_know_of_tls(visitor):
    async def main():
        async with Hostile() as server, visitor.set(robots=False, connect_timeout=0.3):
            return await visitor.poll(server.url("/").replace("http:", "https:"))

    found = asyncio.run(main())
    assert found.detail == "no TLS handshake with 127.0.0.1 within 0.3 seconds"


def test_a_file_that_holds_no_certificates(tmp_path):
    with pytest.raises(InvalidInput, match="ca_file"):
        Poller(Settings(http=Http(ca_file=str(tmp_path / "none.pem"))))
    (tmp_path / "bad.pem").write_text("no certificate")
    with pytest.raises(InvalidInput, match="ca_file"):
        Poller(Settings(http=Http(ca_file=str(tmp_path / "bad.pem"))))
