"""Where libcupti is looked for when the program has not loaded one itself."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.gpu.conftest import RunGpuJob

from pilotlight.probe.providers import library_folder

_WORK = "gpu = Gpu()\nfor _ in range(10): gpu.kernel('k', 1000)\ngpu.sync()\n"


@pytest.mark.parametrize(
    ("version", "cudart", "cupti"),
    [
        (28, "nvidia/cuda_runtime/lib/libcudart.so.12", "nvidia/cuda_cupti/lib/libcupti.so.12"),
        (130100, "nvidia/cu13/lib/libcudart.so.13", "nvidia/cu13/lib/libcupti.so.13"),
        (28, "conda/lib/libcudart.so.12.4.127", "conda/lib/libcupti.so.12"),
        (18, "cuda/lib64/libcudart.so.11.0", "cuda/extras/CUPTI/lib64/libcupti.so.11.8"),
    ],
    ids=["packages of CUDA 12", "packages of CUDA 13", "conda", "toolkit"],
)
def test_it_is_found_beside_the_runtime_that_the_program_has_loaded(
    gpu_job: RunGpuJob, simulator: Path, tmp_path: Path, version: int, cudart: str, cupti: str
) -> None:
    folder = simulator / f"cupti-{version}"
    runtime, library = tmp_path / cudart, tmp_path / cupti
    for path in (runtime, library):
        path.parent.mkdir(parents=True, exist_ok=True)
    # Any library: what counts is its name.
    shutil.copy(folder / "libnvperf_host.so", runtime)
    shutil.copy(folder / library.name, library)
    done = gpu_job(f"import ctypes\nctypes.CDLL({str(runtime)!r})\n" + _WORK, cupti=None)
    assert done.code == 0, done.err
    assert done.marks("gpu/taken") == [version]


def test_a_program_with_the_runtime_linked_in_gets_that_of_our_own_python(
    gpu_job: RunGpuJob, simulator: Path, tmp_path: Path
) -> None:
    """As Triton, Numba and many C++ programs do: no libcudart.so is loaded."""
    site = tmp_path / "site-packages"
    cupti = site / "nvidia" / "cu13" / "lib" / "libcupti.so.13"
    cupti.parent.mkdir(parents=True)
    shutil.copy(simulator / "cupti-130100" / cupti.name, cupti)
    shutil.copytree(library_folder(), site / "pilotlight", ignore=shutil.ignore_patterns("*.py"))
    ours = site / "pilotlight" / "libpilotlight_cuda.so"
    done = gpu_job(
        f"import os\nos.environ['CUDA_INJECTION64_PATH'] = {str(ours)!r}\n" + _WORK, cupti=None
    )
    assert done.code == 0, done.err
    assert done.marks("gpu/taken") == [130100]
