"""The readers in Python under their fuzzer for a short while; `make fuzz` runs it for long."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

RUNS = 1500
JOBS = 150
FUZZER = Path(__file__).with_name("fuzz_readers.py")


@pytest.mark.parametrize("reader", ["perfetto", "xplane", "ncu", "flight_recorder", "tar"])
def test_any_bytes_are_read_or_refused(tmp_path: Path, reader: str) -> None:
    fuzz(tmp_path, reader, RUNS)


def test_any_events_of_several_ranks_are_analysed(tmp_path: Path) -> None:
    fuzz(tmp_path, "job", JOBS)


def fuzz(folder: Path, reader: str, runs: int) -> None:
    pytest.importorskip("atheris")
    # By a shell in between: what libFuzzer takes for its own greatest size begins with that of its
    # parent, and a test process that has loaded frameworks may be over the fuzzer's limit.
    alone = ["sh", "-c", '"$@"; exit $?', "sh"]
    fuzzer = [sys.executable, str(FUZZER), reader, f"-runs={runs}", "-max_len=2048", "-timeout=20",
              f"-artifact_prefix={folder}/", str(folder)]  # fmt: skip
    done = subprocess.run([*alone, *fuzzer], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"Done {runs} runs" in done.stderr
    covered = re.search(r"DONE\s+cov: (\d+)", done.stderr)
    assert covered is not None and int(covered[1]) > 5, "nothing of the reader is instrumented"
