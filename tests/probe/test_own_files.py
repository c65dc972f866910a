"""The probe's thread has open files of its own, and the job's are the job's alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TARGET = Path(__file__).parents[1] / "targets" / "files_of_the_job.py"


def test_the_probe_neither_keeps_the_jobs_files_open_nor_gives_up_its_locks() -> None:
    ended = subprocess.run([sys.executable, TARGET], capture_output=True, text=True, timeout=60)
    assert ended.stdout.splitlines() == ["own table True", "end of file True", "locked True"]
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_file_that_got_the_number_of_the_segment_stays_open_in_a_forked_child(
    tmp_path: Path,
) -> None:
    program = """
import os, sys
from pilotlight import _probe
assert _probe.start("", b"{}", 0, None) is None
names = {int(fd): os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
         if os.path.lexists(f"/proc/self/fd/{fd}")}
segment = next(fd for fd, name in names.items() if "memfd:pilotlight" in name)
os.closerange(3, 1024)
while os.open(sys.argv[1], os.O_RDWR | os.O_CREAT) < segment:
    pass
if os.fork() == 0:
    os.write(segment, b"hello")
    os._exit(0)
print(os.wait()[1], open(sys.argv[1]).read())
"""
    ended = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "file"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.stdout, ended.stderr) == ("0 hello\n", "")


@pytest.mark.parametrize("closed", ["", "0<&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_the_lowest_numbers_stay_the_jobs_own(
    closed: str, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of its first files; and what was closed when it was started stays closed."""
    program = """
import os, sys
def write():
    try: return os.write(2, b"x")
    except OSError as error: return error.errno
told = [write(), *(os.open("/dev/null", os.O_RDWR) for _ in range(4))]
with open(sys.argv[1], "w") as file: print(told, file=file)
"""

    def told() -> str:
        command = f'exec "$@" {closed}'
        words = ["sh", "-c", command, "sh", sys.executable, "-c", program, tmp_path / "told"]
        subprocess.run(words, check=True, capture_output=True, timeout=60)
        return (tmp_path / "told").read_text()

    alone = told()
    monkeypatch.setenv("PILOTLIGHT", "1")
    assert told() == alone


@pytest.mark.parametrize(("most", "is_recorded"), [(16, True), (6, False)])
def test_a_job_that_may_open_few_files_is_recorded_if_it_does_not_need_them_all(
    most: int, is_recorded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PILOTLIGHT", "1")
    program = "from pilotlight import _probe; print(_probe.status()['started'])"
    command = f'ulimit -n {most}; exec "$@"'
    words = ["sh", "-c", command, "sh", sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == (f"{is_recorded}\n", "")
