"""What an installed pilotlight costs `python -c pass`: nothing when off, a little when on.

Two environments without anything else, one with the package as a user installs it, take turns.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bars import at_most, report

from pilotlight import _probe

ROOT = Path(__file__).resolve().parent.parent


def environment(folder: Path) -> str:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return str(folder / "bin" / "python")


def install(folder: Path) -> None:
    """As the wheel lays it out: the package, its compiled part, and the start hook."""
    (site,) = (folder / "lib").glob("python*/site-packages")
    shutil.copytree(ROOT / "src" / "pilotlight", site / "pilotlight")
    shutil.copy(str(_probe.__file__), site / "pilotlight")
    shutil.copy(ROOT / "native" / "pilotlight.pth", site)


def cpu_ms(python: str, env: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([python, "-c", "pass"], env=env, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def rounds(repeats: int) -> list[tuple[float, float, float, float]]:
    """CPU milliseconds of a start: without it, without it again, with it off, with it on."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PILOTLIGHT", "PYTHON"))}
    with tempfile.TemporaryDirectory(prefix="pl-") as name:
        without = environment(Path(name, "without"))
        control = environment(Path(name, "control"))
        with_it = environment(Path(name, "with"))
        install(Path(name, "with"))
        on = {**kept, "PILOTLIGHT": "1", "PILOTLIGHT_RUNTIME_DIR": f"{name}/run"}
        for python, env in ((without, kept), (control, kept), (with_it, kept), (with_it, on)):
            cpu_ms(python, env)
        return [
            (
                cpu_ms(without, kept),
                cpu_ms(control, kept),
                cpu_ms(with_it, kept),
                cpu_ms(with_it, on),
            )
            for _ in range(repeats)
        ]


def added_ms(repeats: int) -> float:
    """What PILOTLIGHT=1 adds to a start where no framework is imported: the median."""
    return statistics.median(on - without for without, _, _, on in rounds(repeats))


def mean_and_error(values: list[float]) -> str:
    """With the half width of its 95 % interval."""
    half_width = 2 * statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.fmean(values):.2f} ± {half_width:.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=150)
    args = parser.parse_args()
    found = rounds(args.repeats)
    off_ms = [with_ms - without_ms for without_ms, _, with_ms, _ in found]
    control_ms = [control - without_ms for without_ms, control, _, _ in found]
    on_ms = [on - without_ms for without_ms, _, _, on in found]
    print(f"with PILOTLIGHT=1: {statistics.fmean(on_ms):.1f} ms of CPU time")
    print(f"off: {mean_and_error(off_ms)} ms; two that are alike: {mean_and_error(control_ms)} ms")
    # Noise: what the same measurement says of two environments that are alike, and its own spread.
    spread = statistics.stdev(off_ms) / len(off_ms) ** 0.5
    noise = abs(statistics.fmean(control_ms)) + 2 * spread
    off = at_most("ms of CPU time added when off; bar: noise", statistics.fmean(off_ms), noise)
    return report("startup", [off], as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
