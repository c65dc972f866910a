"""Brings the device libraries into a process that `pilotlight run` did not start."""

from __future__ import annotations

import os

_VARIABLE, _LIBRARY = "CUDA_INJECTION64_PATH", "libpilotlight_cuda.so"
_SUCCESS = 0


def bring(_: object = None) -> None:
    """When a framework has been imported: CUDA will load them, or has begun without."""
    if os.environ.get(_VARIABLE, "").endswith(_LIBRARY):
        return
    from pilotlight.probe.providers import library_folder, provider_environment

    folder = library_folder()
    if _cuda_works():
        # Too late for the driver to do it. An earlier injection has had its call already.
        _inject(str(folder / _LIBRARY))
    os.environ.update(provider_environment(os.environ, folder))


def _cuda_works() -> bool:
    """Whether this process has initialised CUDA; asks the driver, which does nothing for it."""
    import ctypes

    try:
        driver = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        count = driver.cuDeviceGetCount
    except (OSError, AttributeError):
        return False
    return bool(count(ctypes.byref(ctypes.c_int())) == _SUCCESS)


def _inject(library: str) -> None:
    import ctypes

    try:
        ctypes.CDLL(library).InitializeInjection()
    except (OSError, AttributeError):
        return
