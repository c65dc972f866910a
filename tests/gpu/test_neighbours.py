"""Other tools that want CUPTI in the same process: it is theirs at once, and comes back to us."""

from __future__ import annotations

from pathlib import Path

from tests.gpu.conftest import RunGpuJob

# libplain.so calls CUPTI as PyTorch's profiler does: as a library linked with it.
_PROFILED = """
import ctypes, time
gpu = Gpu()
def work(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        gpu.kernel("gemm", 1000)
        time.sleep(0.001)
work(0.3)
plain = ctypes.CDLL({plain!r})
time.sleep(1.2)  # a new library is noticed within a second
began = plain.plain_begin()
work(0.5)
heard = plain.plain_heard()
plain.plain_end()
work(2.5)
print(began, heard > 100)
"""


def test_another_subscriber_gets_cupti_at_once_and_we_come_back(
    gpu_job: RunGpuJob, simulator: Path
) -> None:
    plain = str(simulator / "cupti-28" / "libplain.so")
    done = gpu_job(
        _PROFILED.format(plain=plain), LD_LIBRARY_PATH=f"{simulator}/lib:{simulator}/cupti-28"
    )
    assert done.code == 0, done.err
    assert done.out.split() == ["0", "True"]
    assert done.marks("gpu/yielded") == [1, 0]
    assert len(done.marks("gpu/taken")) == 2
    # The gap is marked: nothing was on between the two.
    assert -1 in done.marks("gpu/window")


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
    assert done.out.split() == ["0", "True"]
    assert not done.marks("gpu/yielded")
    assert done.rows("activities")["gemm"] == done.rows("launches")["cuLaunchKernel"]


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


def test_cupti_is_torn_down_when_collection_is_turned_off(gpu_job: RunGpuJob) -> None:
    done = gpu_job(
        """
import ctypes, time
from pathlib import Path
from pilotlight import _probe
gpu = Gpu()
library = ctypes.CDLL(_probe.__file__)
library.pilotlight_provider_api.restype = ctypes.c_void_p
# The third word after the two numbers of the table: what the agent's clients ask for.
tier = ctypes.c_uint32.from_address(
    ctypes.c_uint64.from_address(library.pilotlight_provider_api(1) + 32).value
)
def work(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        gpu.kernel("gemm", 1000)
        time.sleep(0.001)
work(0.2)
tier.value = 4
work(1.5)
before = gpu.stats()["profiler_ns"]
work(0.2)
print(gpu.stats()["profiler_ns"] - before)
"""
    )
    assert done.code == 0, done.err
    assert done.marks("gpu/torn_down") == [1]
    assert done.out.strip() == "0"
