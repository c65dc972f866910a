"""Our declarations of CUPTI's interface are those of NVIDIA's headers, from 11.8 to 13.4."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.gpu.wheels import headers

ROOT = Path(__file__).parents[2]
_CRT = "nvidia-cuda-crt==13.4.92"

VERSIONS = {
    "11.8": ("nvidia-cuda-cupti-cu11==11.8.87", "nvidia-cuda-runtime-cu11==11.8.89"),
    "12.4": ("nvidia-cuda-cupti-cu12==12.4.127", "nvidia-cuda-runtime-cu12==12.9.79"),
    "12.9": ("nvidia-cuda-cupti-cu12==12.9.79", "nvidia-cuda-runtime-cu12==12.9.79"),
    "13.0": ("nvidia-cuda-cupti==13.0.85", "nvidia-cuda-runtime==13.4.92"),
    "13.3": ("nvidia-cuda-cupti==13.3.75", "nvidia-cuda-runtime==13.4.92"),
    "13.4": ("nvidia-cuda-cupti==13.4.92", "nvidia-cuda-runtime==13.4.92"),
}


@pytest.mark.parametrize("version", VERSIONS)
def test_sizes_offsets_and_numbers_are_those_of_the_real_headers(version: str) -> None:
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    folders = [headers(requirement) for requirement in (*VERSIONS[version], _CRT)]
    done = subprocess.run(
        [
            *(compiler, "-std=c++17", "-fsyntax-only", f"-I{ROOT / 'native'}"),
            *(f"-I{folder}" for folder in folders),
            str(ROOT / "native" / "tests" / "cupti_abi_check.cpp"),
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]


_KINDS = (
    ("GraphLaunch", "kGraph"),
    ("Synchronize", "kSynchronization"),
    ("Memcpy", "kMemcpy"),
    ("Memset", "kMemset"),
    ("Launch", "kKernel"),
)
# What starts no work itself, and what the driver keeps for programs of before CUDA 4.
_OTHERS = re.compile(r"Graph(?!Launch)|Attribute|Host|^cu64|^cuMemcpy_v2$")
_LAST_OLD = 82


def _kind(domain: str, number: int, name: str) -> str | None:
    is_old = domain == "Driver" and number <= _LAST_OLD and name.startswith("cuMem")
    if is_old or _OTHERS.search(name):
        return None
    return next((kind for part, kind in _KINDS if part in name), None)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_call_that_starts_work_or_waits_for_it_is_heard(version: str) -> None:
    ours = {
        (domain, number): kind
        for domain, first, last, kind in re.findall(
            r"{k(Driver|Runtime), (\d+), (\d+), ActivityKind::(\w+)}",
            (ROOT / "native" / "cuda" / "launch_apis.h").read_text(),
        )
        for number in range(int(first), int(last) + 1)
    }
    folder = headers(VERSIONS[version][0])
    for domain in ("Driver", "Runtime"):
        text = (folder / f"cupti_{domain.lower()}_cbid.h").read_text()
        calls = re.findall(rf"CUPTI_{domain.upper()}_TRACE_CBID_(\w+) *= *(\d+)", text)
        names = {int(number): name for name, number in calls if not name.startswith("cu64")}
        real = {number: _kind(domain, number, name) for number, name in names.items()}
        assert len([kind for kind in real.values() if kind]) > 50
        assert {number: ours.get((domain, number)) for number in names} == real


def test_a_wrong_offset_does_not_pass(tmp_path: Path) -> None:
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    copy = tmp_path / "cuda"
    copy.mkdir()
    text = (ROOT / "native" / "cuda" / "cupti_abi.h").read_text()
    wrong = text.replace("uint8_t unused2[8];", "uint8_t unused2[16];")
    assert wrong != text
    (copy / "cupti_abi.h").write_text("\n".join(
        line for line in wrong.splitlines() if not line.startswith("static_assert")
    ))  # fmt: skip
    folders = [headers(requirement) for requirement in (*VERSIONS["12.9"], _CRT)]
    done = subprocess.run(
        [
            *(compiler, "-std=c++17", "-fsyntax-only", f"-I{tmp_path}", f"-I{ROOT / 'native'}"),
            *(f"-I{folder}" for folder in folders),
            str(ROOT / "native" / "tests" / "cupti_abi_check.cpp"),
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0 and "graph_node" in done.stderr
