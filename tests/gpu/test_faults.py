"""What goes wrong on GPU nodes: the job goes on, and the recording says what is missing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.conftest import RunPilotlight
from tests.e2e.programs import compiled
from tests.gpu.conftest import NEWEST_V1, GpuJob, RunGpuJob

from pilotlight.report.gpu_work import LOST_RECORDS, gpu_work_of

_LAUNCHES = """
gpu = Gpu()
for _ in range({count}):
    gpu.kernel("gemm", 1000)
gpu.sync()
print("done")
"""
_HUNDRED = _LAUNCHES.format(count=100)


def lost_records(done: GpuJob) -> float:
    return sum(done.last(name) or 0 for name in LOST_RECORDS)


def check_nothing_is_lost_in_silence(done: GpuJob, records: int) -> None:
    known = done.rows("activities").total() + lost_records(done)
    # At exit the record that is just being written may count as lost too.
    assert known <= records + 1
    # On a machine that gave our threads no time to flush, the counts are lower bounds, and say so.
    assert known >= records or done.last("gpu/exit_unsure") == 1


@pytest.mark.parametrize(
    ("trap", "said"),
    [
        ("taken", "CUPTI is in use by another tool"),
        ("privileges", "cuptiSubscribe failed with 35 (no permission)"),
        (
            "no_driver",
            "cuptiSubscribe failed with 15 (this libcupti does not work with this driver; "
            "`pilotlight doctor` says which one does)",
        ),
        ("no_clock", "no device records: CUPTI tells no time"),
        ("no_kernels", "no kernel records: cuptiActivityEnable failed with 14"),
    ],
)
def test_the_job_goes_on_and_the_recording_says_why(
    gpu_job: RunGpuJob, trap: str, said: str
) -> None:
    done = gpu_job(_HUNDRED, PILOTLIGHT_SIM_TRAPS=trap)
    assert (done.code, done.out.strip()) == (0, "done"), done.err
    assert f"gpu/missing: {said}" in done.rows("marks")


def test_a_clock_that_cupti_has_only_after_the_start_is_waited_for(gpu_job: RunGpuJob) -> None:
    """The driver calls us while it initialises itself: what answers then is not known."""
    done = gpu_job(
        "import time\ngpu = Gpu()\nend = time.monotonic() + 4\n"
        "while time.monotonic() < end: gpu.kernel('gemm', 1000); time.sleep(0.01)\n",
        PILOTLIGHT_SIM_TRAPS="late_clock",
    )
    assert done.code == 0, done.err
    assert done.rows("activities")["gemm"] > 10
    assert not any(name.startswith("gpu/missing") for name in done.rows("marks"))


def test_a_job_of_a_moment_is_recorded_as_soon_as_the_clock_is_there_or_it_is_said(
    gpu_job: RunGpuJob,
) -> None:
    short = "import time\ngpu = Gpu()\ntime.sleep(0.3)\nfor _ in range(50): gpu.kernel('k', 1000)\n"
    done = gpu_job(short + "gpu.sync()\n", PILOTLIGHT_SIM_TRAPS="late_clock")
    assert done.rows("activities")["k"] == 50
    never = gpu_job(short + "gpu.sync()\n", PILOTLIGHT_SIM_TRAPS="no_clock")
    said = [name for name in never.rows("marks") if name.startswith("gpu/missing")]
    assert said == ["gpu/missing: no device records: CUPTI tells no time"]


def test_threads_with_buffers_of_their_own_are_not_out_of_order(gpu_job: RunGpuJob) -> None:
    done = gpu_job(
        "import threading\ngpu = Gpu()\n"
        "def work():\n"
        "    gpu._call('cuCtxSetCurrent', gpu.context)\n"
        "    for _ in range(300): gpu.kernel('k', 500); gpu.allocate(512)\n"
        "threads = [threading.Thread(target=work) for _ in range(4)]\n"
        "for thread in threads: thread.start()\nfor thread in threads: thread.join()\ngpu.sync()\n"
    )
    assert done.rows("activities")["k"] == 1200, done.err
    assert done.last("gpu/out_of_order") is None


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (43, "cuptiSubscribe failed with 43 (not on this MIG device)"),
        (41, "cuptiSubscribe failed with 41 (not under confidential computing)"),
        (7, "cuptiSubscribe failed with 7"),
    ],
)
def test_devices_that_cupti_refuses_are_named(gpu_job: RunGpuJob, error: int, said: str) -> None:
    done = gpu_job(_HUNDRED, PILOTLIGHT_SIM_SUBSCRIBE_ERROR=str(error))
    assert (done.code, done.out.strip()) == (0, "done"), done.err
    assert f"gpu/missing: {said}" in done.rows("marks")


def test_a_libcupti_that_is_loaded_twice_is_said_and_the_first_is_used(
    gpu_job: RunGpuJob, simulator: Path, tmp_path: Path
) -> None:
    second = tmp_path / "libcupti.so.12"
    second.write_bytes((simulator / "cupti-28" / "libcupti.so.12").read_bytes())
    done = gpu_job(
        f"import ctypes\nctypes.CDLL('libcupti.so.12')\nctypes.CDLL({str(second)!r})\n" + _HUNDRED,
        cupti=None,
        LD_LIBRARY_PATH=f"{simulator}/lib:{simulator}/cupti-28",
    )
    assert (done.code, done.out.strip()) == (0, "done"), done.err
    assert "gpu/missing: libcupti is loaded more than once; the first one is used" in done.rows(
        "marks"
    )
    assert done.rows("activities")["gemm"] == 100


def test_a_libcupti_that_is_too_new_for_the_driver_makes_room_for_the_next(
    gpu_job: RunGpuJob, simulator: Path
) -> None:
    folders = f"{simulator}/lib:{simulator}/cupti-130401:{simulator}/cupti-28"
    done = gpu_job(_HUNDRED, cupti=None, LD_LIBRARY_PATH=folders, PILOTLIGHT_SIM_TRAPS="old_driver")
    assert (done.code, done.out.strip()) == (0, "done"), done.err
    assert done.marks("gpu/taken") == [28]
    assert done.rows("activities")["gemm"] == 100


def test_processes_that_share_a_gpu_by_mps_are_recorded_each(gpu_job: RunGpuJob) -> None:
    """To a client MPS is another way to the driver: here two processes on one device."""
    done = gpu_job(
        "import os, subprocess, sys\ngpu = Gpu()\n"
        "if 'CHILD' not in os.environ:\n"
        "    child = {**os.environ, 'CHILD': '1'}\n"
        "    other = subprocess.Popen([sys.executable, __file__], env=child)\n"
        "for _ in range(50): gpu.kernel('gemm', 1000)\ngpu.sync()\n"
        "if 'CHILD' not in os.environ: print(other.wait())\n",
        CUDA_MPS_PIPE_DIRECTORY="/tmp/nvidia-mps",
    )
    assert done.out.strip() == "0", done.err
    table = done.recording.detail("activities")
    gemm = [name == "gemm" for name in done.names("activities")]
    assert sorted(Counter(table["process"][gemm].tolist()).values()) == [50, 50]


@pytest.mark.parametrize("cupti", [NEWEST_V1, 130401])
def test_launches_of_an_exit_handler_are_counted_and_not_taken_for_others(
    gpu_job: RunGpuJob, cupti: int
) -> None:
    done = gpu_job([str(compiled("gpu_sim/ending.c"))], cupti=cupti)
    assert done.code == 0, done.err
    gpu = gpu_work_of(done.recording)
    losses = gpu.processes[0].losses
    if "gpu/exit_unsure" in losses:  # the machine gave our threads no time, and that is said
        assert losses["gpu/taken_along"] >= 50
        return
    assert losses == {"gpu/after_end": 50}
    assert [(row.name, row.seen, row.total_count) for row in gpu.work] == [("early", 100, 100)]


def test_a_wish_that_is_not_understood_is_said(gpu_job: RunGpuJob) -> None:
    done = gpu_job(
        "Gpu().kernel('gemm', 1000)",
        PILOTLIGHT_GPU="none",
        PILOTLIGHT_GPU_CEILING="2%",
        PILOTLIGHT_GPU_PERIOD="1s",
    )
    (process,) = gpu_work_of(done.recording).processes
    assert process.missing == (
        "as asked, PILOTLIGHT_GPU is none of auto, off, launches, nodes and all: it is auto",
        "as asked, PILOTLIGHT_GPU_CEILING is no share above 0 and up to 1: it is 0.01",
        "as asked, PILOTLIGHT_GPU_PERIOD is no number from 0.01 to 600: it is 1",
    )


def test_copies_between_devices_memory_and_cuptis_own_work_are_recorded(
    gpu_job: RunGpuJob,
) -> None:
    done = gpu_job(
        "import ctypes\ngpu = Gpu()\n"
        "for _ in range(200): gpu.kernel('gemm', 1000)\n"
        "no = ctypes.c_uint64(0)\n"
        "for _ in range(3): gpu._call('cuMemcpyPeerAsync', no, None, no, None, "
        "ctypes.c_size_t(1 << 20), None)\n"
        "place = gpu.allocate(1 << 20)\n"
        "gpu._call('cuMemFree_v2', ctypes.c_uint64(place))\ngpu.sync()\n",
        PILOTLIGHT_SIM_TRAPS="overhead",
    )
    assert done.code == 0, done.err
    found = done.rows("activities")
    assert found["Memcpy PtoP (Device -> Device)"] == 3
    assert (found["allocation"], found["free"]) == (1, 1)
    assert found["CUDA command buffer full"] == 2


def longest_kernel_ns(done: GpuJob) -> int:
    table = done.recording.detail("activities")
    return int(table["duration_ns"][[name == "gemm" for name in done.names("activities")]].max())


def test_hardware_events_leave_kernels_as_they_are_where_the_user_wants_them(
    gpu_job: RunGpuJob,
) -> None:
    slower = {"PILOTLIGHT_SIM_STRETCH": "0.5"}
    instrumented = gpu_job(_HUNDRED, cupti=130401, **slower)
    plain = gpu_job(_HUNDRED, cupti=130401, PILOTLIGHT_GPU_HES="1", **slower)
    assert plain.marks("gpu/hardware_events") == [1]
    assert longest_kernel_ns(plain) < 1100 < 1400 < longest_kernel_ns(instrumented)


@pytest.mark.parametrize(
    ("cupti", "error", "said"),
    [
        (130401, 35, "no hardware events: CUPTI refuses with 35 (no permission)"),
        (130401, 47, "no hardware events: CUPTI refuses with 47 (not under MPS)"),
        (28, 0, "no hardware events: libcupti 13.4 update 1 or later is needed"),
    ],
)
def test_where_hardware_events_are_refused_kernels_are_recorded_without(
    gpu_job: RunGpuJob, cupti: int, error: int, said: str
) -> None:
    done = gpu_job(
        _HUNDRED, cupti=cupti, PILOTLIGHT_GPU_HES="1", PILOTLIGHT_SIM_HES_ERROR=str(error)
    )
    assert f"gpu/missing: {said}" in done.rows("marks")
    assert done.rows("activities")["gemm"] == 100


def test_without_libcupti_there_are_no_records_and_a_reason(
    gpu_job: RunGpuJob, tmp_path: Path
) -> None:
    done = gpu_job(_HUNDRED, cupti=None, PILOTLIGHT_CUPTI=str(tmp_path / "none.so"))
    assert done.out.strip() == "done"
    assert any(
        name.startswith("gpu/missing: libcupti was not found") for name in done.rows("marks")
    )


def test_zero_and_disordered_timestamps_are_counted(gpu_job: RunGpuJob) -> None:
    done = gpu_job(_LAUNCHES.format(count=999), PILOTLIGHT_SIM_TRAPS="zero_timestamps,out_of_order")
    # 999 kernels and a wait: every hundredth has no time, every fiftieth ends before it begins.
    assert done.last("gpu/zero_timestamps") == 10
    assert (done.last("gpu/out_of_order") or 0) >= 20
    assert sum(done.rows("activities").values()) == 990


def test_what_cupti_drops_is_counted_exactly(gpu_job: RunGpuJob) -> None:
    # As many as fit into a ring: at the end of a process nobody may have the time to empty it.
    done = gpu_job(_LAUNCHES.format(count=2_999), PILOTLIGHT_SIM_TRAPS="drop")
    assert done.last("gpu/lost_by_cupti") == 3
    assert sum(done.rows("activities").values()) == 2_997


def test_a_clock_that_is_set_is_counted_and_followed(gpu_job: RunGpuJob) -> None:
    done = gpu_job(
        "import time\ngpu = Gpu()\n"
        "for _ in range(300): gpu.kernel('gemm', 1000); time.sleep(0.01)\n",
        PILOTLIGHT_SIM_CLOCK_JUMP_AFTER="1",
    )
    assert done.last("gpu/clock_jumps") == 1
    activities, launches = (done.recording.detail(name) for name in ("activities", "launches"))
    # After the jump of a minute kernels are again where they were launched: the last one is.
    newest = activities["correlation"].argmax()
    launched = launches["correlation"] == activities["correlation"][newest]
    (launch_ns,) = launches["start_ns"][launched].tolist()
    assert abs(int(activities["start_ns"][newest]) - launch_ns) < 2e9


def test_an_exit_does_not_hang_on_a_device_that_does_not_answer(gpu_job: RunGpuJob) -> None:
    begun = time.monotonic()
    done = gpu_job(_HUNDRED, PILOTLIGHT_SIM_TRAPS="hang_flush")
    assert (done.code, done.out.strip()) == (0, "done")
    assert time.monotonic() - begun < 20
    assert done.last("gpu/exit_unsure") == 1


def test_what_is_not_decoded_when_the_process_ends_is_counted(
    gpu_job: RunGpuJob, pilotlight_cli: RunPilotlight
) -> None:
    """A decoder that takes a millisecond a record has no time for 20,000 of them."""
    done = gpu_job(_LAUNCHES.format(count=19_999), PILOTLIGHT_SIM_TRAPS="slow_decode")
    assert done.out.strip() == "done", done.err
    left = done.last("gpu/lost_at_exit") or 0
    assert left > 10_000
    check_nothing_is_lost_in_silence(done, 20_000)
    told = pilotlight_cli("report", str(done.folder)).stdout
    assert f"{left:,.0f} device records, see GPU" in told
    assert f"{left:,.0f} records left behind when the process ended" in told
    assert "no record was lost" not in told


@pytest.mark.parametrize("cupti", [22, 28])
def test_a_decoder_that_cannot_keep_up_costs_little_memory_and_all_is_counted(
    gpu_job: RunGpuJob, simulator: Path, cupti: int
) -> None:
    """Before 12.9 CUPTI must be given a buffer whenever it asks; later it drops, and counts."""
    storm = [str(simulator / "storm"), "300000", "1.5", "1", "300"]
    environment = {**os.environ, "LD_LIBRARY_PATH": f"{simulator}/lib"}
    plain = json.loads(subprocess.run(storm, env=environment, capture_output=True).stdout)
    done = gpu_job(storm, cupti=cupti, PILOTLIGHT_SIM_TRAPS="slow_decode")
    truth = json.loads(done.out)
    assert truth["peak_kb"] - plain["peak_kb"] < 48 << 10
    # And the wait at its end.
    check_nothing_is_lost_in_silence(done, truth["launches"] + 1)


_STOPPED_AGENT = """
import os, signal, subprocess
from pilotlight.client import Client
with Client() as client:
    agent = client.ask("status")["agent"]["pid"]
