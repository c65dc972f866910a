"""NVIDIA GPUs, through NVML: all devices of the node and their events."""

from __future__ import annotations

import time
from ctypes import byref, c_void_p

from pilotlight.agent.counters.nvml_device import NvmlDevice
from pilotlight.agent.counters.nvml_library import (
    LIBRARY,
    Error,
    EventData,
    Library,
    error_text,
)
from pilotlight.agent.counters.source import (
    Counter,
    Event,
    Reading,
    SourceFailed,
    SourceMissing,
)
from pilotlight.agent.counters.xid import xid_text

_XID = 0x8
_EVENTS = {
    0x2: ("ecc_uncorrected", "uncorrectable memory error (double bit ECC)"),
    0x400: ("dram_retired", "memory was retired"),
    0x800: ("dram_retirement_failed", "memory could not be retired"),
    0x4000: ("unavailable", "the GPU is unavailable"),
}
_WAIT_MS = 1
_MOST_EVENTS = 64
_MOST_DEVICES = 64
_FIXES = {
    Error.DRIVER_NOT_LOADED: "load the driver as root: modprobe nvidia",
    Error.LIB_RM_VERSION_MISMATCH: "the library and the loaded driver differ: reboot, or as root "
    "unload and load the nvidia modules",
    Error.NO_PERMISSION: "give this user the files /dev/nvidia* (in a container: --gpus all)",
    Error.GPU_NOT_FOUND: "no GPU is visible: in a container start it with --gpus all",
}


class Nvml:
    name = "nvml"

    def __init__(self, path: str = LIBRARY) -> None:
        """SourceMissing: no library, no driver, no GPU."""
        self._library = Library(path)
        error = self._library.call("nvmlInit_v2")
        if error:
            raise SourceMissing(
                f"NVML does not start: {error_text(error)}",
                _FIXES.get(Error(error) if error in list(Error) else Error.UNKNOWN, ""),
            )
        self.driver = self._library.text("nvmlSystemGetDriverVersion")
        self.devices = self._find_devices()
        if not self.devices:
            self.close()
            raise SourceMissing("NVML sees no GPU", _FIXES[Error.GPU_NOT_FOUND])
        self._events, self._event_problem = self._register()

    def read(self) -> Reading:
        values: dict[Counter, float] = {}
        events: list[Event] = []
        missing: dict[str, str] = {}
        for device in self.devices:
            mine, happened = device.read(time.monotonic_ns())
            values.update(mine)
            events += happened
            missing.update({f"{device.name} {what}": why for what, why in device.missing.items()})
        events += self._wait()
        if self._event_problem:
            missing["events"] = self._event_problem
        if not values and all("gpu" in device.missing for device in self.devices):
            lost = ", ".join(device.name for device in self.devices)
            if not events:
                self.close()
                raise SourceFailed(f"no GPU answers: {lost}")
        models = {device.name: device.model for device in self.devices}
        return Reading(tuple(values.items()), tuple(events), missing, models)

    def describe(self) -> str:
        models = sorted({device.model for device in self.devices if device.model})
        return f"{len(self.devices)} x {', '.join(models) or 'GPU'}, driver {self.driver}"

    def close(self) -> None:
        for device in self.devices:
            device.close()
        self._library.call("nvmlShutdown")

    def _find_devices(self) -> list[NvmlDevice]:
        error, count = self._library.number("nvmlDeviceGetCount_v2")
        if error:
            raise SourceMissing(f"NVML does not count GPUs: {error_text(error)}")
        found = []
        for index in range(min(count, _MOST_DEVICES)):
            error, handle = self._library.handle("nvmlDeviceGetHandleByIndex_v2", index)
            if not error:
                found.append(NvmlDevice(self._library, index, handle))
        return found

    def _register(self) -> tuple[c_void_p | None, str]:
        error, events = self._library.handle("nvmlEventSetCreate")
        if error:
            return None, error_text(error)
        problem = ""
        for device in self.devices:
            error, known = self._library.long_number(
                "nvmlDeviceGetSupportedEventTypes", device.handle
            )
            wanted = known & (_XID | sum(_EVENTS))
            if not error and wanted:
                error = self._library.call(
                    "nvmlDeviceRegisterEvents", device.handle, wanted, events
                )
            if error or not wanted:
                problem = f"{device.name}: {error_text(error or Error.NOT_SUPPORTED)}"
        return events, problem

    def _wait(self) -> list[Event]:
        """What has happened since the last call; the driver keeps no time for it."""
        found: list[Event] = []
        if self._events is None:
            return found
        data = EventData()
        for _ in range(_MOST_EVENTS):
            error = self._library.call("nvmlEventSetWait_v2", self._events, byref(data), _WAIT_MS)
            if error:
                if error not in (Error.TIMEOUT, Error.GPU_IS_LOST):
                    self._event_problem = error_text(error)
                break
            found.append(self._event(data))
        return found

    def _event(self, data: EventData) -> Event:
        names = {device.handle.value: device.name for device in self.devices}
        device = names.get(data.device, "gpu?")
        if data.kind == _XID:
            return Event(device, "xid", int(data.data), xid_text(int(data.data)))
        name, text = _EVENTS.get(int(data.kind), (f"event_{data.kind:#x}", ""))
        return Event(device, name, int(data.data), text)


def open_nvml() -> Nvml:
    return Nvml()
