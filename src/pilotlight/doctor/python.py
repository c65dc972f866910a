"""Python's side: the compiled parts, and whether PILOTLIGHT=1 reaches the Pythons in use."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from pilotlight.doctor.check import Check, broken, limited, ok

_WALKABLE = ((3, 10), (3, 14))
_OTHER_PYTHON = "use Python 3.10 to 3.14 with its lock (not free-threaded) for stack sampling"
_TIMEOUT_S = 20

# What a Python answers about itself: version, whether the package is there, whether the .pth is.
_QUESTION = """
import importlib.util, os, sys, sysconfig
found = importlib.util.find_spec("pilotlight") is not None
places = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *sys.path}
pth = any(os.path.exists(os.path.join(p, "pilotlight.pth")) for p in places if p)
free = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
print("%d.%d" % sys.version_info[:2] + free, int(found), int(pth), sys.flags.no_site)
"""


def python_checks() -> list[Check]:
    checks = [_native(), version_check(_own_version())]
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


def version_check(version: str) -> Check:
    """Of a version as `python -V` has it, in two numbers; with a `t` behind it free-threaded."""
    if is_walkable(version):
        return ok("Python version", f"{version}: stacks can be read")
    return limited(
        "Python version",
        f"{version}: stacks of this Python cannot be read; ranges, steps and GC are recorded",
        _OTHER_PYTHON,
    )


def is_walkable(version: str) -> bool:
    """Whether the sampler can read stacks of that Python."""
    major, _, minor = version.partition(".")
    if not (major.isdigit() and minor.isdigit()):
        return False
    return _WALKABLE[0] <= (int(major), int(minor)) <= _WALKABLE[1]


def _own_version() -> str:
    text = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return f"{text}t" if sysconfig.get_config_var("Py_GIL_DISABLED") else text


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
    if not is_walkable(version):
        return limited(
            what, f"{python} ({version}): recorded, but its stacks cannot be read", _OTHER_PYTHON
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
