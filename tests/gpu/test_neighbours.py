"""Other tools that want CUPTI in the same process: it is theirs at once, and comes back to us."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.gpu.conftest import RunGpuJob
from tests.gpu.wheels import libraries

from pilotlight.report.gpu_work import gpu_work_of

# `work` says what all profilers together took of it: nothing while nobody listens.
_WORK = """
import ctypes, time
gpu = Gpu()
def work():
    before = gpu.stats()["profiler_ns"]
    for _ in range(50):
        gpu.kernel("gemm", 1000)
        time.sleep(0.0005)
    return gpu.stats()["profiler_ns"] - before
def until(holds):
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "it did not come to that"
until(work)
"""
# libplain.so calls CUPTI as PyTorch's profiler does: as a library linked with it.
_PROFILED = (
    _WORK
    + """
plain = ctypes.CDLL({plain!r})
began = plain.plain_begin()
until(lambda: work() and plain.plain_heard() > 100)
plain.plain_end()
until(work)
print(began)
"""
)


def test_another_subscriber_gets_cupti_at_once_and_we_come_back(
    gpu_job: RunGpuJob, simulator: Path
) -> None:
    plain = str(simulator / "cupti-28" / "libplain.so")
    done = gpu_job(
        _PROFILED.format(plain=plain), LD_LIBRARY_PATH=f"{simulator}/lib:{simulator}/cupti-28"
    )
    assert done.code == 0, done.err
    assert done.out.split() == ["0"]
    assert done.marks("gpu/yielded") == [1, 0]
    assert len(done.marks("gpu/taken")) == 2
    # The gap is marked: nothing was on between the two.
    assert -1 in done.marks("gpu/window")
    (found,) = gpu_work_of(done.recording).processes
    assert 0 < found.yielded_ns < found.watched_ns


def test_both_listen_side_by_side_where_cupti_allows_it(
    gpu_job: RunGpuJob, simulator: Path
) -> None:
    plain = str(simulator / "cupti-130401" / "libplain.so")
    done = gpu_job(
        _PROFILED.format(plain=plain),
        cupti=130401,
        LD_LIBRARY_PATH=f"{simulator}/lib:{simulator}/cupti-130401",
    )
    assert done.code == 0, done.err
    assert done.out.split() == ["0"]
    assert not done.marks("gpu/yielded")
    assert done.rows("activities")["gemm"] == done.rows("launches")["cuLaunchKernel"]


def test_a_tool_that_looks_functions_up_by_dlsym_gets_cupti_too(
    gpu_job: RunGpuJob, simulator: Path
) -> None:
    done = gpu_job(
        _WORK
        + """
cupti = ctypes.CDLL("libcupti.so.12")  # ctypes uses dlsym
heard = []
kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)
hear = kind(lambda *_: heard.append(1))
subscriber = ctypes.c_void_p()
print(cupti.cuptiSubscribe(ctypes.byref(subscriber), hear, None))
cupti.cuptiEnableCallback(1, subscriber, 1, 307)
until(lambda: work() and len(heard) > 10)
print(cupti.cuptiUnsubscribe(subscriber))
until(work)
""",
        LD_LIBRARY_PATH=f"{simulator}/lib:{simulator}/cupti-28",
    )
    assert done.code == 0, done.err
    assert done.out.split() == ["0", "0"]
    assert done.marks("gpu/yielded") == [1, 0]
    assert len(done.marks("gpu/taken")) == 2


def test_nsight_systems_is_known_by_its_library_and_left_alone(
    gpu_job: RunGpuJob, simulator: Path, tmp_path: Path
) -> None:
    """A library of that name stands in for it: what counts is that it is in the process."""
    library = tmp_path / "libToolsInjection64.so"
    library.write_bytes((simulator / "cupti-28" / "libplain.so").read_bytes())
    done = gpu_job(
        _WORK
        + f"""
