"""From libcupti 13.3 on only the fields that are read are asked for, wherever CUPTI puts them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.gpu.conftest import GpuJob, RunGpuJob

_EVERY_KIND = """
import pilotlight
gpu = Gpu()
place = gpu.allocate(4096)
gpu.begin_capture(9)
gpu.kernel("node", 20_000, 9)
graph = gpu.end_capture(9)
def forward():
    with pilotlight.annotate("forward"):
        gpu.kernel("gemm", 20_000)
for _ in range(50):
    gpu.copy("h2d", 1 << 20)
    forward()
    gpu.kernel("second", 10_000, stream=1)
    gpu.fill(4096)
    gpu.launch(graph)
    gpu.sync()
    gpu.sync(1)
"""


def _seen(done: GpuJob) -> set[tuple[object, ...]]:
    """What the records say, without their times: names, sizes, and where they come from."""
    assert done.code == 0, done.err
    recording = done.recording
    table = recording.detail("activities")
    nodes = recording.calls.find(table["process"], table["stack"]).tolist()
    ranges = recording.names.find(table["process"], table["range"]).tolist()
    tracks = recording.detail("tracks")
    streams = dict(zip(tracks["id"].tolist(), tracks["stream"].tolist(), strict=True))
    return {
        (
            name,
            streams[table["track"][row].item()],
            table["bytes"][row].item(),
            recording.names.texts[named],
            tuple(frame.function for frame in recording.calls.path(node)),
            bool(table["detail"][row]),
        )
        for row, (name, node, named) in enumerate(
            zip(done.names("activities"), nodes, ranges, strict=True)
        )
    }


def _bytes_a_record(done: GpuJob) -> float:
    return (done.last("gpu/record_bytes") or 0) / (done.last("gpu/records") or 1)


def test_chosen_fields_say_the_same_as_whole_records_in_a_third_of_the_room(
    gpu_job: RunGpuJob,
) -> None:
    whole = gpu_job(_EVERY_KIND, cupti=130401, PILOTLIGHT_SIM_TRAPS="no_fields")
    chosen = gpu_job(_EVERY_KIND, cupti=130401)
    apart = gpu_job(_EVERY_KIND, cupti=130401, PILOTLIGHT_SIM_TRAPS="fields_apart")
    for done in (chosen, apart):
        assert done.rows("activities") == whole.rows("activities")
        assert _seen(done) == _seen(whole)
        assert not done.last("gpu/unknown_records")
    assert whole.rows("activities")["gemm"] == whole.rows("activities")["node"] == 50
    # Kernels, the most of what there is, need 72 bytes instead of 240.
    assert _bytes_a_record(chosen) < 0.55 * _bytes_a_record(whole)


def test_where_cupti_does_not_say_where_fields_lie_records_come_whole(gpu_job: RunGpuJob) -> None:
    done = gpu_job(
        "import ctypes, os, time\ngpu = Gpu()\n"
        "cupti = ctypes.CDLL(os.environ['PILOTLIGHT_CUPTI'])\n"
        "end = time.monotonic() + 60\n"
        "while not cupti.gpu_sim_tells_whole(10) and time.monotonic() < end:\n"
        "    gpu.kernel('early', 1000); gpu.sync(); time.sleep(0.01)\n"
        "for _ in range(100): gpu.kernel('late', 1000)\ngpu.sync()\n",
        cupti=130401,
        PILOTLIGHT_SIM_TRAPS="no_layouts",
    )
    assert done.code == 0, done.err
    assert (
        "gpu/missing: libcupti does not say where the fields of records lie; they come whole"
        in (" ".join(done.rows("marks")))
    )
    assert done.rows("activities")["late"] == 100
    # Those that were written meanwhile cannot be read, and are counted.
    assert done.last("gpu/unknown_records")


@pytest.mark.parametrize("others", [False, True])
def test_beside_another_subscriber_graphs_are_shown_by_their_nodes(
    gpu_job: RunGpuJob, simulator: Path, others: bool
) -> None:
    begin = "plain.plain_begin()" if others else "0"
    done = gpu_job(
        f"""
import ctypes, time
gpu = Gpu()
plain = ctypes.CDLL({str(simulator / "cupti-130401" / "libplain.so")!r})
gpu.begin_capture(9)
gpu.kernel("node", 20_000, 9)
graph = gpu.end_capture(9)
for _ in range(10): gpu.launch(graph); gpu.sync()
assert {begin} == 0
for _ in range(10): gpu.launch(graph); gpu.sync()
""",
        cupti=130401,
        PILOTLIGHT_GPU="auto",
        PILOTLIGHT_GPU_PERIOD="60",  # one window
        LD_LIBRARY_PATH=f"{simulator}/lib:{simulator}/cupti-130401",
    )
    assert done.code == 0, done.err
    found = done.rows("activities")
    # What CUPTI does by itself is what the other one sees too.
    assert (found["node"], found["CUDA graph 2"]) == ((10, 10) if others else (0, 20)), found
