"""Metrics and profiles to an OpenTelemetry receiver, read back by its own message types."""

from __future__ import annotations

import gzip
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")
pytest.importorskip("opentelemetry.proto", reason="needs opentelemetry-proto")

from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics_service
from opentelemetry.proto.collector.profiles.v1development import (
    profiles_service_pb2 as profiles_service,
)

from pilotlight.collector.collector import Collector
from pilotlight.errors import UsageError
from pilotlight.export.otlp.metrics import Metrics
from pilotlight.export.otlp.profiles import LAG_NS, LONGEST_NS, Profiles, encoded
from pilotlight.export.otlp.push import post, pushing, rejected_of
from pilotlight.export.otlp.pushes import otlp_pushes
from pilotlight.export.otlp.receiver import METRICS, PROFILES, Receiver, receiver_of
from pilotlight.simulate.fleet import WINDOW_NS, FleetJob, SimulatedAgent
from pilotlight.store.batch import Clock, decode
from pilotlight.store.place import parse_place
from pilotlight.store.queries.profiles import ProfileKey, ProfileRow, ProfileSums
from pilotlight.store.queries.reader import Span

NOW_NS = time.time_ns() // WINDOW_NS * WINDOW_NS


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    """Two ranks of a job told of the last window before NOW_NS."""
    made = Collector(parse_place(str(tmp_path_factory.mktemp("otlp") / "store")))
    agent = SimulatedAgent(FleetJob("nightly", ranks_per_node=2), 0, NOW_NS)
    submit(made, agent, NOW_NS - WINDOW_NS, NOW_NS)
    deadline = time.monotonic() + 60
    while not made.watcher.jobs() and time.monotonic() < deadline:
        time.sleep(0.05)
    yield made
    made.close()


def submit(collector: Collector, agent: SimulatedAgent, from_ns: int, received_ns: int) -> None:
    body = agent.batch(from_ns, from_ns + WINDOW_NS)
    collector.writer.submit(body, decode("red", body, Clock(), received_ns)).result(60)
    assert collector.writer.flush(60)


