"""From a launch on the simulated GPU to the recording: every record, and who caused it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from tests.gpu.conftest import NEWEST_V1, SIM, RunGpuJob

from pilotlight.report.gpu_work import gpu_work_of

_LOOP = """
import ctypes, os
gpu = Gpu()
def forward():
    gpu.kernel("gemm", 20_000)
    gpu.kernel("_ZN2at6native10add_kernelIfEEvi", 5_000)
def backward():
    gpu.runtime_kernel("gemm_backward", 30_000, stream=1)
for _ in range(100):
    gpu.copy("h2d", 1 << 20)
    forward()
    backward()
    gpu.fill(4096)
    gpu.sync()
    gpu.sync(1)
print(ctypes.CDLL(os.environ["PILOTLIGHT_CUPTI"]).gpu_sim_is_per_thread())
"""


@pytest.mark.parametrize("version", [18, 22, 28, 130001, 130100, 130401])
def test_every_record_arrives_with_every_version_of_cupti(gpu_job: RunGpuJob, version: int) -> None:
    done = gpu_job(_LOOP, cupti=version)
    assert done.code == 0, done.err
    found = done.rows("activities")
    assert found["gemm"] == found["gemm_backward"] == 100
    assert found["void at::native::add_kernel<float>(int)"] == 100
    assert found["Memcpy HtoD (Pageable -> Device)"] == found["Memset (Device)"] == 100
    assert found["Stream Sync"] == 200
    assert done.rows("launches") == {
        "cuLaunchKernel": 200,
        "cudaLaunchKernel": 100,
        "cuMemcpyHtoDAsync_v2": 100,
        "cuMemsetD8Async": 100,
        "cuStreamSynchronize": 200,
    }
    assert done.marks("gpu/taken") == [version]
    # Buffers of each launching thread, where the version has them.
    assert done.out.strip() == ("0" if version == 18 else "1")


def test_a_kernel_leads_to_the_python_code_that_launched_it(gpu_job: RunGpuJob) -> None:
    done = gpu_job(_LOOP)
    recording = done.recording
    activities = recording.detail("activities")
    nodes = recording.calls.find(activities["process"], activities["stack"])
    functions: dict[str, set[str]] = {}
    for name, node in zip(done.names("activities"), nodes.tolist(), strict=True):
        path = {frame.function for frame in recording.calls.path(node)}
        functions[name] = functions.get(name, set()) | path
    assert {"<module>", "forward"} <= functions["gemm"]
    assert "backward" in functions["gemm_backward"]
    assert "backward" not in functions["gemm"]


def test_a_kernel_knows_the_range_in_which_it_was_launched(gpu_job: RunGpuJob) -> None:
    done = gpu_job(
        "import pilotlight\ngpu = Gpu()\n"
        "with pilotlight.annotate('outer'):\n"
        "    with pilotlight.annotate('inner'): gpu.kernel('first', 1000)\n"
        "    gpu.kernel('second', 1000)\n"
        "gpu.kernel('third', 1000)\n"
    )
    recording = done.recording
    activities = recording.detail("activities")
    ranges = recording.names.find(activities["process"], activities["range"]).tolist()
    found = dict(zip(done.names("activities"), ranges, strict=True))
    texts = {name: recording.names.texts[number] for name, number in found.items()}
    assert (texts["first"], texts["second"]) == ("inner", "outer")
    assert activities["range"][done.names("activities").index("third")] == 0


def test_times_are_those_of_the_simulated_device(gpu_job: RunGpuJob) -> None:
    done = gpu_job(_LOOP)
    activities = done.recording.detail("activities")
    names = np.array(done.names("activities"))
    assert np.median(activities["duration_ns"][names == "gemm"]) == pytest.approx(20_000, abs=5)
    launches = done.recording.detail("launches")
    begun = dict(zip(launches["correlation"].tolist(), launches["start_ns"].tolist(), strict=True))
    kernels = names == "gemm"
    # No kernel begins before it is launched: the clocks agree to within their uncertainty.
    for number, start in zip(
        activities["correlation"][kernels].tolist(),
        activities["start_ns"][kernels].tolist(),
        strict=True,
    ):
        assert start > begun[number] - 2_000


def test_a_program_without_python_is_recorded_too(gpu_job: RunGpuJob, simulator: Path) -> None:
    done = gpu_job([str(simulator / "storm"), "2000", "1"])
    assert done.code == 0, done.err
    launched = int(done.out.split('"launches": ')[1].split(",")[0])
    found = done.rows("activities")
    assert sum(found.values()) == launched + 1  # the last is the wait at its end
    assert done.rows("launches")["cuLaunchKernel"] == launched


@pytest.mark.parametrize("cupti", [18, NEWEST_V1, 130401])
def test_a_wait_before_the_first_kernel_is_put_to_its_own_gpu(
    gpu_job: RunGpuJob, cupti: int
) -> None:
    done = gpu_job(
        "gpu = Gpu(1)\ngpu.copy('h2d', 1 << 20); gpu.sync()\ngpu.kernel('gemm', 1000)\n",
        cupti=cupti,
        PILOTLIGHT_SIM_DEVICES="2",
    )
    assert done.rows("activities")["Stream Sync"] == 1, done.err
    assert gpu_work_of(done.recording).processes[0].devices == (1,)


def test_streams_for_which_there_is_no_room_share_a_track_of_their_gpu(gpu_job: RunGpuJob) -> None:
    done = gpu_job(
        "import ctypes\ngpu = Gpu(1)\nfor _ in range(1200):\n"
        "    stream = ctypes.c_void_p()\n"
        "    gpu._call('cuStreamCreate', ctypes.byref(stream), 0)\n"
        "    gpu._streams[1] = stream\n"
        "    gpu.kernel('gemm', 1000, 1)\n"
        "    gpu._call('cuStreamDestroy_v2', stream)\n",
        PILOTLIGHT_SIM_DEVICES="2",
    )
    assert done.rows("activities")["gemm"] == 1200, done.err
    tracks = done.recording.detail("tracks")
    assert set(tracks["device"].tolist()) == {1}
    assert done.names("tracks").count("GPU 1, other streams") == 1


def test_a_process_that_does_not_touch_cuda_makes_no_call_of_cupti(gpu_job: RunGpuJob) -> None:
    done = gpu_job("print(any('cupti' in line for line in open('/proc/self/maps')))")
    assert done.out.strip() == "False"
    assert not [name for name in done.rows("marks") if name.startswith("gpu/")]


def test_nothing_is_collected_when_it_is_turned_off(gpu_job: RunGpuJob) -> None:
    done = gpu_job(_LOOP, PILOTLIGHT_GPU="off")
    assert done.code == 0
    assert not done.rows("activities") and not done.rows("launches")


_WITHOUT_RUN = """
import os
# As in a process that was started with PILOTLIGHT=1 alone.
del os.environ["CUDA_INJECTION64_PATH"]
from pilotlight.probe.devices import bring
"""


def test_a_process_that_run_did_not_start_is_recorded_from_its_first_launch(
    gpu_job: RunGpuJob,
) -> None:
    done = gpu_job(
        _WITHOUT_RUN + "bring()\ngpu = Gpu()\nfor _ in range(50): gpu.kernel('gemm', 1000)\n"
    )
    assert done.code == 0, done.err
    assert done.rows("activities")["gemm"] == 50


def test_a_process_that_has_begun_with_cuda_is_recorded_from_then_on(gpu_job: RunGpuJob) -> None:
    done = gpu_job(
        _WITHOUT_RUN + "gpu = Gpu()\nfor _ in range(50): gpu.kernel('before', 1000)\nbring()\n"
        "for _ in range(50): gpu.kernel('after', 1000)\nbring()\n"
    )
    assert done.code == 0, done.err
    found = done.rows("activities")
    assert (found["before"], found["after"]) == (0, 50)


def test_cupti_is_not_touched_before_cuda_is(gpu_job: RunGpuJob) -> None:
    done = gpu_job(
        _WITHOUT_RUN + "import ctypes\nctypes.CDLL('libcuda.so.1')\nbring()\n"
        "print('libcupti' in open('/proc/self/maps').read())\n"
    )
    assert done.out.strip() == "False", done.err


def test_a_schedule_is_played_by_many_ranks(gpu_job: RunGpuJob) -> None:
    player = [sys.executable, str(SIM / "play.py"), str(SIM / "training.schedule")]
    done = gpu_job([*player, "--ranks", "2", "--steps", "5", "--speed", "20"])
    assert done.code == 0, done.err
    found = done.rows("activities")
    # Each of 2 ranks, 5 steps: 12 layers, 4 all-reduces.
    assert found["flash_fwd_kernel"] == 2 * 5 * 12
    assert found["ncclDevKernel_AllReduce_Sum_bf16_RING_LL"] == 2 * 5 * 4
    assert {process.rank for process in done.recording.processes} >= {0, 1}


_PAUSES = """
import os, time
from pilotlight import _probe
from pilotlight.client import Client
gpu, client, job = Gpu(), Client(), os.environ["PILOTLIGHT_JOB"]
def control(action):
    client.ask("control", job=job, action=action)
    while _probe.status()["collecting"] is not (action == "resume"): time.sleep(0.001)
