"""GPUs and counters: which answer on this machine, and what would add the rest."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from pilotlight.agent.counters.source import Source, SourceMissing
from pilotlight.agent.counters.sources import all_sources
from pilotlight.doctor.check import Check, limited, ok

_WAIT_S = 5.0
_PARAMETERS = Path("/proc/driver/nvidia/params")
_SHOWN = 4
_CAP_SYS_ADMIN, _CAP_PERFMON = 21, 38
_NVIDIA, _AMD = "0x10de", "0x1002"
# PCI classes: display controller, processing accelerator.
_GPU_CLASSES = ("0x03", "0x12")


def device_checks() -> list[Check]:
    sources = all_sources(lambda: [os.getpid()])
    checks = [check_source(name, make) for name, make in sources.items()]
    return [*checks, *profiling_permission()]


def check_source(name: str, make: Callable[[], Source]) -> Check:
    """Opens and reads it once, in a thread that is left behind if it does not come back."""
    what = f"counters: {name}"
    answers: list[Check] = []

    def ask() -> None:
        try:
            source = make()
            reading = source.read()
        except SourceMissing as error:
            if _is_expected(name):
                answers.append(limited(what, str(error), error.fix or "see docs/counters.md"))
            else:
                answers.append(ok(what, f"none here: {error}"))
        except Exception as error:
            answers.append(limited(what, f"{error}", "see docs/counters.md"))
        else:
            answers.append(_read(what, source, len(reading.values), dict(reading.missing)))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_WAIT_S)
    if answers:
        return answers[0]
    return limited(
        what,
        f"does not answer within {_WAIT_S:.0f} s",
        "the agent goes on without it; look for XID errors in dmesg, then reset the device",
    )


def _read(what: str, source: Source, values: int, missing: dict[str, str]) -> Check:
    detail = source.describe()
    if values:
        detail += f"; {values} values"
    if not missing:
        return ok(what, detail)
    shown = "; ".join(f"{name}: {why}" for name, why in list(missing.items())[:_SHOWN])
    more = len(missing) - _SHOWN
    also = f"; and {more} more" if more > 0 else ""
    absent = all(why in ("not supported", "function not found") for why in missing.values())
    if absent:
        return ok(what, f"{detail}; not on this device or driver: {shown}{also}")
    return limited(what, f"{detail}; without {shown}{also}", _fix(missing))


def _fix(missing: dict[str, str]) -> str:
    if any("permission" in why for why in missing.values()):
        return "run the agent as root, or give its user the files /dev/nvidia*"
    if any("lost" in why or "reset" in why for why in missing.values()):
        return "as root: nvidia-smi --gpu-reset -i GPU, or reboot the node"
    return "see docs/counters.md"


def _is_expected(name: str) -> bool:
    """Whether the machine has what that source reads."""
    if name == "nvml":
        return Path("/dev/nvidiactl").exists() or has_gpu_of(_NVIDIA)
    if name == "amd":
        return Path("/dev/kfd").exists() or has_gpu_of(_AMD)
    return name != "infiniband"


def has_gpu_of(vendor: str, bus: Path = Path("/sys/bus/pci/devices")) -> bool:
    for device in bus.glob("*"):
        try:
            is_gpu = (device / "class").read_text().startswith(_GPU_CLASSES)
            if is_gpu and (device / "vendor").read_text().strip() == vendor:
                return True
        except OSError:
            continue
    return False


def profiling_permission(parameters: Path = _PARAMETERS, status: str | None = None) -> list[Check]:
    """Whether PC and PM sampling may be used; counters and activity records never need it."""
    try:
        text = parameters.read_text()
    except OSError:
        return []
    what = "GPU profiling (on demand)"
    restricted = any(line.split() == ["RmProfilingAdminOnly:", "1"] for line in text.splitlines())
    if not restricted:
        return [ok(what, "every user may sample PCs and hardware counters")]
    if _capabilities(status) & (1 << _CAP_SYS_ADMIN | 1 << _CAP_PERFMON):
        return [ok(what, "this user may sample PCs and hardware counters")]
    return [
        limited(
            what,
            "PC and PM sampling are for administrators (RmProfilingAdminOnly is 1); kernels, "
            "ranges, collectives and counters are recorded all the same",
            "as root: echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' > "
            "/etc/modprobe.d/nvidia-profiling.conf, rebuild the initramfs, reboot; or give the "
            "job CAP_PERFMON (driver 565 and later) or CAP_SYS_ADMIN",
        )
    ]


def _capabilities(status: str | None) -> int:
    text = Path("/proc/self/status").read_text() if status is None else status
    for line in text.splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0
