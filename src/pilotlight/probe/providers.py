"""Which variables bring our device libraries into a job's processes (docs/providers.md)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

# A variable that names one library only, and our library for it.
PROVIDERS = (
    ("CUDA_INJECTION64_PATH", "libpilotlight_cuda.so"),
    ("NVTX_INJECTION64_PATH", "libpilotlight_nvtx.so"),
)
# The same, but one that the user has chosen stays alone: NCCL could not have both.
PLUGINS = (("NCCL_PROFILER_PLUGIN", "libnccl-profiler-pilotlight.so"),)
# A variable that names several.
LAYERS = (("OPENCL_LAYERS", "libpilotlight_opencl.so"),)
CHAIN = "PILOTLIGHT_CHAIN_"


def library_folder() -> Path:
    """Where the built libraries lie: beside the probe's own."""
    from pilotlight import _probe

    return Path(_probe.__file__).parent


def provider_environment(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """What to add, so that each library that is there is loaded and an earlier one still is."""
    added: dict[str, str] = {}
    for variable, name in PROVIDERS:
        library = folder / name
        if not library.exists():
            continue
        earlier = environment.get(variable, "")
        added[variable] = str(library)
        # A run inside a run finds our own library there.
        if earlier and Path(earlier).name != name:
            added[CHAIN + variable] = earlier
    for variable, name in PLUGINS:
        if (folder / name).exists() and not environment.get(variable):
            added[variable] = str(folder / name)
    for variable, name in LAYERS:
        others = [path for path in environment.get(variable, "").split(":") if path]
        if (folder / name).exists():
            kept = [path for path in others if Path(path).name != name]
            added[variable] = ":".join([*kept, str(folder / name)])
    return added
