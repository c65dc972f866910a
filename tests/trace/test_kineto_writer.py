from __future__ import annotations

from pathlib import Path

import pytest

from pilotlight.insights.breakdown import breakdown, timeline
from pilotlight.trace.kineto import read_kineto
from pilotlight.trace.kineto_writer import kineto_text, write_kineto
from pilotlight.trace.trace import Trace
from pilotlight.trace.trace_file import read_file


def parts(trace: Trace) -> tuple[object, ...]:
    line = timeline(trace)
    assert line is not None
    row = breakdown(trace, line)
    return row.window_ns, row.compute_ns, row.idle_ns, row.idle_by_cause_ns


@pytest.mark.parametrize(
    "name",
    [
        "kineto/resnet50_workers4.json.gz",
        "kineto/qwen_h100.json.gz",
        "kineto/sglang_qwen3_decode.json.gz",
        "nsys/mfu_2gpu_before.sqlite",
    ],
)
def test_what_is_written_reads_back_the_same(shared_data: Path, tmp_path: Path, name: str) -> None:
    trace = read_file(shared_data / name).traces[0]
    for file in ("a.json", "a.json.gz"):
        write_kineto(trace, tmp_path / file)
        result = read_file(tmp_path / file)
        assert result.problems == ()
        (back,) = result.traces
        assert len(back.spans) == len(trace.spans)
        assert (back.spans.duration_ns == trace.spans.duration_ns).all()
        assert len(back.steps) == len(trace.steps)
        assert len(back.counters.value) == len(trace.counters.value)
        assert parts(back) == parts(trace)


def test_absolute_times_are_exact_to_the_nanosecond(shared_data: Path) -> None:
    trace = read_file(shared_data / "kineto" / "qwen_h100.json.gz").traces[0]
    text = "".join(kineto_text(trace)).encode()
    back = read_kineto(iter([text]), "a.json")
    assert (back.spans.start_ns == trace.spans.start_ns).all()
