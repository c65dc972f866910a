"""Python's side: the compiled parts, and whether PILOTLIGHT=1 reaches the Pythons in use."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from pilotlight.doctor.check import Check, broken, limited, ok

_WALKABLE = ((3, 10), (3, 14))
_TIMEOUT_S = 20

# What a Python answers about itself: version, whether the package is there, whether the .pth is.
_QUESTION = """
import importlib.util, os, sys, sysconfig
found = importlib.util.find_spec("pilotlight") is not None
places = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *sys.path}
pth = any(os.path.exists(os.path.join(p, "pilotlight.pth")) for p in places if p)
print("%d.%d" % sys.version_info[:2], int(found), int(pth), sys.flags.no_site)
"""


def python_checks() -> list[Check]:
    checks = [_native(), _version(sys.version_info[:2])]
    seen = {Path(sys.executable).resolve()}
    checks.append(_activation(sys.executable, "this Python"))
    for name in ("python", "python3"):
        path = shutil.which(name)
        if path is not None and Path(path).resolve() not in seen:
            seen.add(Path(path).resolve())
            checks.append(_activation(path, f"`{name}`"))
    checks.append(_environment())
    return checks


def _native() -> Check:
    try:
        from pilotlight import _drain, _probe
    except ImportError as error:
        return broken(
            "compiled parts",
            str(error),
            "install again with a C++ compiler: pip install --force-reinstall pilotlight",
        )
    major, minor = _drain.ABI
    return ok("compiled parts", f"{Path(str(_probe.__file__)).name}, ABI {major}.{minor}")


def _version(version: tuple[int, int]) -> Check:
    text = f"{version[0]}.{version[1]}"
    if _WALKABLE[0] <= version <= _WALKABLE[1]:
        return ok("Python version", f"{text}: stacks can be read")
    return limited(
        "Python version",
        f"{text}: stacks of this version cannot be read yet; ranges, steps and GC are recorded",
        "use Python 3.10 to 3.14 for stack sampling",
    )


def _activation(python: str, label: str) -> Check:
    what = f"activation in {label}"
    try:
        answer = subprocess.run(
            [python, "-c", _QUESTION],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            env={**os.environ, "PILOTLIGHT": "0"},
            check=True,
        ).stdout.split()
        version, found, pth, no_site = answer[0], answer[1], answer[2], answer[3]
    except (OSError, subprocess.SubprocessError, IndexError):
        return limited(what, f"{python} does not answer", f"check that it runs: {python} -V")
    if no_site == "1":
        return limited(
            what,
            f"{python} runs with -S, which skips the start hook",
            "drop -S, or call pilotlight.start() in the program",
        )
    if found != "1":
        return limited(
            what,
            f"{python} ({version}) does not have pilotlight: its processes are not recorded",
            f"{python} -m pip install pilotlight",
        )
    if pth != "1":
        return broken(
            what,
            f"{python}: pilotlight.pth is missing, so PILOTLIGHT=1 does nothing there",
            f"{python} -m pip install --force-reinstall pilotlight",
        )
    return ok(
        what, f"{python} ({version}); `python -S` would skip it: call pilotlight.start() then"
    )


def _environment() -> Check:
    value = os.environ.get("PILOTLIGHT")
    if value in (None, ""):
        return ok("environment", "PILOTLIGHT is not set: only `pilotlight run` records")
    if value == "0":
        return limited("environment", "PILOTLIGHT=0: the probe is off", "unset PILOTLIGHT")
    return ok("environment", f"PILOTLIGHT={value}: every Python of this installation is recorded")
