"""Every other Python that can be found here: on the path, of pyenv, or of scripts/other-pythons."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

STACKS_CAN_BE_READ = ("3.10", "3.11", "3.12", "3.13", "3.14")
UNKNOWN = "3.15"
HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"

_QUESTION = (
    "import sys, sysconfig, pathlib;"
    "header = pathlib.Path(sysconfig.get_path('include')) / 'internal/pycore_interp.h';"
    "print('%d.%d' % sys.version_info[:2], header.exists())"
)


@cache
def python_of(version: str) -> str | None:
    """An interpreter of this version with its headers; shims that lead nowhere do not count."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [sys.executable, shutil.which(f"python{version}")]
    found += [str(path) for path in sorted(pyenv.glob(f"{version}.*/bin/python"))]
    found += [str(Path(sys.prefix, "pythons", version, "usr", "bin", f"python{version}"))]
    for candidate in filter(None, found):
        if not Path(candidate).exists():
            continue
        answer = subprocess.run([candidate, "-c", _QUESTION], capture_output=True, text=True)
        if answer.stdout.split() == [version, "True"]:
            return candidate
    return None
