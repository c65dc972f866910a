"""libnvidia-ml by ctypes: structs, functions and errors. Each function may be absent in an older
driver; a call then answers FUNCTION_NOT_FOUND, as the library itself would say."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, Union, byref, c_double, c_int, c_uint, c_ulonglong, c_void_p
from enum import IntEnum

from pilotlight.agent.counters.source import SourceMissing

LIBRARY = "libnvidia-ml.so.1"
TEXT_BYTES = 96
ALL_LINKS = 0xFFFFFFFF
MOST_METRICS = 512


class Error(IntEnum):
    SUCCESS = 0
    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    NOT_FOUND = 6
    INSUFFICIENT_SIZE = 7
    DRIVER_NOT_LOADED = 9
    TIMEOUT = 10
    IRQ_ISSUE = 11
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    OPERATING_SYSTEM = 17
    LIB_RM_VERSION_MISMATCH = 18
    MEMORY = 20
    NO_DATA = 21
    ARGUMENT_VERSION_MISMATCH = 25
    NOT_READY = 27
    GPU_NOT_FOUND = 28
    UNKNOWN = 999


NEVER = frozenset((Error.NOT_SUPPORTED, Error.FUNCTION_NOT_FOUND, Error.NO_PERMISSION))
"""Answers that will not change from one second to the next."""
GONE = frozenset((Error.GPU_IS_LOST, Error.RESET_REQUIRED, Error.UNINITIALIZED))


def error_text(code: int) -> str:
    """`not supported`, `gpu is lost`, or the number of an error of a later version."""
    try:
        return Error(code).name.lower().replace("_", " ")
    except ValueError:
        return f"NVML error {code}"


class Utilization(Structure):
    _fields_ = (("gpu", c_uint), ("memory", c_uint))


class Memory(Structure):
    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class Value(Union):
    _fields_ = (
        ("double", c_double),
        ("int", c_int),
        ("uint", c_uint),
        ("ulong", ctypes.c_ulong),
        ("ulonglong", c_ulonglong),
        ("longlong", ctypes.c_longlong),
        ("ushort", ctypes.c_ushort),
    )


_VALUE_TYPES = ("double", "uint", "ulong", "ulonglong", "longlong", "int", "ushort")


class FieldValue(Structure):
    _fields_ = (
        ("field", c_uint),
        ("scope", c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency_us", ctypes.c_longlong),
        ("value_type", c_uint),
        ("error", c_uint),
        ("value", Value),
    )

    @property
    def number(self) -> float | None:
        """None for a type that this version does not know."""
        if self.value_type >= len(_VALUE_TYPES):
            return None
        return float(getattr(self.value, _VALUE_TYPES[self.value_type]))


class ProcessInfo(Structure):
    """Of nvmlDeviceGetComputeRunningProcesses_v3 (and _v2, which has the same layout)."""

    _fields_ = (
        ("pid", c_uint),
        ("used_bytes", c_ulonglong),
        ("gpu_instance", c_uint),
        ("compute_instance", c_uint),
    )


class EventData(Structure):
    _fields_ = (
        ("device", c_void_p),
        ("kind", c_ulonglong),
        ("data", c_ulonglong),
        ("gpu_instance", c_uint),
        ("compute_instance", c_uint),
    )


class GpmSupport(Structure):
    _fields_ = (("version", c_uint), ("is_supported", c_uint))


class GpmMetric(Structure):
    _fields_ = (
        ("metric", c_uint),
        ("error", c_uint),
        ("value", c_double),
        ("short_name", c_void_p),
        ("long_name", c_void_p),
        ("unit", c_void_p),
    )


class GpmMetricsGet(Structure):
    """The library's own struct has room for as many metrics as its version knows (98 to 477): only
    `count` of them are used, and this has room for more than any."""

    _fields_ = (
        ("version", c_uint),
        ("count", c_uint),
        ("sample1", c_void_p),
        ("sample2", c_void_p),
        ("metrics", GpmMetric * MOST_METRICS),
    )


_DEVICE = c_void_p
_TEXT = ctypes.c_char_p
_SIGNATURES: dict[str, tuple[object, ...]] = {
    "nvmlInit_v2": (),
    "nvmlShutdown": (),
    "nvmlSystemGetDriverVersion": (_TEXT, c_uint),
    "nvmlDeviceGetCount_v2": (POINTER(c_uint),),
    "nvmlDeviceGetHandleByIndex_v2": (c_uint, POINTER(_DEVICE)),
    "nvmlDeviceGetName": (_DEVICE, _TEXT, c_uint),
    "nvmlDeviceGetUUID": (_DEVICE, _TEXT, c_uint),
    "nvmlDeviceGetUtilizationRates": (_DEVICE, POINTER(Utilization)),
    "nvmlDeviceGetClockInfo": (_DEVICE, c_uint, POINTER(c_uint)),
    "nvmlDeviceGetCurrentClocksEventReasons": (_DEVICE, POINTER(c_ulonglong)),
    "nvmlDeviceGetCurrentClocksThrottleReasons": (_DEVICE, POINTER(c_ulonglong)),
    "nvmlDeviceGetPowerUsage": (_DEVICE, POINTER(c_uint)),
    "nvmlDeviceGetEnforcedPowerLimit": (_DEVICE, POINTER(c_uint)),
    "nvmlDeviceGetTotalEnergyConsumption": (_DEVICE, POINTER(c_ulonglong)),
    "nvmlDeviceGetTemperature": (_DEVICE, c_uint, POINTER(c_uint)),
    "nvmlDeviceGetMemoryInfo": (_DEVICE, POINTER(Memory)),
    "nvmlDeviceGetFieldValues": (_DEVICE, c_int, POINTER(FieldValue)),
    "nvmlDeviceGetPcieThroughput": (_DEVICE, c_uint, POINTER(c_uint)),
    "nvmlDeviceGetComputeRunningProcesses_v3": (_DEVICE, POINTER(c_uint), POINTER(ProcessInfo)),
    "nvmlDeviceGetComputeRunningProcesses_v2": (_DEVICE, POINTER(c_uint), POINTER(ProcessInfo)),
    "nvmlDeviceGetMigMode": (_DEVICE, POINTER(c_uint), POINTER(c_uint)),
    "nvmlDeviceGetMaxMigDeviceCount": (_DEVICE, POINTER(c_uint)),
    "nvmlDeviceGetMigDeviceHandleByIndex": (_DEVICE, c_uint, POINTER(_DEVICE)),
    "nvmlDeviceGetGpuInstanceId": (_DEVICE, POINTER(c_uint)),
    "nvmlEventSetCreate": (POINTER(c_void_p),),
    "nvmlEventSetFree": (c_void_p,),
    "nvmlDeviceGetSupportedEventTypes": (_DEVICE, POINTER(c_ulonglong)),
    "nvmlDeviceRegisterEvents": (_DEVICE, c_ulonglong, c_void_p),
    "nvmlEventSetWait_v2": (c_void_p, POINTER(EventData), c_uint),
    "nvmlGpmQueryDeviceSupport": (_DEVICE, POINTER(GpmSupport)),
    "nvmlGpmSampleAlloc": (POINTER(c_void_p),),
    "nvmlGpmSampleFree": (c_void_p,),
    "nvmlGpmSampleGet": (_DEVICE, c_void_p),
    "nvmlGpmMigSampleGet": (_DEVICE, c_uint, c_void_p),
    "nvmlGpmMetricsGet": (POINTER(GpmMetricsGet),),
}


class Library:
    """The loaded library. Every call lets go of the interpreter while it lasts."""

    def __init__(self, path: str = LIBRARY) -> None:
        """SourceMissing: it is not installed, or cannot be loaded."""
        try:
            self._library = ctypes.CDLL(path)
        except OSError as error:
            raise SourceMissing(
                f"{path} cannot be loaded: {error}",
                "install the NVIDIA driver; in a container start it with --gpus all "
                "(NVIDIA_DRIVER_CAPABILITIES must include utility)",
            ) from None
        self._functions = {name: self._find(name) for name in _SIGNATURES}

    def has(self, name: str) -> bool:
        return self._functions[name] is not None

    def call(self, name: str, *arguments: object) -> int:
        """The library's answer: 0 or an error."""
        function = self._functions[name]
        if function is None:
            return Error.FUNCTION_NOT_FOUND
        return int(function(*arguments))

    def text(self, name: str, *arguments: object) -> str:
        """Of a function that fills a text; empty where it fails."""
        buffer = ctypes.create_string_buffer(TEXT_BYTES)
        error = self.call(name, *arguments, buffer, TEXT_BYTES)
        return "" if error else buffer.value.decode(errors="replace")

    def number(self, name: str, *arguments: object) -> tuple[int, int]:
        """Of a function whose last argument points to an unsigned int: error and value."""
        value = c_uint()
        return self.call(name, *arguments, byref(value)), value.value

    def long_number(self, name: str, *arguments: object) -> tuple[int, int]:
        """The same for an unsigned long long."""
        value = c_ulonglong()
        return self.call(name, *arguments, byref(value)), value.value

    def handle(self, name: str, *arguments: object) -> tuple[int, c_void_p]:
        value = c_void_p()
        return self.call(name, *arguments, byref(value)), value

    def _find(self, name: str) -> ctypes._NamedFuncPointer | None:
        function = getattr(self._library, name, None)
        if function is None:
            return None
        found: ctypes._NamedFuncPointer = function
        found.argtypes = list(_SIGNATURES[name])  # type: ignore[arg-type]
        found.restype = c_int
        return found