import _ctypes
tool = ctypes.CDLL({str(library)!r})
until(lambda: not work())
_ctypes.dlclose(tool._handle)
until(work)
""",
        LD_LIBRARY_PATH=f"{simulator}/lib:{simulator}/cupti-28",
    )
    assert done.code == 0, done.err
    assert "gpu/missing: Nsight Systems is in this process and has CUPTI" in done.rows("marks")
    assert done.marks("gpu/yielded") == [1, 0]
    assert len(done.marks("gpu/taken")) == 2


def test_a_job_without_gpu_collection_leaves_the_calls_of_others_alone(
    gpu_job: RunGpuJob, simulator: Path
) -> None:
    plain = str(simulator / "cupti-28" / "libplain.so")
    done = gpu_job(
        f"import ctypes\ngpu = Gpu()\nplain = ctypes.CDLL({plain!r})\nprint(plain.plain_begin())\n"
        "for _ in range(20): gpu.kernel('k', 100)\nprint(plain.plain_heard())\n",
        LD_LIBRARY_PATH=f"{simulator}/lib:{simulator}/cupti-28",
        PILOTLIGHT_GPU="off",
    )
    assert done.out.split() == ["0", "40"], done.err


def test_a_tool_that_was_there_first_keeps_cupti_and_the_report_says_so(
    gpu_job: RunGpuJob, simulator: Path
) -> None:
    plain = str(simulator / "cupti-28" / "libplain.so")
    done = gpu_job(
        "gpu = Gpu()\nfor _ in range(50): gpu.kernel('k', 100)\n",
        LD_LIBRARY_PATH=f"{simulator}/lib:{simulator}/cupti-28",
        CUDA_INJECTION64_PATH=plain,
    )
    assert done.code == 0, done.err
    # It was chained: it came first, and has the only place.
    assert "gpu/missing: CUPTI is in use by another tool" in done.rows("marks")
    assert not done.rows("activities")


_TURNED_OFF = """
from pilotlight import _probe
library = ctypes.CDLL(_probe.__file__)
library.pilotlight_provider_api.restype = ctypes.c_void_p
# The third word after the two numbers of the table: what the agent's clients ask for.
tier = ctypes.c_uint32.from_address(
    ctypes.c_uint64.from_address(library.pilotlight_provider_api(1) + 32).value
)
def is_off():
    tier.value = 4  # again and again: the agent's own word may come in between
    return not work()
until(is_off)
print(work())
"""


def test_cupti_is_torn_down_when_collection_is_turned_off(gpu_job: RunGpuJob) -> None:
    done = gpu_job(_WORK + _TURNED_OFF)
    assert done.code == 0, done.err
    assert done.marks("gpu/torn_down") == [1]
    assert done.out.strip() == "0"


def test_collection_that_is_wanted_again_before_the_next_cuda_call_goes_on_whole(
    gpu_job: RunGpuJob,
) -> None:
    """Graphs as a whole too, which were turned off."""
    waits = """
