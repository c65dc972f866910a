from __future__ import annotations

from pathlib import Path

import example

from pilotlight.insights.signals import values
from pilotlight.recording.recording import Recording
from pilotlight.trace.reader import read_traces
from pilotlight.trace.recorded_counters import with_node_counters


def test_a_process_has_the_counters_of_its_host_and_its_own_gpu(tmp_path: Path) -> None:
    process = example.Process(0)
    process.add("steps", 100, 1, 1_000, 900)
    names = [("host", "cpu"), ("gpu0", "sm_clock"), ("gpu1", "sm_clock")]
    units = ["%", "MHz", ""]
    process.tables["device_counters"] = [
        (i + 1, *name, unit) for i, (name, unit) in enumerate(zip(names, units, strict=True))
    ]
    process.tables["device_values"] = [
        (1, 1_500, 40.0), (2, 1_500, 1700.0), (3, 1_500, 1200.0), (1, 1_800, 50.0),
    ]  # fmt: skip
    folder = example.write_example(tmp_path / "recording", process)
    (trace,) = read_traces([folder]).traces
    assert values(trace, "cpu").tolist() == [40.0, 50.0]
    assert "host cpu (%)" in trace.names
    # The example does not say which GPU is whose.
    assert values(trace, "sm_clock").tolist() == []
    second = with_node_counters(Recording.open(folder), trace, 1)
    assert values(second, "sm_clock").tolist() == [1200.0]
