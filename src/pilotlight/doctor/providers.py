"""Kernels, ranges and collectives: which libraries bring them into a job's processes here."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pilotlight.doctor.check import Check, limited, ok
from pilotlight.doctor.cupti import NO_ANSWER, NO_DEVICE, Answer, ask, refusal
from pilotlight.doctor.devices import has_gpu_of
from pilotlight.permission import INSTALL_CUPTI, find_cuptis, in_packages, loadable
from pilotlight.probe.providers import library_folder

_NVIDIA = "0x10de"
# As NCCL says its own version, since 2.9: 10000 a major, 100 a minor.
_FIRST_PLUGIN, _FIRST_KERNELS, _DEAR_KERNELS = 22304, 22803, 23100


def provider_checks(environment: Mapping[str, str] = os.environ) -> list[Check]:
    has_gpu = Path("/dev/nvidiactl").exists() or has_gpu_of(_NVIDIA)
    return [
        kernels(has_gpu, loadable("libcuda.so.1"), find_cuptis(), environment, ask),
        ranges(environment),
        collectives(nccl_version(), environment),
        opencl(loadable("libOpenCL.so.1"), environment),
    ]


def kernels(
    has_gpu: bool,
    has_driver: bool,
    cuptis: Sequence[str],
    environment: Mapping[str, str],
    ask: Callable[[Sequence[str]], Answer | None],
) -> Check:
    what = "GPU kernels and copies"
    if not has_gpu and not has_driver:
        return ok(what, "no NVIDIA GPU here")
    if not has_driver:
        return limited(
            what,
            "libcuda.so.1 cannot be loaded",
            "install the NVIDIA driver; in a container start it with --gpus all",
        )
    if not cuptis:
        return limited(
            what,
            "the driver is there, libcupti is not",
            f"in the job's Python: {INSTALL_CUPTI}; "
            "or put the CUDA toolkit's extras/CUPTI/lib64 into LD_LIBRARY_PATH",
        )
    answer = ask(cuptis)
    if answer is None:
        return limited(what, *NO_ANSWER)
    if not has_gpu and answer.init == NO_DEVICE:
        return ok(what, "no NVIDIA GPU here")
    refused = refusal(answer, environment)
    if refused is not None:
        return limited(what, *refused)
    missing = _lost_earlier(environment, "CUDA_INJECTION64_PATH")
    if missing:
        return limited(what, *missing)
    earlier = environment.get("CUDA_INJECTION64_PATH")
    chained = f"; {earlier} is loaded too" if earlier else ""
    gpus = f"{answer.devices} GPU{'s' if answer.devices != 1 else ''}"
    detail = f"{gpus}, driver for CUDA {answer.cuda}; recorded through {answer.cupti}{chained}"
    return ok(what, detail)


def ranges(environment: Mapping[str, str]) -> Check:
    if not (library_folder() / "libpilotlight_nvtx.so").exists():
        return limited("NVTX ranges", "our library was not built", "reinstall pilotlight")
    earlier = environment.get("NVTX_INJECTION64_PATH")
    if earlier and Path(earlier).name.startswith("libcupti.so"):
        return limited(
            "NVTX ranges",
            f"recorded; but NVTX_INJECTION64_PATH is {earlier}, as some images set it: CUPTI may"
            " then be taken before we, or PyTorch's profiler, can have it",
            "unset NVTX_INJECTION64_PATH",
        )
    missing = _lost_earlier(environment, "NVTX_INJECTION64_PATH")
    if missing:
        return limited("NVTX ranges", *missing)
    return ok("NVTX ranges", f"recorded{f'; {earlier} is loaded too' if earlier else ''}")


def _lost_earlier(environment: Mapping[str, str], variable: str) -> tuple[str, str] | None:
    """A tool that the user wants, and that a job would not get without us either."""
    earlier = environment.get(variable, "")
    if "/" not in earlier or Path(earlier).is_file():
        return None  # the loader looks for a bare name
    return f"recorded; but {variable} is {earlier}, which is not there", f"unset {variable}"


def collectives(version: int | None, environment: Mapping[str, str]) -> Check:
    what = "NCCL collectives"
    chosen = environment.get("NCCL_PROFILER_PLUGIN")
    if chosen:
        return limited(
            what,
            f"NCCL_PROFILER_PLUGIN is {chosen}, and NCCL can have one plugin only",
            "unset NCCL_PROFILER_PLUGIN to record collectives",
        )
    if version is None:
        return ok(what, "no NCCL in this environment; one that a job brings is recorded")
    shown = f"NCCL {version // 10000}.{version // 100 % 100}.{version % 100}"
    if version < _FIRST_PLUGIN:
        return limited(
            what, f"{shown} has no interface for profilers", "NCCL 2.23.4 or later (PyTorch 2.6)"
        )
    enqueued = f"{shown}: recorded as they are enqueued"
    if version < _FIRST_KERNELS:
        return limited(what, enqueued, "NCCL 2.28.3 or later adds GPU times on demand")
    if version >= _DEAR_KERNELS:
        return limited(
            what,
            f"{enqueued}, because kernel times cost much in it",
            "PILOTLIGHT_NCCL_KERNELS=1 records GPU times all the same",
        )
    return ok(what, f"{enqueued}; GPU times on demand (pilotlight capture JOB --gpu nodes)")


def opencl(has_loader: bool, environment: Mapping[str, str]) -> Check:
    if not has_loader:
        return ok("OpenCL", "no OpenCL loader here; one that a package brings is used")
    others = environment.get("OPENCL_LAYERS")
    return ok("OpenCL", f"recorded by a layer{f', after {others}' if others else ''}")


def nccl_version() -> int | None:
    """Of the NCCL that PyTorch or JAX would load here."""
    for path in ("libnccl.so.2", *in_packages("nccl/lib/libnccl.so.2")):
        try:
            library = ctypes.CDLL(path)
            version = ctypes.c_int()
            if library.ncclGetVersion(ctypes.byref(version)) == 0:
                return version.value
        except (OSError, AttributeError):
            continue
    return None