gpu.begin_capture(9)
gpu.kernel("node", 1000, 9)
graph = gpu.end_capture(9)
end = time.monotonic() + 2.5
while time.monotonic() < end: tier.value = 4
tier.value = 2
time.sleep(3)
for _ in range(50): gpu.launch(graph)
gpu.sync()
"""
    setup = _TURNED_OFF[: _TURNED_OFF.index("def is_off")]
    done = gpu_job(_WORK + setup + waits, PILOTLIGHT_GPU="auto", PILOTLIGHT_GPU_PERIOD="0.1")
    assert done.code == 0, done.err
    assert -1 in done.marks("gpu/window") and done.marks("gpu/torn_down") == []
    assert len(done.marks("gpu/taken")) == 2
    graphs = sum(count for name, count in done.rows("activities").items() if "graph" in name)
    assert graphs + done.rows("activities")["node"] == 50


def test_before_12_6_a_job_with_graphs_keeps_cupti_loaded(gpu_job: RunGpuJob) -> None:
    """After cuptiFinalize of such a version it would crash (pytorch/pytorch#146604)."""
    captures = "gpu.begin_capture(9); gpu.kernel('node', 1000, 9); gpu.end_capture(9)\n"
    done = gpu_job(_WORK + captures + _TURNED_OFF, cupti=22)
    assert done.code == 0, done.err
    assert done.marks("gpu/torn_down") == [0]
    assert done.out.strip() == "0"


# libtracer.so makes the calls of PyTorch's profiler, in its order.
_TRACED = (
    _WORK
    + """
tracer = ctypes.CDLL({tracer!r})
print(tracer.tracer_begin())
for _ in range(200):
    gpu.kernel("theirs", 1000)
gpu.sync()
tracer.tracer_end()
time.sleep({until_collected})
print(tracer.tracer_collect())
until(work)
for _ in range(20):
    gpu.kernel("after", 3_000_000)
gpu.sync()
"""
)


@pytest.mark.parametrize("until_collected", [0.2, 3.5])
def test_a_profiler_gets_all_its_records_although_it_asks_for_them_late(
    gpu_job: RunGpuJob, simulator: Path, until_collected: float
) -> None:
    """And buffers that it did not zero stay as they are: the simulator would end the process."""
    tracer = str(simulator / "cupti-28" / "libtracer.so")
    done = gpu_job(
        _TRACED.format(tracer=tracer, until_collected=until_collected),
        LD_LIBRARY_PATH=f"{simulator}/lib:{simulator}/cupti-28",
    )
    assert done.code == 0, done.err
    assert done.out.split() == ["0", "200"]
    assert done.marks("gpu/yielded") == [1, 0]
    assert done.rows("activities")["theirs"] == 0
    # The profiler's clock stays with CUPTI: three ticks to a nanosecond.
    table = done.recording.detail("activities")
    names = done.names("activities")
    lengths = [
        length
        for length, name in zip(table["duration_ns"].tolist(), names, strict=True)
        if name == "after"
    ]
    assert len(lengths) == 20
    assert all(2_900_000 < length < 3_100_000 for length in lengths), lengths


def test_a_clock_that_cupti_keeps_from_us_is_found_by_the_times_of_records(
    gpu_job: RunGpuJob, simulator: Path
) -> None:
    """PyTorch's profiler gives CUPTI the processor's counter; that cuptiGetTimestamp tells it from
    then on is not written anywhere. Here it does not."""
    tracer = str(simulator / "cupti-28" / "libtracer.so")
    done = gpu_job(
        _TRACED.format(tracer=tracer, until_collected=0.2),
        LD_LIBRARY_PATH=f"{simulator}/lib:{simulator}/cupti-28",
        PILOTLIGHT_SIM_TRAPS="clock_apart",
        TRACER_CLOCK="ticks",
    )
    assert done.code == 0, done.err
    table = done.recording.detail("activities")
    rows = np.array(done.names("activities")) == "after"
    lengths, starts = table["duration_ns"][rows], table["start_ns"][rows]
    assert lengths.size == 20
    assert all(2_900_000 < length < 3_100_000 for length in lengths.tolist()), lengths
    launches = done.recording.detail("launches")["start_ns"]
    # Each begins after its launch, and all of them before the end of the job.
    assert starts.min() > launches.min() and starts.max() < launches.max() + 1e9


def test_times_by_no_known_clock_are_left_out_and_counted(
    gpu_job: RunGpuJob, simulator: Path
) -> None:
    tracer = str(simulator / "cupti-28" / "libtracer.so")
    done = gpu_job(
        _TRACED.format(tracer=tracer, until_collected=0.2),
        LD_LIBRARY_PATH=f"{simulator}/lib:{simulator}/cupti-28",
        PILOTLIGHT_SIM_TRAPS="clock_apart",
    )
    assert done.code == 0, done.err
    assert done.rows("activities")["after"] == 0
    (found,) = gpu_work_of(done.recording).processes
    assert found.losses["gpu/misplaced"] >= 20


_LED = """
import ctypes, sys
from pilotlight.probe.providers import library_folder
cupti = ctypes.CDLL(sys.argv[1])
ours = ctypes.CDLL(str(library_folder() / "libpilotlight_cuda.so"))
ours.InitializeInjection()
own = [line for line in open("/proc/self/maps") if "libpilotlight_cuda" in line]
begin, end = int(own[0].split("-")[0], 16), int(own[-1].split()[0].split("-")[1], 16)
for name in sys.argv[2:]:
    print(name, begin <= ctypes.cast(cupti[name], ctypes.c_void_p).value < end)
print(cupti["cuptiActivityEnable"](10))
"""


def test_calls_of_the_real_library_are_led_past_us_and_answered_by_it(world: Path) -> None:
    """As far as it goes without a driver: 15 is its own word for that."""
    cupti = libraries("nvidia-cuda-cupti-cu12==12.9.79") / "libcupti.so.12"
    watched = [
        *("cuptiSubscribe", "cuptiUnsubscribe", "cuptiActivityEnable", "cuptiActivityDisable"),
        *("cuptiActivityRegisterCallbacks", "cuptiActivityRegisterTimestampCallback"),
        "cuptiFinalize",
    ]
    done = subprocess.run(
        [sys.executable, "-c", _LED, str(cupti), *watched, "cuptiGetVersion"],
        env={**os.environ, "PILOTLIGHT": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    *lines, answer = done.stdout.splitlines()
    assert lines == [*(f"{name} True" for name in watched), "cuptiGetVersion False"]
    assert answer == "15"