gpu = Gpu()
os.kill(agent, signal.SIGSTOP)
watch = f"while kill -0 {os.getpid()} 2>/dev/null; do sleep 0.05; done; kill -CONT {agent}"
subprocess.Popen(["sh", "-c", watch], start_new_session=True, env={"PATH": os.environ["PATH"]})
for _ in range(30_000):
    gpu.kernel("gemm", 1000)
gpu.sync()
print("done")
"""


def test_the_last_counts_find_room_where_every_ring_is_full(gpu_job: RunGpuJob) -> None:
    """The agent stands still until the job is gone: launches and device records fill the rings."""
    done = gpu_job(_STOPPED_AGENT, PILOTLIGHT_SIM_TRAPS="slow_decode")
    assert done.out.strip() == "done", done.err
    assert (done.last("gpu/lost_at_exit") or 0) > 10_000
    check_nothing_is_lost_in_silence(done, 30_001)
    assert done.recording.detail("gaps").rows > 0


def test_a_buffer_that_cupti_cannot_read_to_its_end_is_counted(gpu_job: RunGpuJob) -> None:
    done = gpu_job(_HUNDRED, PILOTLIGHT_SIM_TRAPS="cut_buffer")
    assert done.out.strip() == "done", done.err
    assert (done.last("gpu/cut_buffers") or 0) >= 1
    assert 0 < done.rows("activities")["gemm"] < 100


def test_13_0_is_not_asked_to_disable_kernel_records(gpu_job: RunGpuJob) -> None:
    done = gpu_job(
        "import time\ngpu = Gpu()\n"
        "for _ in range(200): gpu.kernel('gemm', 1000); time.sleep(0.01)\nprint('done')\n",
        cupti=130000,
        PILOTLIGHT_GPU="auto",
        PILOTLIGHT_GPU_PERIOD="0.1",
    )
    # The simulated one ends the process where the real one deadlocks.
    assert done.out.strip() == "done", done.err
    assert done.rows("activities")["gemm"] == 200


def test_a_forked_child_leaves_cupti_alone(gpu_job: RunGpuJob) -> None:
    done = gpu_job(
        "import os\ngpu = Gpu()\ngpu.kernel('gemm', 1000)\n"
        "child = os.fork()\n"
        "if child == 0:\n    import time; time.sleep(1.5); os._exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\ngpu.kernel('gemm', 1000)\n"
    )
    assert done.out.strip() == "7", done.err
    assert done.rows("activities")["gemm"] == 2


def test_a_destroyed_context_and_a_reset_device_lose_nothing(gpu_job: RunGpuJob) -> None:
    done = gpu_job(
        "import ctypes\ngpu = Gpu()\nfor _ in range(50): gpu.kernel('before', 1000)\n"
        "gpu.library.cuDevicePrimaryCtxReset_v2(0)\n"
        "again = Gpu()\nfor _ in range(50): again.kernel('after', 1000)\nagain.sync()\n"
    )
    assert done.code == 0, done.err
    found = done.rows("activities")
    assert (found["before"], found["after"]) == (50, 50)


def test_a_gpu_that_falls_off_the_bus_ends_nothing_but_its_launches(gpu_job: RunGpuJob) -> None:
    done = gpu_job(
        "gpu = Gpu()\n"
        "try:\n"
        "    for _ in range(500): gpu.kernel('gemm', 1000)\n"
        "except RuntimeError as error:\n    print(error)\n",
        PILOTLIGHT_SIM_LOST_AFTER="200",
    )
    assert done.out.strip() == "cuLaunchKernel failed with 719"
    assert done.rows("activities")["gemm"] == 200


def test_names_of_4_kb_are_cut_and_a_great_many_share_one(gpu_job: RunGpuJob) -> None:
    done = gpu_job(
        "gpu = Gpu()\ngpu.kernel('k' * 4096, 100)\n"
        "for number in range(20_000): gpu.kernel(f'kernel_{number}', 1)\n"
        "import time; time.sleep(1.5)\n",  # until CUPTI is asked for them, well before the exit
        timeout=120,
    )
    found, lost = done.rows("activities"), lost_records(done)
    assert found["k" * 1024] == 1
    # A machine too busy to decode them in that time loses some, and says so.
    check_nothing_is_lost_in_silence(done, 20_001)
    assert found["(other kernels)"] + lost > 0
    assert found["(other kernels)"] <= (done.last("gpu/names_shared") or 0) <= 20_001 - 16_384


def test_names_of_types_in_types_end_no_job(gpu_job: RunGpuJob) -> None:
    """The C++ library makes them readable by functions that call themselves."""
    done = gpu_job(
        "gpu = Gpu()\nfor depth in range(50, 2000, 50):\n"
        "    gpu.kernel('_Z1fI' + 'P' * depth + 'iEvv', 1000)\n"
        "    gpu.kernel('_Z1fIX' + 'ng' * depth + 'Li1EEEvv', 1000)\n"
        "    gpu.kernel('_Z1fI' + 'J' * depth + 'i' + 'E' * depth + 'Evv', 1000)\n"
        "gpu.sync()\nprint('done')\n"
    )
    assert done.out.strip() == "done", done.err
    assert done.rows("activities")[f"void f<int{'*' * 1000}>()"] == 1


def test_a_million_distinct_names_are_bounded_and_counted(gpu_job: RunGpuJob) -> None:
    done = gpu_job(
        "gpu = Gpu()\n"
        "for _ in range(10): gpu.library.gpu_sim_launch_names(gpu._module, 100_000)\ngpu.sync()\n",
        timeout=120,
    )
    assert done.code == 0, done.err
    found = done.rows("activities")
    check_nothing_is_lost_in_silence(done, 1_000_001)
    assert len(found) <= (1 << 14) + 2
    assert (done.last("gpu/names_shared") or 0) >= found["(other kernels)"] > 0


def test_a_program_killed_in_the_middle_leaves_what_it_published(
    gpu_job: RunGpuJob, simulator: Path
) -> None:
    done = gpu_job(
        "import os, time\ngpu = Gpu()\n"
        "for _ in range(150): gpu.kernel('gemm', 1000); time.sleep(0.01)\nos.kill(os.getpid(), 9)\n"
    )
    assert done.code == -signal.SIGKILL
    assert 50 < done.rows("activities")["gemm"] <= 150


def test_the_simulator_is_strict(simulator: Path, tmp_path: Path) -> None:
    """A double that forgives proves nothing: a CUDA call in a callback ends the process."""
    program = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
cupti = ctypes.CDLL("libcupti.so.12")
kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)
hear = kind(lambda *_: cuda.cuCtxSynchronize() and None)
cuda.cuInit(0)
subscriber = ctypes.c_void_p()
assert cupti.cuptiSubscribe(ctypes.byref(subscriber), hear, None) == 0
assert cupti.cuptiSubscribe(ctypes.byref(ctypes.c_void_p()), hear, None) == 39
cupti.cuptiEnableCallback(1, subscriber, 1, 17)
cuda.cuCtxSynchronize()
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "LD_LIBRARY_PATH": f"{simulator}/lib:{simulator}/cupti-28"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == -signal.SIGABRT
    assert "gpu_sim: illegal: a CUDA call inside a CUPTI callback" in done.stderr


@pytest.mark.parametrize("way", ["os._exit(0)", "os.kill(os.getpid(), 9)", "os.abort()"])
def test_what_a_process_that_is_ended_takes_with_it_is_counted(
    gpu_job: RunGpuJob, way: str
) -> None:
    """CUPTI hands over what it has once a second; nobody can ask for the rest."""
    done = gpu_job(
        "import os, time\ngpu = Gpu()\n"
        "for _ in range(100): gpu.kernel('first', 1000)\ngpu.sync()\ntime.sleep(2.5)\n"
        f"for _ in range(70): gpu.kernel('last', 1000)\n{way}\n"
    )
    (found,) = gpu_work_of(done.recording).processes
    assert done.rows("activities")["first"] == 100
    assert found.losses["gpu/taken_along"] + done.rows("activities")["last"] == 70
