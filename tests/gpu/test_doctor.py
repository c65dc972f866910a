"""What doctor says on a machine with a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("traps", "state", "said"),
    [
        ("", "ok", "8 GPUs, driver for CUDA 12.9"),
        ("no_device", "limited", "cuInit says 100"),
        ("taken", "limited", "in use by another tool"),
        ("no_driver", "limited", "pip install 'nvidia-cuda-cupti-cu12==12.9.*'"),
        ("privileges", "limited", "NVreg_RestrictProfilingToAdminUsers"),
    ],
)
def test_cuda_and_cupti_are_asked_and_what_they_refuse_is_said(
    simulator: Path, world: Path, traps: str, state: str, said: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _KERNELS],
        env={
            **os.environ,
            "LD_LIBRARY_PATH": f"{simulator}/lib:{simulator}/cupti-28",
            "PILOTLIGHT_SIM_TRAPS": traps,
            "PILOTLIGHT_SIM_DEVICES": "8",
            "PILOTLIGHT_SIM_DRIVER": "12090",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    check = json.loads(done.stdout)
    assert check["state"] == state
    assert said in check["detail"] + check["fix"]


_KERNELS = """
import dataclasses, json, os
from pilotlight.doctor.cupti import ask
from pilotlight.doctor.providers import kernels
from pilotlight.permission import find_cuptis, loadable
check = kernels(True, loadable("libcuda.so.1"), find_cuptis(), os.environ, ask)
print(json.dumps(dataclasses.asdict(check)))
"""
