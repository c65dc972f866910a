from __future__ import annotations

import runpy
from pathlib import Path

from pilotlight.simulate.fault import Fault
from pilotlight.simulate.job import JobShape
from pilotlight.simulate.run import simulate
from pilotlight.simulate.schedule import schedule

SHAPE = JobShape(ranks=2, steps=3, layers=3, kernel_jitter_ratio=0, device_spread_ratio=0)
PLAYER = Path(__file__).parents[2] / "native" / "tests" / "gpu_sim" / "play.py"


def test_the_player_of_the_simulated_gpu_reads_the_schedule_of_a_job() -> None:
    fault = Fault("slow_gpu", 1, 1.5)
    text = schedule(simulate(SHAPE, (fault,))[0], (fault,))
    player = runpy.run_path(str(PLAYER))
    found = player["read_schedule"](text)
    assert found.slow == {1: 1.5}
    kernels = [action for action in found.actions if action.what == "kernel"]
    compute = sum(action.times for action in kernels if not action.stream)
    # Three layers of five kernels, forward and backward, and the optimizer.
    assert compute == 2 * 3 * 5 + 1
    assert sum(action.times for action in kernels if action.stream) == 1
    busy_ns = sum(action.ns * action.times for action in kernels if not action.stream)
    assert abs(busy_ns - SHAPE.device_step_us * 1000) < 0.01 * busy_ns
    assert [action.what for action in found.actions][:2] == ["host", "copy"]
    assert found.actions[-1].what == "sync"
