"""CUDA graphs: timed as a whole all the time; their kernels lead to the code that captured them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.conftest import RunPilotlight
from tests.gpu.conftest import GpuJob, RunGpuJob

from pilotlight.report.gpu_work import gpu_work_of

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


@pytest.mark.parametrize("version", [18, 28, 130000, 130401])
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


def test_where_nodes_cannot_be_turned_on_any_more_that_is_said(gpu_job: RunGpuJob) -> None:
    done = gpu_job(
        _GRAPH.format(launches=150, pause_s=0.01),
        cupti=130000,
        PILOTLIGHT_GPU="auto",
        PILOTLIGHT_GPU_PERIOD="0.05",
    )
    assert done.code == 0, done.err
    assert not done.rows("activities")["attention"]
    (process,) = gpu_work_of(done.recording).processes
    assert [why for why in process.missing if why.startswith("no nodes of graphs: libcupti 13.0")]


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


def test_the_work_of_a_graph_is_not_counted_twice(
    gpu_job: RunGpuJob, pilotlight_cli: RunPilotlight
) -> None:
    program = _GRAPH.format(launches=1500, pause_s=0.001)
    done = gpu_job(program, PILOTLIGHT_GPU="auto", PILOTLIGHT_GPU_PERIOD="0.05")
    work = json.loads(pilotlight_cli("report", "--json", str(done.folder)).stdout)["gpu"]["work"]
    ratios = {row["name"]: row["ratio"] for row in work}
    graph = next(row for row in work if row["kind"] == "graph")
    # Its kernels are all that there is, and are shown besides.
    assert graph["ratio"] == pytest.approx(1, abs=0.1) and not graph["is_in_graphs"]
    assert ratios["attention"] + ratios["mlp"] == pytest.approx(1, abs=0.1)


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


# Beside what play.py has of graphs.
_MORE = """
import ctypes, time
gpu = Gpu()
class KernelNode(ctypes.Structure):
    _fields_ = [("function", ctypes.c_void_p), ("sizes", ctypes.c_uint * 6),
                ("shared", ctypes.c_uint), ("more", ctypes.c_void_p * 2)]
def made(call, *arguments):
    result = ctypes.c_void_p()
    gpu._call(call, ctypes.byref(result), *arguments)
    return result
def captured(name, nodes, ns=100):
    gpu.begin_capture(9)
    for _ in range(nodes): gpu.kernel(name, ns, 9)
    graph = ctypes.c_void_p()
    gpu._call("cuStreamEndCapture", gpu.stream(9), ctypes.byref(graph))
    return graph
def ready(graph):
    return made("cuGraphInstantiateWithFlags", graph, ctypes.c_ulonglong(0))
"""
_NESTED = (
    _MORE
    + """
none = ctypes.c_size_t(0)
def add_kernel(graph):
    node = KernelNode(gpu.function("explicit").value, (9000, 1, 1, 1, 1, 1), 0, (None, None))
    made("cuGraphAddKernelNode_v2", graph, None, none, ctypes.byref(node))
def make_inner():
    return captured("inner", 2)
def make_outer():
    graph = made("cuGraphCreate", 0)
    add_kernel(graph)
    made("cuGraphAddChildGraphNode", graph, None, none, make_inner())
    return made("cuGraphClone", graph)
def launch(graph):
    for _ in range(50): gpu.launch(graph)
    gpu.sync()
launch(ready(make_outer()))
"""
)


@pytest.mark.parametrize("version", [28, 130401])
def test_kernels_of_child_graphs_and_of_clones_lead_to_the_code_that_made_them(
    gpu_job: RunGpuJob, version: int
) -> None:
    done = gpu_job(_NESTED, cupti=version)
    found = done.rows("activities")
    assert (found["explicit"], found["inner"]) == (50, 100), done.err
    assert "add_kernel" in _paths(done, "explicit") and "launch" not in _paths(done, "explicit")
    assert "make_inner" in _paths(done, "inner") and "launch" not in _paths(done, "inner")


# More nodes than the table holds: of graphs that are captured to update another, or made anew.
_AGAIN = {
    "updated": """
graph = ready(captured("again", 600))
for turn in range(250):
    gpu._call("cuGraphExecUpdate_v2", graph, captured("again", 600), None)
    if turn % 10 == 0: gpu.launch(graph); gpu.sync(); time.sleep(0.01)
""",
    "made anew": """
for turn in range(250):
    graph = ready(captured("again", 600))
    if turn % 10 == 0: gpu.launch(graph); gpu.sync(); time.sleep(0.01)
""",
}


@pytest.mark.parametrize("way", list(_AGAIN))
def test_graphs_that_are_captured_again_and_again_keep_their_code(
    gpu_job: RunGpuJob, way: str
) -> None:
    done = gpu_job(_MORE + f"def main():\n{_indented(_AGAIN[way])}\nmain()\n")
    (found,) = gpu_work_of(done.recording).processes
    # On a busy machine some find no room, a few of other kinds among them.
    lost = found.losses.get("gpu/lost_ring_full", 0)
    assert 25 * 600 - lost <= done.rows("activities")["again"] <= 25 * 600
    # The table holds the newest 131,072; a bucket of it may be full before.
    assert found.losses.get("gpu/nodes_lost", 0) < 25 * 600 / 100
    assert "captured" in _paths(done, "again")


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.strip().splitlines())


def test_launches_that_are_captured_or_fail_do_not_count_as_work(gpu_job: RunGpuJob) -> None:
    """In totals each launch that nobody saw run counts: these never ran."""
    done = gpu_job(
        _MORE
        + """
gone = made("cuStreamCreate", 0)
gpu._call("cuStreamDestroy_v2", gone)
end = time.monotonic() + 4
steps = 0
while time.monotonic() < end:
    captured("captured", 20)
    for _ in range(5): gpu.kernel("real", 50_000)
    gpu.library.cuLaunchKernel(gpu.function("failed"), 1, 1, 1, 1, 1, 1, 0, gone, None, None)
    gpu.sync()
    time.sleep(0.005)
    steps += 1
print(steps)
""",
        PILOTLIGHT_GPU="auto",
        PILOTLIGHT_GPU_PERIOD="0.3",
        PILOTLIGHT_SIM_RECORD_NS="50000",
    )
    assert done.code == 0, done.err
    gpu = gpu_work_of(done.recording)
    assert gpu.processes[0].coverage_ratio < 0.9
    (real,) = [one for one in gpu.work if one.name == "real"]
    assert real.total_count == pytest.approx(5 * int(done.out), rel=0.02)
