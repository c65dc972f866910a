"""Metrics to an OpenTelemetry receiver, read back by its own message types."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")
pytest.importorskip("opentelemetry.proto", reason="needs opentelemetry-proto")

from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as service

from pilotlight.collector.collector import Collector
from pilotlight.errors import UsageError
from pilotlight.export.otlp import Receiver, pushing, receiver_of, request
from pilotlight.simulate.fleet import WINDOW_NS, FleetJob, SimulatedAgent
from pilotlight.store.batch import Clock, decode
from pilotlight.store.place import parse_place


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    made = Collector(parse_place(str(tmp_path_factory.mktemp("otlp") / "store")))
    now_ns = time.time_ns() // WINDOW_NS * WINDOW_NS
    agent = SimulatedAgent(FleetJob("nightly", ranks_per_node=2), 0, now_ns)
    body = agent.batch(now_ns - WINDOW_NS, now_ns)
    made.writer.submit(body, decode("red", body, Clock(), now_ns)).result(10)
    deadline = time.monotonic() + 20
    while not made.watcher.jobs() and time.monotonic() < deadline:
        time.sleep(0.05)
    yield made
    made.close()


@pytest.fixture
def heard() -> Iterator[tuple[str, list[tuple[Any, dict[str, str]]]]]:
    got: list[tuple[Any, dict[str, str]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            got.append((service.ExportMetricsServiceRequest.FromString(body), dict(self.headers)))
            self.send_response(503 if "busy" in self.path else 200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", got
    server.shutdown()
    server.server_close()


def metrics(resource: Any) -> dict[str, Any]:
    return {one.name: one for scope in resource.scope_metrics for one in scope.metrics}


def test_what_is_pushed_has_the_steps_of_each_rank_by_tenant(collector: Collector) -> None:
    now_ns = time.time_ns()
    sent = service.ExportMetricsServiceRequest.FromString(request(collector, now_ns))
    own, red = sent.resource_metrics
    attributes = {one.key: one.value.string_value for one in red.resource.attributes}
    assert attributes["service.name"] == "pilotlight" and attributes["pilotlight.tenant"] == "red"
    steps = metrics(red)["pilotlight_step_duration_seconds"]
    assert steps.unit == "s" and len(steps.gauge.data_points) == 2
    for point in steps.gauge.data_points:
        labels = {one.key: one.value.string_value for one in point.attributes}
        assert labels["job_name"] == "nightly" and labels["rank"] in ("0", "1")
        assert 0.5 < point.as_double < 2 and point.time_unix_nano == now_ns
    received = metrics(own)["pilotlight_collector_batches_received"].sum
    assert received.is_monotonic and received.aggregation_temporality == 2
    assert received.data_points[0].as_double == 1


def test_it_is_pushed_again_and_again_and_failures_are_counted(
    collector: Collector, heard: tuple[str, list[tuple[Any, dict[str, str]]]]
) -> None:
    url, got = heard
    collector.pushed.clear()
    receiver = Receiver(f"{url}/v1/metrics", {"x-key": "s3cret"}, 0.1, 5.0, is_packed=True)
    with pushing(receiver, collector):
        deadline = time.monotonic() + 20
        while len(got) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
    assert len(got) >= 2 and got[0][0].resource_metrics
    assert {key.lower(): value for key, value in got[0][1].items()}["x-key"] == "s3cret"
    for wrong in (f"{url}/busy", "http://127.0.0.1:9/v1/metrics"):
        with pushing(Receiver(wrong, every_s=0.1), collector):
            deadline = time.monotonic() + 20
            before = collector.pushed.total()
            while collector.pushed.total() == before and time.monotonic() < deadline:
                time.sleep(0.02)
    assert collector.pushed["sent"] >= 2 and collector.pushed["refused: 503"] >= 1
    assert collector.pushed["failed: URLError"] >= 1


def test_the_variables_of_the_specification_are_heard() -> None:
    assert receiver_of({}) is None
    found = receiver_of(
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://otel:4318/",
            "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20abc,x=1",
            "OTEL_METRIC_EXPORT_INTERVAL": "5000",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
        }
    )
    assert found is not None and found.url == "http://otel:4318/v1/metrics"
    assert found.headers == {"authorization": "Bearer abc", "x": "1"}
    assert (found.every_s, found.is_packed) == (5.0, True)
    of_metrics = {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "https://otel/in"}
    found = receiver_of(of_metrics)
    assert found is not None and found.url == "https://otel/in"
    assert receiver_of({**of_metrics, "OTEL_METRICS_EXPORTER": "none"}) is None
    assert receiver_of({**of_metrics, "OTEL_SDK_DISABLED": "true"}) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "otel:4317"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "br"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "soon"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "novalue"),
    ],
)
def test_a_variable_that_makes_no_sense_is_named(name: str, value: str) -> None:
    with pytest.raises(UsageError, match="OTEL_"):
        receiver_of({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://otel:4318", name: value})
