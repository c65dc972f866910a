"""What the agent says of processes."""

from __future__ import annotations

import time

from producer import BEGIN, END, Producer
from running import RunningAgent, until

from pilotlight.agent.process import Rates
from pilotlight.agent.status import looks_after
from pilotlight.recording.schema import SpanFlag, SpanKind

_MS = 1_000_000


def test_rates_span_a_second_however_many_look() -> None:
    looks = (Rates(0, {}), Rates(0, {}))
    spans_ms = []
    # Two who look once a second, ten milliseconds after each other.
    for time_ms in sorted([*range(1000, 9000, 1000), *range(1010, 9000, 1000)]):
        looks = looks_after(looks, Rates(time_ms * _MS, {"steps": time_ms}))
        spans_ms.append(time_ms - looks[0].time_ns // _MS)
    assert spans_ms == [1000, 1010] * 8


def test_a_phase_that_goes_on_is_told_and_has_its_share(agent: RunningAgent) -> None:
    producer = Producer()
    backward = producer.define("backward")
    producer.connect(agent.place.probe_socket)
    producer.answer()
    producer.record(BEGIN, producer.name, bytes(16))
    producer.record(BEGIN, backward, bytes(16), flags=SpanKind.PHASE)
    began_ns = time.monotonic_ns()
    until(lambda: agent.status()["processes"][0]["phase"])
    time.sleep(1.0)
    agent.status()
    time.sleep(1.0)
    (process,) = agent.status()["processes"]
    told_ns, truth_ns = process["phase"]["for_ns"], time.monotonic_ns() - began_ns
    assert process["phase"]["name"] == "backward"
    assert 0 <= truth_ns - told_ns < 500 * _MS
    assert process["phases"] == {"backward": 1.0}
    producer.record(END, backward, bytes(16), flags=SpanKind.PHASE)
    until(lambda: agent.status()["processes"][0]["phase"] is None)
    producer.close()


def test_a_phase_whose_end_was_lost_ends_with_the_next(agent: RunningAgent) -> None:
    producer = Producer()
    forward, backward = producer.define("forward"), producer.define("backward")
    producer.connect(agent.place.probe_socket)
    producer.answer()
    for lost in (forward, producer.name):
        producer.record(BEGIN, lost, bytes(16), flags=SpanKind.PHASE if lost == forward else 0)
    producer.record(BEGIN, backward, bytes(16), flags=SpanKind.PHASE)
    producer.record(END, backward, bytes(16), flags=SpanKind.PHASE)
    until(lambda: agent.status()["processes"][0]["read"] >= 5)
    assert agent.status()["processes"][0]["phase"] is None
    with agent.client() as client:
        client.ask("flush", job="job")
    spans = agent.recording().detail("spans")
    flags = dict(zip(spans["name"].tolist(), spans["flags"].tolist(), strict=True))
    assert flags == {forward: SpanFlag.NEVER_CLOSED, backward: 0}
    producer.close()
