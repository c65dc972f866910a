"""One GPU through NVML: what it says each second."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_uint, c_void_p

from pilotlight.agent.counters.gpm import Gpm
from pilotlight.agent.counters.nvml_library import (
    ALL_LINKS,
    GONE,
    NEVER,
    Error,
    FieldValue,
    Library,
    Memory,
    ProcessInfo,
    Utilization,
    error_text,
)
from pilotlight.agent.counters.rates import Rates
from pilotlight.agent.counters.source import Counter, Event
from pilotlight.recording.schema import BACK, LOST

_SM_CLOCK, _MEMORY_CLOCK = 1, 2
_PCIE_TX, _PCIE_RX = 0, 1
_KIB = 1024.0
_MOST_PROCESSES = 32
_LISTED_PROCESSES = 16
_MOST_INSTANCES = 8
# Calls that take milliseconds, or whose answer hardly changes: once in so many reads.
_SELDOM = 10
_ASK_AGAIN = 600
_NOT_AVAILABLE = (1 << 64) - 1

# Field ids of nvmlDeviceGetFieldValues: as they are, with the factor to the unit.
_LEVELS: dict[int, tuple[str, str, float]] = {
    3: ("ecc_corrected", "errors", 1),
    4: ("ecc_uncorrected", "errors", 1),
    38: ("nvlink_crc_errors", "errors", 1),
    52: ("nvlink_replays", "errors", 1),
    59: ("nvlink_recoveries", "errors", 1),
    82: ("memory_temperature", "°C", 1),
    94: ("pcie_replays", "errors", 1),
    142: ("rows_remapped_corrected", "rows", 1),
    143: ("rows_remapped_uncorrected", "rows", 1),
    144: ("row_remap_pending", "", 1),
    145: ("row_remap_failed", "", 1),
}
# Counts that grow: their rate. The policies count nanoseconds in which clocks were held down.
_GROWING: dict[int, tuple[str, str, float]] = {
    74: ("held_by_power", "%", 1e-7),
    75: ("held_by_temperature", "%", 1e-7),
    77: ("held_by_board", "%", 1e-7),
    79: ("held_by_reliability", "%", 1e-7),
    138: ("nvlink_tx", "B/s", _KIB),
    139: ("nvlink_rx", "B/s", _KIB),
    197: ("pcie_tx", "B/s", 1),
    198: ("pcie_rx", "B/s", 1),
}
_OF_ALL_LINKS = (138, 139)
FIELDS = (*_LEVELS, *_GROWING)

Values = dict[Counter, float]


class NvmlDevice:
    """`read` never raises for what a device can do: a lost GPU is an event, then silence with a
    growing pause."""

    def __init__(self, library: Library, index: int, handle: c_void_p) -> None:
        self.name = f"gpu{index}"
        self.handle = handle
        self.model = library.text("nvmlDeviceGetName", handle)
        self.uuid = library.text("nvmlDeviceGetUUID", handle)
        self.missing: dict[str, str] = {}
        self._library = library
        self._rates = Rates()
        self._fields = (FieldValue * len(FIELDS))()
        self._refused: dict[str, int] = {}
        self._read = 0
        self._lost_reads = self._skip = 0
        self._gpms = self._partitions(index)

    def read(self, time_ns: int) -> tuple[Values, list[Event]]:
        if self._skip > 0:
            self._skip -= 1
            return {}, []
        values: Values = {}
        try:
            self._read_all(values, time_ns)
        except _Lost as lost:
            return {}, self._gone(str(lost))
        events = []
        if self._lost_reads:
            events.append(Event(self.name, BACK, 0, "the GPU answers again"))
            self._lost_reads = 0
            del self.missing["gpu"]
        self._read += 1
        return values, events

    def close(self) -> None:
        for gpm in self._gpms:
            gpm.close()

    def _read_all(self, values: Values, time_ns: int) -> None:
        self._read_basics(values)
        self._read_fields(values, time_ns)
        if self._read % _SELDOM == 0:
            self._read_processes(values)
            if self._counter("pcie_tx", "B/s") not in values:
                self._read_pcie(values)
        for gpm in self._gpms:
            gpm.read(values)
            if gpm.problem:
                self.missing[f"gpm {gpm.device}"] = gpm.problem

    def _read_basics(self, values: Values) -> None:
        utilization, memory = Utilization(), Memory()
        if self._ask("utilization", "nvmlDeviceGetUtilizationRates", byref(utilization)):
            values[self._counter("utilization", "%")] = utilization.gpu
            values[self._counter("memory_utilization", "%")] = utilization.memory
        if self._ask("memory", "nvmlDeviceGetMemoryInfo", byref(memory)):
            values[self._counter("memory_used", "B")] = memory.used
            values[self._counter("memory_total", "B")] = memory.total
        for name, unit, factor, function, arguments in (
            ("sm_clock", "MHz", 1.0, "nvmlDeviceGetClockInfo", (_SM_CLOCK,)),
            ("memory_clock", "MHz", 1.0, "nvmlDeviceGetClockInfo", (_MEMORY_CLOCK,)),
            ("power", "W", 1e-3, "nvmlDeviceGetPowerUsage", ()),
            ("power_limit", "W", 1e-3, "nvmlDeviceGetEnforcedPowerLimit", ()),
            ("temperature", "°C", 1.0, "nvmlDeviceGetTemperature", (0,)),
        ):
            number = c_uint()
            if self._ask(name, function, *arguments, byref(number)):
                values[self._counter(name, unit)] = number.value * factor
        energy_mj, reasons = ctypes.c_ulonglong(), ctypes.c_ulonglong()
        if self._ask("energy", "nvmlDeviceGetTotalEnergyConsumption", byref(energy_mj)):
            values[self._counter("energy", "J")] = energy_mj.value * 1e-3
        name = "nvmlDeviceGetCurrentClocksEventReasons"
        if not self._library.has(name):  # its name before driver 535
            name = "nvmlDeviceGetCurrentClocksThrottleReasons"
        if self._ask("throttle_reasons", name, byref(reasons)):
            values[self._counter("throttle_reasons", "bits")] = reasons.value

    def _read_fields(self, values: Values, time_ns: int) -> None:
        for place, field in zip(self._fields, FIELDS, strict=True):
            place.field = field
            place.scope = ALL_LINKS if field in _OF_ALL_LINKS else 0
        count = len(FIELDS)
        if not self._ask("fields", "nvmlDeviceGetFieldValues", count, self._fields):
            return
        for place in self._fields:
            name, unit, factor = _LEVELS.get(place.field) or _GROWING[place.field]
            number = place.number
            if place.error or number is None:
                self.missing[name] = error_text(place.error) if place.error else "of unknown type"
                continue
            self.missing.pop(name, None)
            if place.field in _GROWING:
                number = self._rates.per_second(place.field, time_ns, number)
            if number is not None:
                values[self._counter(name, unit)] = number * factor

    def _read_pcie(self, values: Values) -> None:
        """For drivers that do not count bytes: each call watches the bus for 20 ms."""
        for name, which in (("pcie_tx", _PCIE_TX), ("pcie_rx", _PCIE_RX)):
            number = c_uint()
            if self._ask(name, "nvmlDeviceGetPcieThroughput", which, byref(number)):
                values[self._counter(name, "B/s")] = number.value * _KIB

    def _read_processes(self, values: Values) -> None:
        infos = (ProcessInfo * _MOST_PROCESSES)()
        count = c_uint(_MOST_PROCESSES)
        name = "nvmlDeviceGetComputeRunningProcesses_v3"
        if not self._library.has(name):
            name = "nvmlDeviceGetComputeRunningProcesses_v2"
        if not self._ask("processes", name, byref(count), infos, tolerated=Error.INSUFFICIENT_SIZE):
            return
        values[self._counter("processes", "")] = count.value
        found = sorted(infos[: min(count.value, _MOST_PROCESSES)], key=lambda one: -one.used_bytes)
        for one in found[:_LISTED_PROCESSES]:
            if one.used_bytes != _NOT_AVAILABLE:
                values[self._counter(f"memory_of_pid_{one.pid}", "B")] = one.used_bytes

    def _ask(
        self, what: str, function: str, *arguments: object, tolerated: int = Error.SUCCESS
    ) -> bool:
        """Whether the device answered. What it will never answer is not asked for each second."""
        again = self._refused.get(what)
        if again is not None and self._read < again:
            return False
        error = self._library.call(function, self.handle, *arguments)
        if error in GONE:
            raise _Lost(error_text(error))
        if error in (Error.SUCCESS, tolerated):
            self._refused.pop(what, None)
            self.missing.pop(what, None)
            return True
        self.missing[what] = error_text(error)
        if error in NEVER:
            self._refused[what] = self._read + _ASK_AGAIN
        return False

    def _gone(self, why: str) -> list[Event]:
        self._lost_reads += 1
        self._skip = min(2**self._lost_reads, 64) - 1
        self.missing["gpu"] = why
        if self._lost_reads > 1:
            return []
        return [Event(self.name, LOST, 0, f"the GPU does not answer: {why}")]

    def _counter(self, name: str, unit: str) -> Counter:
        return Counter(self.name, name, unit)

    def _partitions(self, index: int) -> list[Gpm]:
        """The whole device, or the instances it is cut into."""
        mode, pending = c_uint(), c_uint()
        error = self._library.call("nvmlDeviceGetMigMode", self.handle, byref(mode), byref(pending))
        if error or mode.value != 1:
            return [Gpm(self._library, self.name, self.handle, None)]
        _, most = self._library.number("nvmlDeviceGetMaxMigDeviceCount", self.handle)
        found: dict[int, Gpm] = {}
        for number in range(min(most, _MOST_INSTANCES)):
            error, instance = self._library.handle(
                "nvmlDeviceGetMigDeviceHandleByIndex", self.handle, number
            )
            if error:
                continue
            error, gpu_instance = self._library.number("nvmlDeviceGetGpuInstanceId", instance)
            if not error and gpu_instance not in found:
                name = f"gpu{index}/gi{gpu_instance}"
                found[gpu_instance] = Gpm(self._library, name, self.handle, gpu_instance)
        return list(found.values())


class _Lost(Exception):
    """The device is gone for now."""
