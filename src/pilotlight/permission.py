"""Whether hardware profiling on demand is possible here, and by name what is missing.

Kernels, ranges, collectives and counters need none of this.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

PARAMETERS = Path("/proc/driver/nvidia/params")
_CAP_SYS_ADMIN, _CAP_PERFMON = 21, 38
# Where native/cuda/cupti_places.cpp looks for it, too.
_CUPTI = ("libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so")
_TOOLKIT = (
    "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
    "/usr/local/cuda/lib64/libcupti.so",
)
INSTALL_CUPTI = "pip install nvidia-cuda-cupti (for CUDA 12: nvidia-cuda-cupti-cu12)"
_UNRESTRICT = (
    "as root: echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' > "
    "/etc/modprobe.d/nvidia-profiling.conf, rebuild the initramfs, reboot; or give the "
    "job CAP_PERFMON (driver 565 and later) or CAP_SYS_ADMIN"
)
# What CUPTI's results mean, of those that say more than that something failed.
_RESULTS = {
    8: "no memory for it",
    14: "not beside what else is collected",
    15: "libcupti could not load libnvperf_host.so and libnvperf_target.so beside it",
    26: "another program has the hardware counters (DCGM: dcgmi profile --pause, and --resume "
    "afterwards; or a second profiler)",
    27: "not on this device",
    33: "not on this vGPU",
    35: f"NVreg_RestrictProfilingToAdminUsers -> {_UNRESTRICT}",
    40: "not on this vGPU",
    41: "not under confidential computing",
    42: "not on a CMP card",
    43: "not on this MIG device",
    45: "not under WSL",
    46: f"its libcupti does not know this GPU -> a newer one in the job's Python: {INSTALL_CUPTI}",
    47: "not under MPS",
    999: "its libcupti failed for an unknown reason",
    # The provider's own.
    1001: "its libcupti lacks functions for it -> one of CUDA 12.6 or later",
    1002: "this GPU has none of the metrics",
}
# May hold the hardware counters of every GPU before Hopper while they run.
_COUNTER_HOLDERS = ("nv-hostengine", "dcgm-exporter")


@dataclass(frozen=True)
class Missing:
    """What stands in the way, and what would remove it."""

    what: str
    fix: str


@dataclass(frozen=True)
class Method:
    """A way of profiling on demand (T2)."""

    name: str
    title: str
    function: str  # of libcupti, that every version with it has
    since: str  # of CUDA
    takes_counters: bool
    result: str  # what a capture gives


METHODS = {
    method.name: method
    for method in (
        Method("pc", "PC sampling", "cuptiPCSamplingEnable", "11.3", False, "stalls"),
        Method("pm", "PM sampling", "cuptiPmSamplingEnable", "12.6", True, "hardware"),
        Method("range", "range profiler", "cuptiRangeProfilerEnable", "12.6", True, "kernels"),
    )
}


@dataclass(frozen=True)
class Facts:
    """Of this machine, and of the process that is to be profiled."""

    parameters: str | None  # of NVIDIA's driver; None: there is none
    capabilities: int
    cupti: str | None
    functions: frozenset[str]  # of METHODS, that this libcupti has
    has_perfworks: bool  # libnvperf_host beside it
    holders: tuple[str, ...]  # programs that hold the hardware counters


def missing_for(method: Method, facts: Facts) -> list[Missing]:
    """Nothing: it is allowed."""
    if facts.parameters is None:
        return [Missing("no NVIDIA driver", "install it; in a container start it with --gpus all")]
    found = []
    if facts.cupti is None:
        fix = f"in the job's Python: {INSTALL_CUPTI}"
        found.append(Missing("libcupti was not found", fix))
    elif method.function not in facts.functions:
        what = f"{facts.cupti} has no {method.function}"
        found.append(Missing(what, f"a libcupti of CUDA {method.since} or later"))
    elif not facts.has_perfworks:
        what = "libnvperf_host.so does not lie beside libcupti"
        found.append(Missing(what, "install the whole package of CUPTI"))
    if is_restricted(facts.parameters) and not may_profile(facts.capabilities):
        found.append(
            Missing(
                "NVreg_RestrictProfilingToAdminUsers is 1 (RmProfilingAdminOnly), and the process "
                "has neither CAP_SYS_ADMIN nor CAP_PERFMON",
                _UNRESTRICT,
            )
        )
    return found


def beside_holders(method: Method, facts: Facts) -> str:
    """What to know of programs that may hold the counters. Whether one does now, only the driver
    knows: not on Hopper and later, not while it is paused, not if it samples nothing."""
    if not method.takes_counters or not facts.holders:
        return ""
    return (
        f"{', '.join(facts.holders)} may hold the counters of GPUs before Hopper: then it is "
        "refused until dcgmi profile --pause"
    )


def reason_of(result: int) -> str:
    """Why CUPTI refused, by its own number."""
    return _RESULTS.get(result, f"error {result}")


def is_restricted(parameters: str) -> bool:
    return any(line.split() == ["RmProfilingAdminOnly:", "1"] for line in parameters.splitlines())


def may_profile(capabilities: int) -> bool:
    return bool(capabilities & (1 << _CAP_SYS_ADMIN | 1 << _CAP_PERFMON))


def capabilities_of(status: str) -> int:
    """The effective ones in the text of a /proc/PID/status."""
    for line in status.splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0


def facts_of(pid: int, cupti: str | None) -> Facts:
    """Loads the libcupti into this process, but calls nothing in it."""
    functions: frozenset[str] = frozenset()
    if cupti is not None:
        try:
            library = ctypes.CDLL(cupti)
        except OSError:
            cupti = None
        else:
            functions = frozenset(
                m.function for m in METHODS.values() if hasattr(library, m.function)
            )
    return Facts(
        parameters=_text(PARAMETERS),
        capabilities=capabilities_of(_text(Path(f"/proc/{pid}/status")) or ""),
        cupti=cupti,
        functions=functions,
        has_perfworks=cupti is not None and _has_perfworks(cupti),
        holders=holders(_commands()),
    )


def find_cupti() -> str | None:
    """The libcupti that a job would get here."""
    return next(iter(find_cuptis()), None)


def find_cuptis() -> list[str]:
    """In the order in which the provider tries them, where the job has not loaded one itself."""
    chosen = os.environ.get("PILOTLIGHT_CUPTI")
    packages = in_packages("c*/lib/libcupti.so.1*")
    candidates = [chosen] if chosen else [*_CUPTI, *packages, *_TOOLKIT]
    return [path for path in candidates if loadable(path)]


def in_packages(pattern: str) -> Iterator[str]:
    """Among the libraries that NVIDIA's packages for Python bring."""
    spec = importlib.util.find_spec("nvidia")
    for place in (spec.submodule_search_locations or []) if spec else []:
        yield from sorted(str(path) for path in Path(place).glob(pattern))


def loadable(path: str) -> bool:
    try:
        ctypes.CDLL(path)
    except OSError:
        return False
    return True


def holders(commands: Iterable[str]) -> tuple[str, ...]:
    """Those of the programs that hold hardware counters."""
    running = set(commands)
    return tuple(name for name in _COUNTER_HOLDERS if name in running)


def _has_perfworks(cupti: str) -> bool:
    if Path(cupti).is_absolute():
        return any(Path(cupti).parent.glob("libnvperf_host.so*"))
    try:
        ctypes.CDLL("libnvperf_host.so")
    except OSError:
        return False
    return True


def _commands() -> list[str]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            found.append((_text(folder / "comm") or "").strip())
    return found


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return None
