"""What ranges through NVTX, collectives through NCCL's plugin and the counters of the node cost."""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bars import Bar, at_most, report

ROOT = Path(__file__).parents[1]
SIMULATED = ROOT / "native" / "tests"
REPEATS = 5
PUSHES = 10_000

_NVTX = "NVTX range, ns added to its thread (Python push and pop); as one launch callback"

LOOP = f"""
import time, nvtx
domain = nvtx.get_domain("bench")
attributes = domain.get_event_attributes(message="range")
push, pop = domain.push_range, domain.pop_range
spent = []
for _ in range(20):
    began = time.thread_time_ns()
    for _ in range({PUSHES}):
        push(attributes); pop()
    spent.append(time.thread_time_ns() - began)
    time.sleep(0.02)  # a burst that the ring holds, then time to read it
print(sorted(spent)[10] / {PUSHES})
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bars = [*nvtx_bars(Path(folder)), *nccl_bars(Path(folder)), *counter_bars(Path(folder))]
    return report("devices", bars, as_json=args.json)


def nvtx_bars(folder: Path) -> list[Bar]:
    """Pairs of push and pop from Python, with and without the injection library, interleaved."""
    try:
        import nvtx  # noqa: F401
    except ImportError:
        return [at_most(_NVTX, None, 150)]
    run = [sys.executable, "-m", "pilotlight", "run", "-q", "--"]
    loop = [sys.executable, "-c", LOOP]
    pairs = [(_printed(loop, folder), _printed([*run, *loop], folder)) for _ in range(REPEATS)]
    plain_ns, recorded_ns = (statistics.median(side) for side in zip(*pairs, strict=True))
    print(f"NVTX push and pop from Python: {plain_ns:.0f} ns, recorded {recorded_ns:.0f} ns")
    added_ns = statistics.median(recorded - plain for plain, recorded in pairs)
    return [at_most(_NVTX, added_ns, 150)]


def nccl_bars(folder: Path) -> list[Bar]:
    """Coll start and stop of interface v6, on the thread that enqueues; kernel events off."""
    from pilotlight import _probe

    what = "NCCL collective, ns on the enqueuing thread"
    if shutil.which("c++") is None:
        return [at_most(what, None, 1000)]
    driver = folder / "driver"
    source = SIMULATED / "nccl" / "driver.cpp"
    flags = ["-std=c++17", "-O2", f"-I{ROOT / 'native'}", "-rdynamic", "-ldl", "-lpthread"]
    subprocess.run(["c++", str(source), "-o", str(driver), *flags], check=True)
    plugin = str(Path(_probe.__file__).parent / "libnccl-profiler-pilotlight.so")
    command = [sys.executable, "-m", "pilotlight", "run", "-q", "--", str(driver), plugin, "6"]
    os.environ["SIM_NCCL_VERSION"] = "23102"
    found = [_printed([*command, "many"], folder) for _ in range(REPEATS)]
    return [at_most(what, min(found), 1000)]


def counter_bars(folder: Path) -> list[Bar]:
    """CPU time of one reading: the host here, eight GPUs of a simulated NVML."""
    from pilotlight.agent.counters.host import Host

    bars = [at_most("counters of the host, ms of CPU a second", _reading_ms(Host()), 5)]
    what = "counters of 8 GPUs, ms of CPU a second (simulated NVML)"
    library = _simulated_nvml(folder)
    if library is None:
        return [*bars, at_most(what, None, 10)]
    from pilotlight.agent.counters.nvml import Nvml

    orders = folder / "orders"
    orders.write_text("devices 8\n")
    os.environ["PILOTLIGHT_SIM_NVML"] = str(orders)
    return [*bars, at_most(what, _reading_ms(Nvml(str(library))), 10)]


def _reading_ms(source: object) -> float:
    spent = []
    source.read()  # type: ignore[attr-defined]
    for _ in range(10):
        time.sleep(0.15)
        began = time.thread_time_ns()
        source.read()  # type: ignore[attr-defined]
        spent.append((time.thread_time_ns() - began) / 1e6)
    return sorted(spent)[len(spent) // 2]


def _simulated_nvml(folder: Path) -> Path | None:
    import importlib.util

    spec = importlib.util.find_spec("nvidia")
    places = (spec.submodule_search_locations or []) if spec else []
    headers = [header.parent for place in places for header in Path(place).glob("*/include/nvml.h")]
    if not headers or shutil.which("cc") is None:
        return None
    made = folder / "libnvidia-ml.so.1"
    source = SIMULATED / "gpu_sim" / "nvml.c"
    flags = ["-O2", "-shared", "-fPIC", f"-I{headers[0]}", "-lpthread"]
    subprocess.run(["cc", str(source), "-o", str(made), *flags], check=True)
    return made


def _printed(command: list[str], folder: Path) -> float:
    """The last number that a command prints, in a world of its own."""
    own = {"PILOTLIGHT_RUNTIME_DIR": str(folder / "run"), "PILOTLIGHT_DATA_DIR": str(folder / "d")}
    environment = {**os.environ, **own}
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(said.stdout.split()[0])


if __name__ == "__main__":
    sys.exit(main())
