"""CUDA graphs: timed as a whole all the time; their kernels lead to the code that captured them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.conftest import RunPilotlight
from tests.gpu.conftest import GpuJob, RunGpuJob

_GRAPH = """
import time
gpu = Gpu()
def capture_attention():
    for _ in range(3): gpu.kernel("attention", 20_000, 9)
def capture_mlp():
    for _ in range(2): gpu.kernel("mlp", 30_000, 9)
def capture():
    gpu.begin_capture(9)
    capture_attention()
    capture_mlp()
    return gpu.end_capture(9)
def decode(graph):
    gpu.launch(graph)
    gpu.sync()
graph = capture()
for _ in range({launches}):
    decode(graph)
    time.sleep({pause_s})
"""


def _paths(done: GpuJob, name: str) -> set[str]:
    recording = done.recording
    activities = recording.detail("activities")
    rows = np.array(done.names("activities")) == name
    nodes = recording.calls.find(activities["process"][rows], activities["stack"][rows])
    return {frame.function for node in nodes.tolist() for frame in recording.calls.path(node)}


@pytest.mark.parametrize("version", [18, 28, 130401])
def test_kernels_of_a_graph_lead_to_the_code_that_captured_them(
    gpu_job: RunGpuJob, version: int
) -> None:
    done = gpu_job(_GRAPH.format(launches=40, pause_s=0), cupti=version)
    found = done.rows("activities")
    assert (found["attention"], found["mlp"]) == (120, 80)
    assert {"capture", "capture_attention"} <= _paths(done, "attention")
    assert "capture_mlp" in _paths(done, "mlp") and "decode" not in _paths(done, "mlp")
    activities = done.recording.detail("activities")
    rows = np.array(done.names("activities")) == "mlp"
    assert len(np.unique(activities["detail"][rows])) == 2  # its two nodes


def test_a_graph_is_timed_as_a_whole_whatever_the_windows(
    gpu_job: RunGpuJob, pilotlight_cli: RunPilotlight
) -> None:
    # So few that a ring has room for all of them: none of the launches is lost.
    program = _GRAPH.format(launches=1000, pause_s=0.001)
    done = gpu_job(program, PILOTLIGHT_GPU="auto", PILOTLIGHT_GPU_PERIOD="0.05")
    report = pilotlight_cli("report", "--json", str(done.folder))
    work = {row["kind"]: row for row in json.loads(report.stdout)["gpu"]["work"]}
    graph = work["graph"]
    # In every eighth on window its nodes are shown instead.
    assert 500 < graph["seen"] <= 1000
    # Every launch was heard, so the missing are known, whatever a busy machine does to windows.
    assert graph["total_count"] == pytest.approx(1000)
    assert graph["median_ns"] == pytest.approx(120_000, rel=0.01)


def test_nodes_that_cupti_does_not_show_are_said_and_graphs_stay_whole(gpu_job: RunGpuJob) -> None:
    """The real one may keep to the level that was on when a graph was made."""
    done = gpu_job(
        _GRAPH.format(launches=1500, pause_s=0.001),
        PILOTLIGHT_GPU="auto",
        PILOTLIGHT_GPU_PERIOD="0.05",
        PILOTLIGHT_GPU_CEILING="1",
        PILOTLIGHT_SIM_TRAPS="graphs_settled",
    )
    assert any("no nodes of graphs" in name for name in done.rows("marks"))
    found = done.rows("activities")
    assert found["attention"] == 0 and found["CUDA graph 2"] > 0


def test_graphs_that_are_not_timed_again_after_a_window_with_nodes_are_shown_by_nodes(
    gpu_job: RunGpuJob,
) -> None:
    """Those made before it was turned on are not timed as a whole, says its documentation."""
    done = gpu_job(
        _GRAPH.format(launches=1500, pause_s=0.001),
        PILOTLIGHT_GPU="auto",
        PILOTLIGHT_GPU_PERIOD="0.05",
        PILOTLIGHT_GPU_CEILING="1",
        PILOTLIGHT_SIM_TRAPS="graphs_whole_once",
    )
    assert any("graphs are not timed as a whole" in name for name in done.rows("marks"))
    assert done.rows("activities")["attention"] > 0
