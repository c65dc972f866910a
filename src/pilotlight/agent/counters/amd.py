"""AMD GPUs, through the amdsmi package that comes with ROCm."""

from __future__ import annotations

import ctypes
import importlib
import os
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from pilotlight.agent.counters.source import (
    Counter,
    Event,
    Reading,
    SourceFailed,
    SourceMissing,
)
from pilotlight.recording.schema import BACK, LOST

_LIBRARIES = ("libamd_smi.so", "/opt/rocm/lib/libamd_smi.so", "/opt/rocm/lib64/libamd_smi.so")
_MIB = float(1 << 20)
_MOST_DEVICES = 64
_LISTED_PROCESSES = 16
_SELDOM = 10
# What stands for "this chip has no such value": the text, or all bits of a number set.
_ABSENT = ("N/A", 0xFFFF, 0xFFFFFFFF)
_INSTALL = "install ROCm's amd-smi-lib and its Python package (pip install amdsmi)"

Pair = tuple[str, str, object]


class Amd:
    name = "amd"

    def __init__(self, amdsmi: ModuleType) -> None:
        """SourceMissing: no driver or no GPU."""
        self._smi: Any = amdsmi
        self._failed: type[Exception] = amdsmi.AmdSmiException
        try:
            self._smi.amdsmi_init()
            handles = self._smi.amdsmi_get_processor_handles()
        except self._failed as error:
            raise SourceMissing(
                f"amdsmi does not start: {_one_line(error)}",
                "load the driver as root: modprobe amdgpu; give this user /dev/kfd and /dev/dri "
                "(groups render and video)",
            ) from None
        if not handles:
            raise SourceMissing("amdsmi sees no GPU", "give this user /dev/kfd and /dev/dri")
        self._devices = list(enumerate(handles[:_MOST_DEVICES]))
        self._lost: set[int] = set()
        self._read = 0

    def read(self) -> Reading:
        values: dict[Counter, float] = {}
        events: list[Event] = []
        missing: dict[str, str] = {}
        for index, handle in self._devices:
            device = f"gpu{index}"
            before = len(values)
            for what, ask in self._questions():
                try:
                    for name, unit, value in ask(handle):
                        if isinstance(value, (int, float)) and value not in _ABSENT:
                            values[Counter(device, name, unit)] = float(value)
                except self._failed as error:
                    missing[f"{device} {what}"] = _one_line(error)
                except (KeyError, TypeError, AttributeError) as error:
                    missing[f"{device} {what}"] = f"another version of amdsmi: {error!r:.100}"
            events += self._noticed(index, device, len(values) > before)
        self._read += 1
        if not values and not events:
            raise SourceFailed("no GPU answers: " + "; ".join(sorted(missing.values())[:3]))
        return Reading(tuple(values.items()), tuple(events), missing)

    def describe(self) -> str:
        return f"{len(self._devices)} AMD GPUs through amdsmi"

    def _noticed(self, index: int, device: str, answers: bool) -> Iterator[Event]:
        if answers and index in self._lost:
            self._lost.discard(index)
            yield Event(device, BACK, 0, "the GPU answers again")
        elif not answers and index not in self._lost:
            self._lost.add(index)
            yield Event(device, LOST, 0, "the GPU does not answer")

    def _questions(self) -> list[tuple[str, Callable[[Any], Iterator[Pair]]]]:
        often: list[tuple[str, Callable[[Any], Iterator[Pair]]]] = [
            ("activity", self._activity),
            ("power", self._power),
            ("clocks", self._clocks),
            ("temperature", self._temperature),
            ("memory", self._memory),
            ("energy", self._energy),
        ]
        if self._read % _SELDOM == 0:
            often += [("ecc", self._ecc), ("pcie", self._pcie), ("processes", self._processes)]
        return often

    def _activity(self, handle: Any) -> Iterator[Pair]:
        found = self._smi.amdsmi_get_gpu_activity(handle)
        yield "utilization", "%", found["gfx_activity"]
        yield "memory_utilization", "%", found["umc_activity"]

    def _power(self, handle: Any) -> Iterator[Pair]:
        found = self._smi.amdsmi_get_power_info(handle)
        # Newer chips have the one, older ones the other. The limit is not read: versions of amdsmi
        # differ in its unit.
        for key in ("current_socket_power", "average_socket_power"):
            if found[key] not in _ABSENT:
                yield "power", "W", found[key]
                return

    def _clocks(self, handle: Any) -> Iterator[Pair]:
        kinds = self._smi.AmdSmiClkType
        yield "sm_clock", "MHz", self._smi.amdsmi_get_clock_info(handle, kinds.GFX)["clk"]
        yield "memory_clock", "MHz", self._smi.amdsmi_get_clock_info(handle, kinds.MEM)["clk"]

    def _temperature(self, handle: Any) -> Iterator[Pair]:
        smi = self._smi
        now = smi.AmdSmiTemperatureMetric.CURRENT
        kinds = smi.AmdSmiTemperatureType
        yield "temperature", "°C", smi.amdsmi_get_temp_metric(handle, kinds.HOTSPOT, now)
        yield "memory_temperature", "°C", smi.amdsmi_get_temp_metric(handle, kinds.VRAM, now)

    def _memory(self, handle: Any) -> Iterator[Pair]:
        found = self._smi.amdsmi_get_gpu_vram_usage(handle)
        yield "memory_used", "B", _scaled(found["vram_used"], _MIB)
        yield "memory_total", "B", _scaled(found["vram_total"], _MIB)

    def _energy(self, handle: Any) -> Iterator[Pair]:
        found = self._smi.amdsmi_get_energy_count(handle)
        microjoules = found["energy_accumulator"] * found["counter_resolution"]
        yield "energy", "J", microjoules * 1e-6

    def _ecc(self, handle: Any) -> Iterator[Pair]:
        found = self._smi.amdsmi_get_gpu_total_ecc_count(handle)
        yield "ecc_corrected", "errors", found["correctable_count"]
        yield "ecc_uncorrected", "errors", found["uncorrectable_count"]

    def _pcie(self, handle: Any) -> Iterator[Pair]:
        found = self._smi.amdsmi_get_pcie_info(handle)["pcie_metric"]
        yield "pcie_replays", "errors", found["pcie_replay_count"]

    def _processes(self, handle: Any) -> Iterator[Pair]:
        found = self._smi.amdsmi_get_gpu_process_list(handle)
        yield "processes", "", len(found)
        for one in sorted(found, key=lambda one: -int(one["mem"]))[:_LISTED_PROCESSES]:
            yield f"memory_of_pid_{one['pid']}", "B", one["mem"]


def open_amd() -> Amd:
    """SourceMissing where the library or its package is not installed."""
    if not any(_loads(path) for path in _LIBRARIES):
        # Without it the package prints to standard output when it is imported.
        raise SourceMissing("libamd_smi.so is not installed", _INSTALL)
    try:
        module = importlib.import_module("amdsmi")
    except ImportError:
        raise SourceMissing("the Python package amdsmi is not installed", _INSTALL) from None
    return Amd(module)


def _loads(path: str) -> bool:
    if path.startswith("/") and not os.access(path, os.R_OK):
        return False
    try:
        ctypes.CDLL(path)
    except OSError:
        return False
    return True


def _scaled(value: object, factor: float) -> object:
    return value * factor if isinstance(value, (int, float)) else value


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
