"""Traces and metrics of a mirror, as a real collector gets them: by HTTP on loopback, in OTLP."""

import gzip
import json
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from .conftest import adapter

DECODE = """
import json, sys
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
kinds = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}
path, file = sys.argv[1:]
print(json.dumps(MessageToDict(kinds[path].FromString(open(file, "rb").read()))))
"""


@pytest.fixture(scope="module")
def programs():
    return adapter("telemetry", "opentelemetry.sdk")


@pytest.fixture
def collector():
    """A server that takes what a collector of OpenTelemetry takes."""
    got = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, gzip.decompress(body) if self.headers["Content-Encoding"] else body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", got
        server.shutdown()
        thread.join()


def run_once(programs, folder, endpoint):
    (folder / "mirror.toml").write_text('[mirror]\nbudget = "1000/day"\n')
    (folder / "page.txt").write_text("a page")
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    environment |= {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_SERVICE_NAME": "my mirror"}
    environment |= {
        name: os.environ[name] for name in ("PYTHONPATH", "NUMBA_CACHE_DIR") if name in os.environ
    }
    for words in (["add", "page.txt", "./missing.txt"], ["run", "--once", "--telemetry"]):
        done = subprocess.run(  # noqa: S603
            [programs / "python", "-m", "unstale", *words],
            cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    return done


def attributes(one):
    return {each["key"]: next(iter(each["value"].values())) for each in one.get("attributes", [])}


def test_polls_are_spans_and_metrics(programs, tmp_path, collector):
    endpoint, got = collector
    run_once(programs, tmp_path, endpoint)
    said = {}
    for number, (path, body) in enumerate(got):
        (file := tmp_path / f"{number}.bin").write_bytes(body)
        line = [programs / "python", "-c", DECODE, path, file]
        told = subprocess.run(line, capture_output=True, text=True, check=True).stdout  # noqa: S603
        said.setdefault(path, []).append(json.loads(told))
    (traces,) = said["/v1/traces"][0]["resourceSpans"]
    assert attributes(traces["resource"])["service.name"] == "my mirror"
    polls = [one for one in traces["scopeSpans"][0]["spans"] if one["name"] == "poll"]
    outcomes = {
        Path(attributes(one)["unstale.key"]).name: attributes(one)["unstale.outcome"] for one in polls
    }
    assert outcomes == {"page.txt": "new", "missing.txt": "gone"}
    assert all(int(one["endTimeUnixNano"]) >= int(one["startTimeUnixNano"]) > 1.7e18 for one in polls)
    metrics = {
        one["name"]: one
        for request in said["/v1/metrics"]
        for one in request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
    }
    points = metrics["unstale.polls"]["sum"]["dataPoints"]
    assert {attributes(one)["unstale.outcome"]: one["asInt"] for one in points} == {"new": "1", "gone": "1"}
    assert {"unstale.poll.duration", "unstale.traffic"} < metrics.keys()


def test_a_collector_that_is_away_costs_the_mirror_nothing(programs, tmp_path):
    done = run_once(programs, tmp_path, "http://127.0.0.1:9")
    assert "Traceback" not in done.stderr
