from __future__ import annotations

import io
import json
import subprocess
import sys
import textwrap
from pathlib import Path

from rich.console import Console
from tests.conftest import RunPilotlight

from pilotlight.cli.watch import table_of, view_of

LOOP = """
    import time
    from pilotlight import _probe
    for step in range(4000):
        _probe.automatic_step(step)
        _probe.enter_phase(1); time.sleep(0.008); _probe.leave_phase(1)
        time.sleep(0.002)
"""


def process(rank: int, step: int = 10, step_ns: int = 5_000_000) -> dict[str, object]:
    return {
        "rank": rank,
        "role": "rank",
        "pid": 100 + rank,
        "steps": step,
        "step": step,
        "step_ns": step_ns,
        "since_step_ns": 1,
        "steps_per_s": 2.0,
        "phases": {"forward": 0.5, "data": 0.25},
        "phase": None,
        "dropped": 0,
    }


def test_a_view_has_the_phases_of_each_rank_and_the_rest() -> None:
    view = view_of({"processes": [process(1, step_ns=9_000_000), process(0, step=7)]}, "job")
    assert [rank["rank"] for rank in view["ranks"]] == [0, 1]
    assert view["ranks"][0]["phases"]["other"] == 0.25
    assert (view["slowest_rank"], view["behind_rank"], view["steps_apart"]) == (1, 0, 3)


def test_of_very_many_ranks_the_slowest_are_shown() -> None:
    many = [process(rank, step_ns=1_000_000 + rank * 10_000) for rank in range(200)]
    console = Console(file=io.StringIO(), width=200)
    console.print(table_of(view_of({"processes": many}, "job")))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "the 40 slowest are shown" in text and "199 slowest" in text
    assert len(text.splitlines()) < 50


def screen_of(processes: list[dict[str, object]]) -> str:
    console = Console(file=io.StringIO(), width=80)
    console.print(table_of(view_of({"processes": processes}, "job")))
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def test_ranks_that_step_alike_have_no_slowest_among_them() -> None:
    assert "slowest" not in screen_of([process(0), process(1, step_ns=5_100_000)])
    assert "1 slowest" in screen_of([process(0), process(1, step_ns=7_000_000)])


def test_ranks_that_step_no_more_are_told_with_how_long() -> None:
    hung = process(1, step_ns=9_000_000) | {"since_step_ns": 14_000_000_000, "phases": {}}
    text = screen_of([process(0), hung])
    assert "no step for" in text and "14.0 s" in text and "slowest" not in text
    slow = process(1, step_ns=4_000_000_000) | {"since_step_ns": 14_000_000_000}
    assert "no step for" not in screen_of([process(0), slow])


def test_a_phase_that_lasts_is_told_with_how_long() -> None:
    inside = {"phase": {"name": "communication", "for_ns": 14_000_000_000}}
    text = screen_of([process(0), process(1) | inside])
    assert "now in" in text and "communication 14.0 s" in text
    brief = {"phase": {"name": "backward", "for_ns": 900_000_000}}
    assert "now in" not in screen_of([process(0), process(1) | brief])


def test_a_rank_that_never_began_a_step_is_shown_and_the_launcher_is_not() -> None:
    nothing = {"steps": 0, "step": -1, "step_ns": 0, "since_step_ns": None, "phases": {}}
    launcher = process(9) | nothing | {"rank": None, "role": "main"}
    text = screen_of([process(0), process(1), process(2) | nothing, launcher])
    assert [line.split()[:2] for line in text.splitlines()[-1:]] == [["2", "none"]]
    assert "2 with steps, 2 without" in text and "-1" not in text and "behind" not in text


def test_processes_without_a_rank_are_not_behind_each_other() -> None:
    alone = [process(number, step=10 * number) | {"rank": None} for number in (1, 2, 3)]
    text = screen_of(alone)
    assert "behind" not in text and "slowest" not in text and "None" not in text


def test_steps_without_phases_have_no_column_of_the_rest() -> None:
    assert "other" not in screen_of([process(0) | {"phases": {}}])


def test_a_job_without_steps_is_an_empty_view() -> None:
    view = view_of({"processes": []}, "job")
    assert (view["ranks"], view["slowest_rank"], view["steps_apart"]) == ([], None, 0)


def test_a_running_job_is_watched(pilotlight_cli: RunPilotlight, tmp_path: Path) -> None:
    program = tmp_path / "loop.py"
    program.write_text(textwrap.dedent(LOOP))
    words = [sys.executable, "-m", "pilotlight", "run", "-q", "--name", "loop"]
    job = subprocess.Popen([*words, "-o", str(tmp_path / "r"), "--", sys.executable, str(program)])
    try:
        for _ in range(100):
            done = pilotlight_cli("watch", "loop", "--json", "--seconds", "2.5")
            if done.returncode == 0 and done.stdout:
                break
        views = [json.loads(line) for line in done.stdout.splitlines()]
        (rank,) = views[-1]["ranks"]
        assert rank["step"] > 0
        assert 0.5 < rank["phases"]["forward"] <= 1
        plain = pilotlight_cli("watch", "--seconds", "5")
        assert plain.returncode == 0, plain.stderr
        assert "forward" in plain.stdout
    finally:
        job.terminate()
        job.wait(timeout=60)


def test_a_job_that_is_not_there_is_named(pilotlight_cli: RunPilotlight, tmp_path: Path) -> None:
    done = pilotlight_cli("watch", "nobody")
    assert done.returncode != 0
    assert len(done.stderr.splitlines()) == 1
