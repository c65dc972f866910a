"""JAX with the adapter beside it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.conftest import RunPilotlight

from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import SpanKind

pytest.importorskip("jax")

ROOT = Path(__file__).parents[3]


def run_target(folder: Path, target: str) -> Recording:
    world = {"PILOTLIGHT_RUNTIME_DIR": f"{folder}/r", "PILOTLIGHT_DATA_DIR": f"{folder}/d"}
    words = [sys.executable, "-m", "pilotlight", "run", "-q", "-o", str(folder / "recording")]
    program = str(ROOT / "tests" / "targets" / target)
    done = subprocess.run(
        [*words, "--", sys.executable, program],
        env={"PATH": "/usr/bin:/bin", "JAX_PLATFORMS": "cpu", **world},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    return Recording.open(folder / "recording")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return run_target(tmp_path_factory.mktemp("jax"), "jax_loops.py")


def _spans(recording: Recording, kind: SpanKind) -> list[str]:
    spans = recording.detail("spans")
    numbers = recording.names.find(spans["process"], spans["name"])
    return [
        recording.names.texts[int(number)]
        for number, its in zip(numbers, spans["kind"], strict=True)
        if its == kind
    ]


def test_steps_follow_the_rhythm_of_the_jitted_function_and_then_the_annotation(
    recorded: Recording,
) -> None:
    steps = recorded.detail("steps")["step"].tolist()
    # 20 calls of the function, of which the first two are one step with what came before; then
    # three steps that the program numbers itself and ends.
    assert steps[:19] == list(range(19))
    assert steps[-3:] == [1000, 1001, 1002]


def test_an_evaluation_that_comes_first_and_again_makes_no_steps(tmp_path: Path) -> None:
    steps = run_target(tmp_path, "jax_evaluated.py").detail("steps")
    # What came before is one step with the first of a hundred; nothing ends the last.
    assert len(steps["step"]) == 100


def test_rhythms_make_steps_and_what_was_called_in_preparation_makes_none(tmp_path: Path) -> None:
    steps = run_target(tmp_path, "jax_rhythms.py").detail("steps")
    of_threads = Counter(steps["thread"].tolist())
    # The main thread's four calls of another function are part of its first step. By pmap, options
    # and ahead of time: each thread begins with its first call, and nothing ends the last.
    assert sorted(of_threads.values()) == [11 - 1, 21 - 1, 31 - 1, 70]


def test_the_processes_of_jax_distributed_are_ranks(tmp_path: Path) -> None:
    processes = run_target(tmp_path, "jax_ranks.py").processes
    joined = [process for process in processes if process.rank is not None]
    assert sorted(process.rank for process in joined if process.rank is not None) == [0, 1]
    assert {process.start.identity["world_size"] for process in joined} == {2}
    assert {process.start.identity["role"] for process in joined} == {"rank"}


def test_compilations_are_spans_with_the_name_of_the_function(recorded: Recording) -> None:
    compiled = _spans(recorded, SpanKind.COMPILE)
    assert compiled.count("compile jit(train_step)") >= 2


def test_a_second_compilation_of_a_function_is_told_with_its_reason(recorded: Recording) -> None:
    marks = recorded.detail("marks")
    numbers = recorded.names.find(marks["process"], marks["name"])
    told = [recorded.names.texts[int(number)] for number in numbers]
    reasons = [text for text in told if text.startswith("recompile jit(train_step)")]
    assert reasons[0] == "recompile jit(train_step): argument [0] is float32[16], was float32[8]"


def test_annotations_transfers_and_waits_are_told(recorded: Recording) -> None:
    assert "mine" in _spans(recorded, SpanKind.RANGE)
    assert "jax.device_put" in _spans(recorded, SpanKind.RANGE)
    assert "jax.block_until_ready" in _spans(recorded, SpanKind.SYNC)


def test_the_example_trains_as_it_does_alone(pilotlight_cli: RunPilotlight, tmp_path: Path) -> None:
    program = [sys.executable, str(ROOT / "examples" / "jax_mlp.py"), "--steps", "5"]
    done = pilotlight_cli("run", "-q", "-o", str(tmp_path / "r"), "--", *program)
    assert done.returncode == 0 and "loss after 5 steps" in done.stdout, done.stderr
