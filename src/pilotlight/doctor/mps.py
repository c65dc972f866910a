"""MPS: whether a control daemon shares the GPUs of this machine, and what works under it."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path

from pilotlight.doctor.check import Check, limited

PIPES = Path("/tmp/nvidia-mps")
_VARIABLE = "CUDA_MPS_PIPE_DIRECTORY"
_WAIT_S = 1.0


def mps_checks(environment: Mapping[str, str] = os.environ, usual: Path = PIPES) -> list[Check]:
    """Nothing where MPS is neither there nor asked for."""
    chosen = environment.get(_VARIABLE)
    folder = Path(chosen) if chosen else usual
    control = folder / "control"
    if not control.is_socket():
        if not chosen:
            return []
        what = f"{_VARIABLE} is {folder}, where no control daemon is: jobs do without MPS"
        return [limited("MPS", what, f"nvidia-cuda-mps-control -d, or unset {_VARIABLE}")]
    if not _answers(control):
        what = f"the control daemon of {folder} has ended and left its socket"
        return [limited("MPS", what, "nvidia-cuda-mps-control -d")]
    return [
        limited(
            "MPS",
            f"a control daemon answers at {folder}: kernels, copies, launches and counters of its "
            "clients are recorded; hardware events are not to be had, and CUPTI may refuse PC "
            "sampling, PM sampling and the range profiler",
            "for those: echo quit | nvidia-cuda-mps-control, when no client runs",
        )
    ]


def _answers(control: Path) -> bool:
    """Whether somebody listens there; one that we may not ask does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(_WAIT_S)
        try:
            asking.connect(str(control))
        except PermissionError:
            return True
        except OSError:
            return False
    return True
