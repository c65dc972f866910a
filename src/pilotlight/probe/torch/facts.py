"""What one would ask first about a job: versions, precision settings, environment."""

from __future__ import annotations

import os

from pilotlight.probe.adapters import each_second, number_rank, tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pilotlight.probe.adapter import Adapter

PREFIXES = ("NCCL_", "TORCH_", "PYTORCH_", "CUDA_", "OMP_", "MKL_", "KMP_", "GLOO_", "FI_")
_SECRET = ("TOKEN", "SECRET", "KEY", "PASSWORD")
_MOST, _LONGEST = 32, 80


def install(adapter: Adapter, torch: Any) -> None:
    version = torch.version
    adapter.facts["version"] = str(torch.__version__)
    for name in ("cuda", "hip"):
        if getattr(version, name, None):
            adapter.facts[name] = str(getattr(version, name))
    adapter.facts["environment"] = environment(dict(os.environ))
    # Settings are made after the import: they are looked at when the job steps.
    known: dict[str, object] = {}

    def look() -> None:
        found = settings(torch)
        if "world_size" in found:
            number_rank(torch.distributed.get_rank(), torch.distributed.get_world_size())
        if found != known:
            known.update(found)
            adapter.facts.update(found)
            tell()

    each_second(adapter, look)


def environment(variables: dict[str, str]) -> list[str]:
    """Variables that change how torch and its libraries run, bounded; no secrets, none of ours."""
    chosen = [
        f"{name}={value[:_LONGEST]}"
        for name, value in sorted(variables.items())
        if name.startswith(PREFIXES)
        and not any(word in name for word in _SECRET)
        and "pilotlight" not in value
    ]
    return chosen[:_MOST]


def settings(torch: Any) -> dict[str, object]:
    found: dict[str, object] = {
        "matmul_precision": torch.get_float32_matmul_precision(),
        "threads": torch.get_num_threads(),
        "autocast_cpu": torch.is_autocast_enabled("cpu"),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }
    if getattr(torch.version, "cuda", None) or getattr(torch.version, "hip", None):
        found["tf32_matmul"] = torch.backends.cuda.matmul.allow_tf32
        found["tf32_cudnn"] = torch.backends.cudnn.allow_tf32
        found["cudnn_benchmark"] = torch.backends.cudnn.benchmark
        found["autocast_cuda"] = torch.is_autocast_enabled("cuda")
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        found["backend"] = torch.distributed.get_backend()
        found["world_size"] = torch.distributed.get_world_size()
    return found
