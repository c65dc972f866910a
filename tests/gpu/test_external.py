"""Ids that a program pushes to CUPTI are joined to the work launched inside them."""

from __future__ import annotations

import pytest
from tests.gpu.conftest import RunGpuJob

from pilotlight.report.external import external_of

_PROGRAM = """
import ctypes, os
cupti = ctypes.CDLL(os.environ["PILOTLIGHT_CUPTI"])
push = cupti.cuptiActivityPushExternalCorrelationId
pop = cupti.cuptiActivityPopExternalCorrelationId
push.argtypes = [ctypes.c_uint32, ctypes.c_uint64]
gpu = Gpu()
gpu.kernel("outside", 1000)
for step in range(3):
    push(3, 2**40 + step)
    for _ in range(step + 1):
        gpu.kernel("inside", 1000)
    gpu.runtime_kernel("inside", 1000)
    last = ctypes.c_uint64()
    assert pop(3, ctypes.byref(last)) == 0 and last.value == 2**40 + step
gpu.sync()
"""


@pytest.mark.parametrize("cupti", [22, 28])  # one that can choose among calls, and one that cannot
def test_the_time_of_work_is_summed_by_the_ids_around_its_launch(
    gpu_job: RunGpuJob, cupti: int
) -> None:
    job = gpu_job(_PROGRAM, cupti=cupti, PILOTLIGHT_GPU_EXTERNAL="1")
    assert job.code == 0, job.err
    found = {one.id - 2**40: one for one in external_of(job.recording)}
    assert {step: one.count for step, one in found.items()} == {0: 2, 1: 3, 2: 4}
    assert {one.kind for one in found.values()} == {"custom0"}
    assert found[2].total_ns == pytest.approx(4000, abs=10)
    assert job.rows("activities")["inside"] == 9  # ids and calls are no work of their own
    assert not job.last("gpu/unknown_records")
