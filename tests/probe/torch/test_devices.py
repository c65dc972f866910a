"""Parts that need a device, on stand-ins for what a device build of torch has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import RunPilotlight

from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import SpanKind

pytest.importorskip("torch")

PROGRAM = """
import time, types
import torch
from pilotlight import _probe
from pilotlight.probe.adapters import adapter
from pilotlight.probe.torch import allocator, synchronization

class Elsewhere(torch.Tensor):
    is_cpu = False

mine = adapter("torch")
synchronization.install_methods(mine, torch)
there = torch.ones(1).as_subclass(Elsewhere)
assert there.item() == 1.0
assert torch.ones(1).item() == 1.0
assert torch.Tensor.item == torch._C.TensorBase.item

observers = []
cuda = types.SimpleNamespace(
    is_initialized=lambda: True,
    memory_stats=lambda: {"allocated_bytes.all.current": 4096, "num_alloc_retries": 3},
)
fake = types.SimpleNamespace(
    cuda=cuda,
    version=types.SimpleNamespace(cuda="13.0", hip=None),
    _C=types.SimpleNamespace(_cuda_attach_out_of_memory_observer=observers.append),
)
allocator.install(mine, fake)
time.sleep(1.1)
_probe.automatic_step(None)
observers[0](0, 1 << 30, 5, 6)
assert mine.faults == 0, mine.last_fault
"""


def test_waits_for_a_device_and_its_allocator_are_told(
    pilotlight_cli: RunPilotlight, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    folder = tmp_path / "recording"
    done = pilotlight_cli("run", "-q", "-o", str(folder), "--", sys.executable, str(program))
    assert done.returncode == 0, done.stderr
    recording = Recording.open(folder)
    spans, counters, marks = (recording.detail(name) for name in ("spans", "counters", "marks"))
    names = recording.names

    def texts(rows: object) -> list[str]:
        found = names.find(rows["process"], rows["name"])  # type: ignore[index]
        return [names.texts[int(number)] for number in found]

    waits = [
        text
        for text, kind in zip(texts(spans), spans["kind"], strict=True)
        if kind == SpanKind.SYNC
    ]
    # A subclass of Tensor comes by its own dispatch once more.
    assert waits[-1] == "Tensor.item at program.py:14"
    told = dict(zip(texts(counters), counters["value"].tolist(), strict=True))
    assert (told["allocator.allocated_bytes"], told["allocator.retries"]) == (4096, 3)
    assert "out of memory on device 0: 6 bytes free" in texts(marks)


def test_without_a_framework_none_is_imported() -> None:
    words = [
        sys.executable,
        "-c",
        "import sys; print('torch' in sys.modules, 'jax' in sys.modules)",
    ]
    done = subprocess.run(
        words, env={"PILOTLIGHT": "1", "PATH": "/usr/bin"}, capture_output=True, text=True
    )
    assert done.stdout.split() == ["False", "False"]
