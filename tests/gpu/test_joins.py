"""From a kernel back to the module, the phase and the line that launched it, and on to its step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from tests.gpu.conftest import GpuJob, RunGpuJob

from pilotlight.recording.columns import Array
from pilotlight.recording.schema import SpanKind

pytest.importorskip("torch")

STEPS = 5
PROGRAM = """
import torch, pilotlight
gpu = Gpu()
class Work(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, name):
        ctx.name = name
        gpu.kernel(name, 2_000)
        return x * 2
    @staticmethod
    def backward(ctx, gradient):
        gpu.kernel(f"{ctx.name}_backward", 3_000)
        return gradient * 2, None
class Layer(torch.nn.Module):
    def __init__(self, name):
        super().__init__()
        self.name = name
    def forward(self, x): return Work.apply(x, self.name)
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Layer("a"), Layer("b")
    def forward(self, x): return self.second(self.first(x))
model, x = Model(), torch.ones(4, requires_grad=True)
for number in range(STEPS + 1):
    pilotlight.step(number)
    model(x).sum().backward()
    gpu.sync()
""".replace("STEPS", str(STEPS))


@dataclass(frozen=True)
class Kernel:
    name: str
    frames: set[tuple[str, int]]
    module: str
    phase: str
    step: int


def kernels_of(done: GpuJob) -> list[Kernel]:
    """Joined as docs/frameworks.md says: by correlation, thread and time."""
    recording = done.recording
    activities, launches = recording.detail("activities"), recording.detail("launches")
    spans, steps = recording.detail("spans"), recording.detail("steps")
    texts = np.array(done.names("spans"))
    row_of = {number: row for row, number in enumerate(launches["correlation"].tolist())}
    nodes = recording.calls.find(activities["process"], activities["stack"]).tolist()

    def innermost(kind: SpanKind, row: int) -> str:
        at = launches["start_ns"][row]
        mine: Array = (spans["kind"] == kind) & (spans["thread"] == launches["thread"][row])
        holds = mine & (spans["start_ns"] <= at) & (at < spans["start_ns"] + spans["duration_ns"])
        found = np.flatnonzero(holds)
        return str(texts[found[np.argmin(spans["duration_ns"][found])]]) if found.size else ""

    def step(row: int) -> int:
        at = launches["start_ns"][row]
        holds = (steps["start_ns"] <= at) & (at < steps["start_ns"] + steps["duration_ns"])
        found = steps["step"][holds].tolist()
        return int(found[0]) if found else -1

    kernels = []
    for place, name in enumerate(done.names("activities")):
        row = row_of[int(activities["correlation"][place])]
        kernels.append(
            Kernel(
                name,
                {(frame.function, frame.line) for frame in recording.calls.path(nodes[place])},
                innermost(SpanKind.MODULE, row),
                innermost(SpanKind.PHASE, row),
                step(row),
            )
        )
    return kernels


def line_of(text: str) -> int:
    """In the program as it is run: after one line of the fixture's own."""
    return PROGRAM.splitlines().index(text) + 2


def test_a_kernel_leads_to_module_phase_line_and_step(gpu_job: RunGpuJob) -> None:
    done = gpu_job(PROGRAM)
    assert done.code == 0, done.err
    kernels = [kernel for kernel in kernels_of(done) if kernel.step >= 0]
    forward = [kernel for kernel in kernels if kernel.name in ("a", "b")]
    backward = [kernel for kernel in kernels if kernel.name in ("a_backward", "b_backward")]
    assert sorted(
        (kernel.step, kernel.name, kernel.module, kernel.phase) for kernel in forward
    ) == [
        (step, name, module, "forward")
        for step in range(STEPS)
        for name, module in (("a", "Model.first"), ("b", "Model.second"))
    ]
    launched = ("Work.forward", line_of("        gpu.kernel(name, 2_000)"))
    assert all(launched in kernel.frames for kernel in forward)

    assert sorted((kernel.step, kernel.name, kernel.phase) for kernel in backward) == [
        (step, name, "backward") for step in range(STEPS) for name in ("a_backward", "b_backward")
    ]
    # By module in some steps only.
    assert {(kernel.name, kernel.module) for kernel in backward if kernel.module} == {
        ("a_backward", "Model.first backward"),
        ("b_backward", "Model.second backward"),
    }