class Heard:
    """A receiver that keeps what it hears and answers as its path says."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.got: list[tuple[str, bytes, dict[str, str]]] = []

    def at(self, path: str) -> list[bytes]:
        return [body for asked, body, _ in list(self.got) if asked == path]


@pytest.fixture
def heard() -> Iterator[Heard]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            headers = {key.lower(): value for key, value in self.headers.items()}
            made.got.append((self.path, body, headers))
            status = {"/busy": 503, "/unknown": 404}.get(self.path, 200)
            answer = profiles_service.ExportProfilesServiceResponse()
            if self.path == "/part":
                answer.partial_success.rejected_profiles = 300
                answer.partial_success.error_message = "too many"
            content = answer.SerializeToString()
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = Heard(f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield made
    server.shutdown()
    server.server_close()


def metrics(resource: Any) -> dict[str, Any]:
    return {one.name: one for scope in resource.scope_metrics for one in scope.metrics}


def attributes(resource: Any) -> dict[str, str]:
    return {one.key: one.value.string_value for one in resource.resource.attributes}


def test_what_is_pushed_has_the_steps_of_each_rank_by_tenant(collector: Collector) -> None:
    body = Metrics(collector).body(NOW_NS)
    own, red = metrics_service.ExportMetricsServiceRequest.FromString(body).resource_metrics
    assert attributes(red)["service.name"] == "pilotlight"
    assert attributes(red)["pilotlight.tenant"] == "red"
    steps = metrics(red)["pilotlight_step_duration_seconds"]
    assert steps.unit == "s" and len(steps.gauge.data_points) == 2
    for point in steps.gauge.data_points:
        labels = {one.key: one.value.string_value for one in point.attributes}
        assert labels["job_name"] == "nightly" and labels["rank"] in ("0", "1")
        assert 0.5 < point.as_double < 2 and point.time_unix_nano == NOW_NS
    received = metrics(own)["pilotlight_collector_batches_received"].sum
    assert received.is_monotonic and received.aggregation_temporality == 2
    assert received.data_points[0].as_double >= 1


def stacks_of(request: Any, profile: Any) -> list[tuple[list[str], str, int]]:
    """Of each sample its frames, its label and its value, by the rules of the dictionary."""
    words = request.dictionary
    found = []
    for sample in profile.samples:
        frames = []
        for index in words.stack_table[sample.stack_index].location_indices:
            (line,) = words.location_table[index].lines
            function = words.function_table[line.function_index]
            frames.append(words.string_table[function.name_strindex])
        (label,) = (words.attribute_table[index] for index in sample.attribute_indices)
        (value,) = sample.values
        found.append((frames, label.value.string_value, value))
    return found


def profiles_in(request: Any) -> dict[str, Any]:
    return {
        request.dictionary.string_table[profile.sample_type.type_strindex]: profile
        for resource in request.resource_profiles
        for scope in resource.scope_profiles
        for profile in scope.profiles
    }


def test_a_profile_has_the_stacks_and_kernels_that_the_store_has(collector: Collector) -> None:
    pushed = Profiles(collector, NOW_NS - WINDOW_NS + LAG_NS)
    body = pushed.body(NOW_NS + LAG_NS)
    request = profiles_service.ExportProfilesServiceRequest.FromString(body)
    (resource,) = request.resource_profiles
    assert attributes(resource) == {
        "service.name": "nightly",
        "pilotlight.tenant": "red",
        "pilotlight.attempt": "0",
    }
    for name in ("mapping", "location", "function", "attribute", "stack"):
        empty = getattr(request.dictionary, f"{name}_table")[0]
        assert empty == type(empty)(), name
    assert request.dictionary.string_table[0] == ""
    assert len(request.dictionary.link_table[0].trace_id) == 16
    found = profiles_in(request)
    for kind, which in (("wall", 2), ("gpu", 5)):
        profile = found[kind]
        assert len(profile.profile_id) == 16
        assert profile.time_unix_nano == NOW_NS - WINDOW_NS
        assert profile.duration_nano == WINDOW_NS
        unit = request.dictionary.string_table[profile.sample_type.unit_strindex]
        assert unit == "nanoseconds"
        ((whole, names),) = collector.store.select(
            "SELECT sum(total_ns), uniqExact(name) FROM windows WHERE kind = {kind:UInt8}",
            {"kind": which},
        )
        sums = stacks_of(request, profile)
        assert (sum(value for _, _, value in sums), len(sums)) == (whole, names)
    backward = ["Tensor.backward", "train", "main"]
    wall = {tuple(frames): label for frames, label, _ in stacks_of(request, found["wall"])}
    assert wall[tuple(backward)] == "running"
    gpu = {frames[0]: label for frames, label, _ in stacks_of(request, found["gpu"])}
    assert gpu["flash_fwd_kernel<bf16_128>"] == "kernel"


def test_what_a_receiver_could_not_take_is_in_the_next_push(collector: Collector) -> None:
    pushed = Profiles(collector, NOW_NS - WINDOW_NS + LAG_NS)
    first = pushed.body(NOW_NS + LAG_NS)
    assert pushed.body(NOW_NS + LAG_NS) == first != b""
    pushed.settled()
    assert pushed.body(NOW_NS + LAG_NS) == b""
    collector.not_pushed.clear()
    late = Profiles(collector, NOW_NS - WINDOW_NS + LAG_NS)
    assert late.body(NOW_NS + LAG_NS + LONGEST_NS) == b""
    assert collector.not_pushed["seconds"] == WINDOW_NS // 10**9


def test_a_batch_that_comes_after_the_push_of_its_time_is_counted(collector: Collector) -> None:
    """Of another day, so that no other test sees it."""
    day_ns = NOW_NS - 86_400 * 10**9
    pushed = Profiles(collector, time.time_ns())
    pushed.body(NOW_NS + LAG_NS)
    pushed.settled()
    collector.not_pushed.clear()
    agent = SimulatedAgent(FleetJob("late"), 1, NOW_NS)
    submit(collector, agent, day_ns, time.time_ns())
    pushed.body(NOW_NS + LAG_NS)
    assert collector.not_pushed["late batches"] == 1
    pushed.body(NOW_NS + LAG_NS)
    assert collector.not_pushed["late batches"] == 1


def test_time_beyond_the_bounds_is_pushed_as_other() -> None:
    key = ProfileKey("red", "job", 0, is_device=False)
    frames = "main (a/train.py:88)", "loss (b/loss.py)"
    rows = [ProfileRow(frames, "running", 70)]
    body = encoded(ProfileSums({key: rows}, {key: 100}, 9), Span(0, 10))
    request = profiles_service.ExportProfilesServiceRequest.FromString(body)
    assert stacks_of(request, profiles_in(request)["wall"]) == [
        (["loss", "main"], "running", 70),
        (["(other)"], "unknown", 30),
    ]
    words = request.dictionary
    files = {words.string_table[one.filename_strindex] for one in words.function_table}
    assert files == {"", "a/train.py", "b/loss.py"}
    assert [one.lines[0].line for one in words.location_table[1:]] == [0, 88, 0]
    kinds = [words.attribute_table[one.attribute_indices[0]] for one in words.location_table[1:]]
    assert {one.value.string_value for one in kinds} == {"cpython"}


def until(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "never became true"
        time.sleep(0.02)


def test_it_is_pushed_again_and_again_and_failures_are_counted(
    collector: Collector, heard: Heard
) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    receiver = Receiver(f"{heard.url}/ok", {"x-key": "s3cret"}, 0.1, 5.0, is_packed=True)
    with pushing(receiver, Metrics(collector), counts):
        until(lambda: counts[METRICS, "sent"] >= 2)
    assert metrics_service.ExportMetricsServiceRequest.FromString(heard.at("/ok")[0])
    assert heard.got[0][2]["x-key"] == "s3cret"
    for wrong, result in (
        (f"{heard.url}/busy", "refused: 503"),
        (f"{heard.url}/part", "sent in part"),
        ("http://127.0.0.1:9/v1/metrics", "failed: URLError"),
    ):
        with pushing(Receiver(wrong, every_s=0.1), Metrics(collector), counts):
            until(lambda result=result: counts[METRICS, result])


def test_a_receiver_that_does_not_know_the_signal_is_left_in_peace(heard: Heard) -> None:
    outcome = post(Receiver(f"{heard.url}/unknown"), b"x")
    assert (outcome.result, outcome.is_settled, outcome.is_unwanted) == ("refused: 404", True, True)
    outcome = post(Receiver(f"{heard.url}/busy"), b"x")
    assert (outcome.is_settled, outcome.is_unwanted) == (False, False)


@pytest.mark.parametrize("answer", [b"", b"\x0a", b"\x0a\xff", b"\x0a\x02\x08\xff", b"<html>"])
def test_an_answer_that_is_none_rejects_nothing(answer: bytes) -> None:
    assert rejected_of(answer) == 0


def test_both_signals_go_to_the_endpoint_that_the_environment_names(
    collector: Collector, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("random.uniform", lambda least, most: least)
    collector.pushed.clear()
    with otlp_pushes({"OTEL_EXPORTER_OTLP_ENDPOINT": heard.url})(collector):
        until(lambda: len(collector.pushed) == 2)
    assert collector.pushed[METRICS, "sent"] == 1 and heard.at("/v1/metrics")
    assert {signal for signal, _ in collector.pushed} == {METRICS, PROFILES}


def test_the_variables_of_the_specification_are_heard() -> None:
    assert receiver_of({}, METRICS) is None
    env = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://otel:4318/",
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20abc,x=1",
        "OTEL_METRIC_EXPORT_INTERVAL": "5000",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
        "OTEL_EXPORTER_OTLP_PROFILES_TIMEOUT": "700",
    }
    found = receiver_of(env, METRICS)
    assert found is not None and found.url == "http://otel:4318/v1/metrics"
    assert found.headers == {"authorization": "Bearer abc", "x": "1"}
    assert (found.every_s, found.timeout_s, found.is_packed) == (5.0, 10.0, True)
    found = receiver_of(env, PROFILES)
    assert found is not None and found.url == "http://otel:4318/v1development/profiles"
    assert (found.every_s, found.timeout_s) == (60.0, 0.7)
    of_metrics = {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "https://otel/in"}
    found = receiver_of(of_metrics, METRICS)
    assert found is not None and found.url == "https://otel/in"
    assert receiver_of(of_metrics, PROFILES) is None
    assert receiver_of({**of_metrics, "OTEL_METRICS_EXPORTER": "none"}, METRICS) is None
    assert receiver_of({**of_metrics, "OTEL_SDK_DISABLED": "true"}, METRICS) is None
    assert receiver_of({**env, "OTEL_PROFILES_EXPORTER": "none"}, PROFILES) is None


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
        receiver_of({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://otel:4318", name: value}, METRICS)
