"""Asks CUDA and CUPTI themselves, in a process of its own that fails or hangs in our place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pilotlight.permission import reason_of

# Without persistence mode a driver takes some seconds for each GPU.
_WAIT_S = 60.0
NO_DEVICE = 100
_TAKEN = 39
_DRIVER_TOO_OLD = (15, 999)
# What CUPTI does not do at all in such a place; counters of the GPU are recorded there too.
_VGPU = "on the host: give the vGPU the parameter enable_profiling=1"
_ELSEWHERE = {
    33: _VGPU,
    40: _VGPU,
    41: "run the job on a machine without confidential computing",
    43: "run the job on a GPU that is not partitioned; as root: nvidia-smi -i GPU -mig 0",
    45: "run the job on Linux itself",
    47: "end MPS (echo quit | nvidia-cuda-mps-control), or run the job without it",
}
_ASK = "see docs/gpu.md"
# Of cuInit: what it means, and what to do about it.
_INIT = {
    NO_DEVICE: (
        "the driver has no GPU for this process",
        "look at CUDA_VISIBLE_DEVICES and nvidia-smi; in a container start it with --gpus all",
    ),
    802: (
        "the GPUs are not ready",
        "on machines with NVSwitch, as root: systemctl start nvidia-fabricmanager",
    ),
    803: (
        "libcuda.so.1 and the driver in the kernel are of different versions",
        "reboot after the update of the driver; in a container remove its own libcuda.so.1",
    ),
    804: (
        "the libcuda.so.1 for compatibility does not work with this GPU",
        "take its folder (compat) out of LD_LIBRARY_PATH, or update the driver",
    ),
}
_UNKNOWN_INIT = "nvidia-smi and dmesg say more; is the module nvidia_uvm loaded?"
NO_ANSWER = ("CUDA does not answer, or ends the process that asks", _UNKNOWN_INIT)

_QUESTIONS = """
import ctypes, json, sys
answer = {"init": -1, "driver": 0, "devices": 0, "cupti": "", "subscribed": -1}
number = ctypes.c_int()
cuda = ctypes.CDLL("libcuda.so.1")
answer["init"] = cuda.cuInit(0)
if cuda.cuDriverGetVersion(ctypes.byref(number)) == 0: answer["driver"] = number.value
if answer["init"] == 0 and cuda.cuDeviceGetCount(ctypes.byref(number)) == 0:
    answer["devices"] = number.value
hear = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
hears, subscriber = hear(lambda *_: None), ctypes.c_void_p()
for path in sys.argv[1:]:
    # As the provider does: one that does not work with this driver makes room for the next.
    if answer["init"] != 0 or answer["subscribed"] not in (-1, 15, 999): break
    cupti = ctypes.CDLL(path)
    answer["cupti"] = path
    answer["subscribed"] = cupti.cuptiSubscribe(ctypes.byref(subscriber), hears, None)
    if answer["subscribed"] == 0: cupti.cuptiUnsubscribe(subscriber)
print(json.dumps(answer))
"""


@dataclass(frozen=True)
class Answer:
    init: int  # of cuInit; 0: it worked
    driver: int  # the newest CUDA that it supports, 13040 is 13.4
    devices: int
    cupti: str  # the last one that was asked
    subscribed: int  # of cuptiSubscribe; 0: it worked

    @property
    def cuda(self) -> str:
        return f"{self.driver // 1000}.{self.driver % 1000 // 10}"


def ask(cuptis: Sequence[str], wait_s: float = _WAIT_S) -> Answer | None:
    """None: there was no answer, because that process died or did not come back."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _QUESTIONS, *cuptis],
            env={**os.environ, "PILOTLIGHT": "0"},
            capture_output=True,
            timeout=wait_s,
        )
        return Answer(**json.loads(done.stdout.splitlines()[-1]))
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError, TypeError):
        return None


def refusal(answer: Answer, environment: Mapping[str, str]) -> tuple[str, str] | None:
    """What stands in the way of records, and what to do about it; None: nothing does."""
    if answer.init:
        what, fix = _INIT.get(answer.init, ("CUDA does not start", _UNKNOWN_INIT))
        return (f"{what} (cuInit says {answer.init})", fix)
    if answer.subscribed == _TAKEN:
        injected = [
            name
            for name in ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH")
            if environment.get(name)
        ]
        fix = f"unset {' '.join(injected)}" if injected else "end the other tool"
        return ("CUPTI is in use by another tool in every process", fix)
    if answer.subscribed in _DRIVER_TOO_OLD:
        package = "nvidia-cuda-cupti" + ("-cu12" if answer.driver < 13000 else "")
        return (
            f"{answer.cupti} does not work with this driver (CUDA {answer.cuda})",
            f"in the job's Python: pip install '{package}=={answer.cuda}.*'; or a newer driver",
        )
    if answer.subscribed:
        why, _, fix = reason_of(answer.subscribed).partition(" -> ")
        return (f"{answer.cupti} refuses: {why}", fix or _ELSEWHERE.get(answer.subscribed, _ASK))
    return None
