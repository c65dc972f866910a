"""GPUs and counters: which answer on this machine, and what would add the rest."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from pilotlight.agent.counters.source import Source, SourceMissing
from pilotlight.agent.counters.sources import all_sources
from pilotlight.doctor.check import Check, limited, ok
from pilotlight.doctor.mps import mps_checks
from pilotlight.permission import (
    METHODS,
    Facts,
    Method,
    Missing,
    beside_holders,
    facts_of,
    find_cupti,
    missing_for,
)

_WAIT_S = 5.0
_SHOWN = 4
_NVIDIA, _AMD = "0x10de", "0x1002"
# PCI classes: display controller, processing accelerator.
_GPU_CLASSES = ("0x03", "0x12")


def device_checks() -> list[Check]:
    sources = all_sources(lambda: [os.getpid()])
    checks = [check_source(name, make) for name, make in sources.items()]
    profiling = profiling_checks(facts_of(os.getpid(), find_cupti()))
    return [*checks, *profiling, *mps_checks()]


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
        gone = [what.split()[0].removeprefix("gpu") for what in missing if what.endswith(" gpu")]
        which = ",".join(gone) or "GPU"
        return f"as root: nvidia-smi --gpu-reset -i {which}, or reboot the node"
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


def profiling_checks(facts: Facts) -> list[Check]:
    """Whether PC and PM sampling and the range profiler can be used on demand."""
    if facts.parameters is None:
        return []
    return [_profiling(method, missing_for(method, facts), facts) for method in METHODS.values()]


def _profiling(method: Method, missing: list[Missing], facts: Facts) -> Check:
    what = f"{method.title} (on demand)"
    if not missing:
        beside = beside_holders(method, facts)
        return ok(what, f"allowed; {beside}" if beside else "allowed")
    return limited(what, "; ".join(m.what for m in missing), "; ".join(m.fix for m in missing))
