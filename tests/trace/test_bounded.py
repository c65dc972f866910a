from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pilotlight import _scan
from pilotlight.trace.bounded import bounded

COUNT = 100_000
LIMIT_BYTES = 58 << 20


@pytest.fixture
def nothing_held(tmp_path: Path) -> Iterator[Path]:
    """A budget of nothing: every array of more than 64 KB goes to a file."""
    _scan.set_budget(0, str(tmp_path))
    with bounded():
        yield tmp_path
    _scan.set_budget((1 << 64) - 1, "/tmp")


def mapped_files(folder: Path) -> int:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sum(str(folder) in line for line in lines)


def test_arrays_beyond_the_budget_are_in_files_without_a_name(nothing_held: Path) -> None:
    numbers = np.arange(COUNT)
    zeros = np.zeros(COUNT)
    assert mapped_files(nothing_held) == 2
    assert (numbers[::-1] + zeros == np.arange(COUNT - 1, -1, -1)).all()
    assert list(nothing_held.iterdir()) == []
    del numbers, zeros
    assert mapped_files(nothing_held) == 0


def test_an_array_that_grows_keeps_its_content(nothing_held: Path) -> None:
    grown = np.fromiter(iter(range(COUNT)), np.int64)  # grows from small to a file
    assert grown.tolist() == list(range(COUNT))
    grown.resize(COUNT // 1000, refcheck=False)
    assert grown.tolist() == list(range(COUNT // 1000))


def test_arrays_within_the_budget_are_in_memory_and_counted(tmp_path: Path) -> None:
    _scan.set_budget(0, str(tmp_path))
    before = _scan.peak_bytes()  # what other tests hold
    _scan.set_budget(before + 3_000_000, str(tmp_path))
    try:
        with bounded():
            held = np.ones(COUNT)
            assert mapped_files(tmp_path) == 0
            assert 8 * COUNT <= _scan.peak_bytes() - before < 9 * COUNT
            more = np.ones(10 * COUNT)
        assert mapped_files(tmp_path) == 1
        assert _scan.peak_bytes() - before < 9 * COUNT
        assert held.sum() + more.sum() == 11 * COUNT
    finally:
        _scan.set_budget((1 << 64) - 1, "/tmp")


def test_arrays_made_outside_are_left_alone(nothing_held: Path) -> None:
    program = """
import numpy as np, sys
from pathlib import Path
from pilotlight import _scan
from pilotlight.trace.bounded import bounded
_scan.set_budget(0, sys.argv[1])
with bounded():
    inside = np.ones(100_000)
outside = np.ones(100_000)
print(sum(sys.argv[1] in line for line in Path("/proc/self/maps").open()))
"""
    command = [sys.executable, "-c", program, str(nothing_held)]
    assert subprocess.run(command, capture_output=True, text=True).stdout == "1\n"


def test_pages_of_files_do_not_stay_in_memory(nothing_held: Path) -> None:
    before = file_pages_bytes()
    array = np.ones(8_000_000)
    deadline = time.monotonic() + 60
    while file_pages_bytes() - before > 24_000_000 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert file_pages_bytes() - before <= 24_000_000
    assert array.sum() == 8_000_000


def file_pages_bytes() -> int:
    text = Path("/proc/self/status").read_text()
    return int(text.split("RssFile:")[1].split()[0]) * 1024


# The limit is for memory of the process alone, not for mapped files.
TIGHT = """
import resource, sys
from pathlib import Path
from pilotlight.analysis import analyze
now = int(Path("/proc/self/status").read_text().split("VmData:")[1].split()[0]) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (now + int(sys.argv[2]),) * 2)
found = analyze(Path(sys.argv[1]), memory_bytes=int(sys.argv[3]))
tables = [found.table(name) for name in ("launches", "operators", "categories", "clocks")]
print(tables[0][0]["kernels"], tables[1][0]["owner"])
"""


def write_trace(path: Path, kernels: int) -> None:
    event = (
        b'{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":9,"ts":%d,"dur":8,"args":'
        b'{"Input Dims":[[64,64],[64,64]],"Input type":["float","float"]}},'
        b'{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":9,"ts":%d,'
        b'"dur":4,"args":{"correlation":%d}},'
        b'{"ph":"X","cat":"kernel","name":"sgemm_128x128","pid":0,"tid":7,"ts":%d,"dur":9,"args":'
        b'{"correlation":%d,"stream":7,"grid":[8,8,1],"block":[128,1,1]}},\n'
    )
    head = b'{"deviceProperties":[{"id":0,"name":"NVIDIA A100-SXM4-80GB"}],"traceEvents":['
    with path.open("wb") as file:
        file.write(head)
        for i in range(kernels):
            file.write(event % (10 * i, 10 * i + 1, i + 1, 10 * i + 6, i + 1))
        file.write(b"{}]}")


def test_what_an_analysis_derives_is_within_the_memory_too(tmp_path: Path) -> None:
    """With all in memory 76 to 80 MB are needed, with 4 of them 36 to 40, stacks included."""
    path = tmp_path / "a.json"
    write_trace(path, 60_000)
    command = [sys.executable, "-c", TIGHT, str(path), str(LIMIT_BYTES)]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "OPENBLAS_NUM_THREADS": "1"}
    whole, tight = (
        subprocess.run([*command, memory], capture_output=True, text=True, env=environment)
        for memory in (str(1 << 40), str(4 << 20))
    )
    assert whole.returncode != 0 and "MemoryError" in whole.stderr
    assert tight.returncode == 0, tight.stderr[-2000:]
    assert tight.stdout.split() == ["60000", "aten::mm"]