def cost_soon_after(action):
    control(action)
    work()
    time.sleep(0.6)
    before = gpu.stats()["profiler_ns"]
    work()
    return gpu.stats()["profiler_ns"] - before
def work():
    for _ in range(20): gpu.kernel("gemm", 1000)
print([(cost_soon_after("pause") == 0, cost_soon_after("resume") > 0) for _ in range(5)])
"""


@pytest.mark.parametrize("cupti", [NEWEST_V1, 130000, 130401])
def test_a_pause_is_followed_at_once_and_its_end_too(gpu_job: RunGpuJob, cupti: int) -> None:
    """As `pilotlight overhead` makes them, of a second each."""
    done = gpu_job(_PAUSES, cupti=cupti, PILOTLIGHT_GPU="launches")
    assert done.out.strip() == str([(True, True)] * 5), done.err


def test_13_0_in_a_pause_is_given_no_buffer_and_not_asked_to_disable_kernels(
    gpu_job: RunGpuJob,
) -> None:
    """The simulated one ends the process where the real one deadlocks."""
    done = gpu_job(_PAUSES, cupti=130000)
    assert done.code == 0, done.err
    # All of the second half after a pause has ended, none of the second half in it.
    assert 5 * 20 <= done.rows("activities")["gemm"] <= 5 * 60
    (process,) = gpu_work_of(done.recording).processes
    assert process.losses == {}
    assert [why for why in process.missing if why.startswith("without kernels' instrumentation")]


def test_a_wait_that_ends_in_a_pause_hides_no_launch_after_it(gpu_job: RunGpuJob) -> None:
    done = gpu_job(
        "import os, threading, time\n"
        "from pilotlight import _probe\n"
        "from pilotlight.client import Client\n"
        "gpu, client, job = Gpu(), Client(), os.environ['PILOTLIGHT_JOB']\n"
        "def until(collecting):\n"
        "    while _probe.status()['collecting'] is not collecting: time.sleep(0.001)\n"
        "def work(stream, waits, goes_on):\n"
        "    gpu.library.cuCtxSetCurrent(gpu.context)\n"
        "    gpu.kernel('long', 300_000_000, stream)\n"
        "    waits.set()\n"
        "    gpu.sync(stream)\n"
        "    goes_on.wait()\n"
        "    for _ in range(20): gpu.kernel('after', 1000, stream)\n"
        "for stream in range(1, 6):\n"
        "    waits, goes_on = threading.Event(), threading.Event()\n"
        "    thread = threading.Thread(target=work, args=(stream, waits, goes_on))\n"
        "    thread.start()\n"
        "    waits.wait()\n"
        "    time.sleep(0.02)\n"
        "    client.ask('control', job=job, action='pause')\n"
        "    until(False)\n"
        "    time.sleep(0.4)\n"
        "    client.ask('control', job=job, action='resume')\n"
        "    until(True)\n"
        "    time.sleep(1.2)\n"
        "    goes_on.set()\n"
        "    thread.join()\n",
        PILOTLIGHT_GPU="launches",
    )
    assert done.code == 0, done.err
    assert done.rows("launches")["cuLaunchKernel"] == 5 * 21
