from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.conftest import RunPilotlight

from pilotlight.agent.spawn import ensure_agent
from pilotlight.recording.recording import Recording
from pilotlight.runtime import runtime

PYTHON = sys.executable


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_the_exit_code_passes_through(pilotlight_cli: RunPilotlight, code: int) -> None:
    done = pilotlight_cli("run", "--", PYTHON, "-c", f"raise SystemExit({code})")
    assert done.returncode == code


@pytest.mark.parametrize(
    "streams", ["<&- >&- 2>&-", "2>&-", ">&-", "2>/dev/full", "2>&1 >/dev/null | true", "| true"]
)
def test_the_exit_code_passes_through_where_nobody_hears_us(streams: str) -> None:
    run = f"'{PYTHON}' -m pilotlight run -- '{PYTHON}' -c 'raise SystemExit(7)' {streams}"
    done = subprocess.run(["bash", "-c", f"{run}; exit ${{PIPESTATUS[0]}}"], timeout=60)
    assert done.returncode == 7


def test_the_exit_code_passes_through_where_the_ends_of_children_were_ignored(
    pilotlight_cli: RunPilotlight,
) -> None:
    ignore = (
        f"import os, signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv({PYTHON!r}"
    )
    run = [PYTHON, "-m", "pilotlight", "run", "--", PYTHON, "-c", "raise SystemExit(7)"]
    done = subprocess.run([PYTHON, "-c", f"{ignore}, {run!r})"], capture_output=True, timeout=60)
    assert (done.returncode, b"Traceback" in done.stderr) == (7, False)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT])
def test_a_signal_that_ends_the_job_ends_run(pilotlight_cli: RunPilotlight, number: int) -> None:
    program = f"import os; os.kill(os.getpid(), {int(number)})"
    done = pilotlight_cli("run", "--", PYTHON, "-c", program)
    assert done.returncode == -number


def test_a_command_that_does_not_exist_is_127_with_a_shells_message(
    pilotlight_cli: RunPilotlight, world: Path
) -> None:
    done = pilotlight_cli("run", "--", "no-such-command-here")
    assert done.returncode == 127
    assert done.stderr == "pilotlight run: no-such-command-here: command not found\n"
    assert not list(world.rglob("manifest.json")), "the last recording is still that of a job"


def test_a_job_runs_also_where_no_agent_can_be_started(
    pilotlight_cli: RunPilotlight, world: Path
) -> None:
    runtime().log.mkdir(parents=True)
    done = pilotlight_cli("run", "--", PYTHON, "-c", "print('runs')")
    assert (done.returncode, done.stdout) == (0, "runs\n")
    assert "not recorded: no agent could be started" in done.stderr


def test_a_recording_lies_where_report_looks_whatever_home_the_agent_was_started_with(
    pilotlight_cli: RunPilotlight, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ensure_agent().close()
    monkeypatch.setenv("PILOTLIGHT_DATA_DIR", str(tmp_path / "scratch"))
    done = pilotlight_cli("run", "--", PYTHON, "-c", "import time; time.sleep(0.3)")
    assert str(tmp_path / "scratch" / "recordings") in done.stderr
    assert pilotlight_cli("report").returncode == 0


def test_arguments_of_any_bytes_are_recorded_and_shown(
    pilotlight_cli: RunPilotlight, tmp_path: Path
) -> None:
    program = "import sys, time; time.sleep(0.2); print(len(sys.argv[1]))"
    done = pilotlight_cli("run", "--", PYTHON, "-c", program, "data-\udcff")
    assert (done.returncode, done.stdout) == (0, "6\n")
    page = pilotlight_cli("report", "--html", str(tmp_path / "page.html"))
    assert (page.returncode, page.stderr) == (0, "") and (tmp_path / "page.html").exists()


def test_a_file_that_cannot_be_executed_is_126(
    pilotlight_cli: RunPilotlight, tmp_path: Path
) -> None:
    (tmp_path / "data").write_text("")
    done = pilotlight_cli("run", "--", str(tmp_path / "data"))
    assert done.returncode == 126
    assert "Permission denied" in done.stderr


def test_a_script_without_a_first_line_runs_as_in_a_shell(
    pilotlight_cli: RunPilotlight, tmp_path: Path
) -> None:
    script = tmp_path / "script"
    script.write_text("echo hello; exit 4\n")
    script.chmod(0o755)
    done = pilotlight_cli("run", "--", str(script))
    assert (done.returncode, done.stdout) == (4, "hello\n")


def test_a_job_ignores_no_signal_that_python_ignores(
    pilotlight_cli: RunPilotlight,
) -> None:
    def unblock() -> None:
        """The store's engine blocks SIGPIPE in a process that other tests load it into."""
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    said = 'yes | head -n 1; echo "${PIPESTATUS[0]}"'
    done = pilotlight_cli("run", "--", "bash", "-c", said, preexec_fn=unblock)
    assert done.stdout.split() == ["y", str(128 + signal.SIGPIPE)]
    assert "Broken pipe" not in done.stderr


def test_no_command_says_what_to_type(pilotlight_cli: RunPilotlight) -> None:
    done = pilotlight_cli("run", "--")
    assert done.returncode == 2
    assert "pilotlight run -- python train.py" in done.stderr


def test_standard_streams_are_the_jobs_own(pilotlight_cli: RunPilotlight) -> None:
    program = "import sys; sys.stdout.write(sys.stdin.read().upper()); sys.stderr.write('e')"
    done = pilotlight_cli("run", "--quiet", "--", PYTHON, "-c", program, input="abc")
    assert (done.stdout, done.stderr) == ("ABC", "e")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP])
