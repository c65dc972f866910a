"""GPM: what the units of a GPU did between two samples (Hopper and later), also for one instance
of a partitioned GPU."""

from __future__ import annotations

from ctypes import byref, c_void_p

from pilotlight.agent.counters.nvml_library import (
    NEVER,
    Error,
    GpmMetricsGet,
    GpmSupport,
    Library,
    error_text,
)
from pilotlight.agent.counters.source import Counter

_MIB = float(1 << 20)
_METRICS: dict[int, tuple[str, str, float]] = {
    1: ("graphics_active", "%", 1),
    2: ("sm_active", "%", 1),
    3: ("sm_occupancy", "%", 1),
    4: ("integer_active", "%", 1),
    5: ("tensor_active", "%", 1),
    6: ("tensor_dfma_active", "%", 1),
    7: ("tensor_hmma_active", "%", 1),
    8: ("tensor_dmma_active", "%", 1),
    9: ("tensor_imma_active", "%", 1),
    10: ("dram_active", "%", 1),
    11: ("fp64_active", "%", 1),
    12: ("fp32_active", "%", 1),
    13: ("fp16_active", "%", 1),
    20: ("pcie_tx", "B/s", _MIB),
    21: ("pcie_rx", "B/s", _MIB),
    60: ("nvlink_rx", "B/s", _MIB),
    61: ("nvlink_tx", "B/s", _MIB),
}
_VERSION = 1


class Gpm:
    """`problem` says why nothing is read, empty while it works."""

    def __init__(
        self, library: Library, device: str, handle: c_void_p, gpu_instance: int | None
    ) -> None:
        self.device = device
        self.problem = ""
        self._library = library
        self._handle = handle
        self._gpu_instance = gpu_instance
        self._samples: list[c_void_p] = []
        self._has_first = False
        self._request = GpmMetricsGet(version=_VERSION, count=len(_METRICS))
        support = GpmSupport(version=_VERSION)
        error = library.call("nvmlGpmQueryDeviceSupport", handle, byref(support))
        if error or not support.is_supported:
            self.problem = error_text(error or Error.NOT_SUPPORTED)
            return
        for _ in range(2):
            error, sample = library.handle("nvmlGpmSampleAlloc")
            if error:
                self.problem = error_text(error)
                self.close()
                return
            self._samples.append(sample)

    def read(self, values: dict[Counter, float]) -> None:
        """Adds what happened since the last call; what others have measured already stays."""
        if not self._samples:
            return
        error = self._sample(self._samples[1])
        if error:
            self.problem = error_text(error)
            self._has_first = False
            if error in NEVER:
                self.close()
            return
        if self._has_first:
            self._compute(values)
        self._has_first = True
        self._samples.reverse()

    def close(self) -> None:
        for sample in self._samples:
            self._library.call("nvmlGpmSampleFree", sample)
        self._samples = []

    def _sample(self, sample: c_void_p) -> int:
        if self._gpu_instance is None:
            return self._library.call("nvmlGpmSampleGet", self._handle, sample)
        arguments = (self._handle, self._gpu_instance, sample)
        return self._library.call("nvmlGpmMigSampleGet", *arguments)

    def _compute(self, values: dict[Counter, float]) -> None:
        request = self._request
        request.sample1, request.sample2 = self._samples[0], self._samples[1]
        for place, metric in zip(request.metrics, _METRICS, strict=False):
            place.metric = metric
        error = self._library.call("nvmlGpmMetricsGet", byref(request))
        self.problem = error_text(error) if error else ""
        if error:
            return
        for place in request.metrics[: len(_METRICS)]:
            name, unit, factor = _METRICS[place.metric]
            if place.error == Error.SUCCESS:
                values.setdefault(Counter(self.device, name, unit), place.value * factor)