def test_a_signal_sent_to_run_reaches_the_job(number: signal.Signals, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    program = (
        "import signal, sys, pathlib, time\n"
        f"signal.signal({int(number)}, lambda *_: sys.exit(42))\n"
        f"pathlib.Path({str(ready)!r}).touch()\n"
        "while True: time.sleep(0.1)\n"
    )
    run = subprocess.Popen(
        [PYTHON, "-m", "pilotlight", "run", "--", PYTHON, "-c", program],
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 30
    while not ready.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(run.pid, number)
    assert run.wait(30) == 42


def test_an_agent_that_was_killed_has_a_successor_before_the_job_ends(
    pilotlight_cli: RunPilotlight, tmp_path: Path
) -> None:
    program = (
        "import os, pathlib, pilotlight, signal, time\n"
        f"lock = pathlib.Path({str(runtime().lock)!r})\n"
        "first = lock.read_text()\n"
        "pilotlight.step(0)\n"
        "os.kill(int(first), signal.SIGKILL)\n"
        "while lock.read_text() == first: time.sleep(0.05)\n"
        "time.sleep(1.5)\n"
        "pilotlight.step(1)\n"
    )
    folder = tmp_path / "recording"
    done = pilotlight_cli("run", "-o", str(folder), "--", PYTHON, "-c", program)
    assert done.returncode == 0 and "recorded 1 process" in done.stderr
    recording = Recording.open(folder)
    assert recording.state == "finished" and recording.warnings == []
    assert recording.detail("steps")["step"].tolist() == [0]
    assert len(recording.manifest.agent.restarts) == 1


def test_a_job_whose_agent_was_ended_in_order_has_no_other_until_it_ends(
    pilotlight_cli: RunPilotlight, tmp_path: Path
) -> None:
    program = (
        "import os, pathlib, signal, time\n"
        f"place = pathlib.Path({str(runtime().folder)!r})\n"
        "os.kill(int((place / 'agent.lock').read_text()), signal.SIGTERM)\n"
        "while (place / 'client.sock').exists(): time.sleep(0.05)\n"
        "time.sleep(1)\n"
        "raise SystemExit(3 if (place / 'client.sock').exists() else 4)\n"
    )
    folder = tmp_path / "recording"
    done = pilotlight_cli("run", "-o", str(folder), "--", PYTHON, "-c", program)
    assert done.returncode == 4
    manifest = Recording.open(folder).manifest
    assert (manifest.state, manifest.exit_code) == ("finished", 4)


def test_the_job_runs_even_if_nothing_can_be_recorded(
    pilotlight_cli: RunPilotlight, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("PILOTLIGHT_RUNTIME_DIR", str(tmp_path / "file" / "x"))
    done = pilotlight_cli("run", "--", PYTHON, "-c", "print('ran'); raise SystemExit(5)")
    assert (done.returncode, done.stdout) == (5, "ran\n")
    assert "not recorded" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_job_without_python_is_told_so(pilotlight_cli: RunPilotlight) -> None:
    done = pilotlight_cli("run", "--", "true")
    assert done.returncode == 0
    assert "pilotlight doctor" in done.stderr


def test_an_agent_that_runs_already_and_sends_elsewhere_is_told(
    pilotlight_cli: RunPilotlight, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = pilotlight_cli("run", "--", PYTHON, "-c", "pass")
    assert "not sent" not in first.stderr
    monkeypatch.setenv("PILOTLIGHT_COLLECTOR", "http://127.0.0.1:9")
    second = pilotlight_cli("run", "--", PYTHON, "-c", "pass")
    assert second.returncode == 0
    assert "not sent to http://127.0.0.1:9: the agent that runs here already sends nowhere" in (
        second.stderr
    )


def test_nothing_is_said_of_an_agent_that_sends_where_it_should(
    pilotlight_cli: RunPilotlight, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PILOTLIGHT_COLLECTOR", "http://127.0.0.1:9")
    assert "already sends" not in pilotlight_cli("run", "--", PYTHON, "-c", "pass").stderr


def test_a_collector_that_takes_nothing_is_told_of_when_the_job_is_over(
    pilotlight_cli: RunPilotlight,
) -> None:
    script = "import time, pilotlight\nfor n in range(80): time.sleep(0.1); pilotlight.step()"
    env = {"PILOTLIGHT_COLLECTOR": "http://127.0.0.1:9", "PILOTLIGHT_BATCH_SECONDS": "1"}
    ran = pilotlight_cli("run", "--", sys.executable, "-c", script, env=env)
    assert ran.returncode == 0
    assert "not sent yet to http://127.0.0.1:9: ConnectionRefusedError" in ran.stderr
