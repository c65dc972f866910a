"""Steps and phases of real PyTorch loops, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import SpanKind

pytest.importorskip("torch")

TARGETS = Path(__file__).parents[2] / "targets"


@dataclass(frozen=True)
class Loop:
    """What the recording has of one loop."""

    steps: list[int]
    phases: Counter[str]
    modules: Counter[str]
    ranges: Counter[str]
    marks: list[str]
    counters: set[str]
    longest_phase: str
    early_forwards: int
    module_gaps: list[int]
    overlap_ns: int
    beyond_ns: int


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    folder = tmp_path_factory.mktemp("loops")
    world = {"PILOTLIGHT_RUNTIME_DIR": f"{folder}/r", "PILOTLIGHT_DATA_DIR": f"{folder}/d"}
    words = [sys.executable, "-m", "pilotlight", "run", "-q", "-o", str(folder / "recording")]
    done = subprocess.run(
        [*words, "--", sys.executable, str(TARGETS / "torch_loops.py")],
        env={"PATH": "/usr/bin:/bin", **world},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    return Recording.open(folder / "recording")


@pytest.fixture(scope="module")
def loops(recording: Recording) -> Callable[[str], Loop]:
    found = {name: _loop(recording, process) for name, process in _processes(recording).items()}

    def loop(name: str) -> Loop:
        return found[name]

    return loop


def _texts(recording: Recording, table: str) -> list[str]:
    rows = recording.detail(table)
    numbers = recording.names.find(rows["process"], rows["name"])
    return [recording.names.texts[int(number)] for number in numbers]


def _processes(recording: Recording) -> dict[str, int]:
    marks = recording.detail("marks")
    return {
        text.removeprefix("loop "): int(process)
        for text, process in zip(_texts(recording, "marks"), marks["process"], strict=True)
        if text.startswith("loop ")
    }


def _loop(recording: Recording, process: int) -> Loop:
    spans, steps, marks = (recording.detail(table) for table in ("spans", "steps", "marks"))
    texts = np.array(_texts(recording, "spans"))
    mine = spans["process"] == process

    def count(kind: SpanKind) -> Counter[str]:
        return Counter(texts[mine & (spans["kind"] == kind)].tolist())

    phase = mine & (spans["kind"] == SpanKind.PHASE)
    early = 0
    for thread in np.unique(steps["thread"][steps["process"] == process]).tolist():
        first_ns = steps["start_ns"][steps["thread"] == thread].min()
        forward = phase & (texts == "forward") & (spans["thread"] == thread)
        early += int(np.count_nonzero(spans["start_ns"][forward] < first_ns))
    named = np.sort(spans["start_ns"][mine & (texts == "Sequential")])
    begun = np.sort(steps["start_ns"][steps["process"] == process])
    start = np.sort(spans["start_ns"][phase])
    end = np.sort(spans["start_ns"][phase] + spans["duration_ns"][phase])
    of_steps = steps["process"] == process
    lengths = {name: spans["duration_ns"][phase & (texts == name)].sum() for name in texts[phase]}
    counters = recording.detail("counters")["process"] == process
    return Loop(
        steps=steps["step"][of_steps].tolist(),
        phases=count(SpanKind.PHASE),
        modules=count(SpanKind.MODULE),
        ranges=count(SpanKind.RANGE),
        marks=[
            text
            for text, owner in zip(_texts(recording, "marks"), marks["process"], strict=True)
            if owner == process
        ],
        counters=set(np.array(_texts(recording, "counters"))[counters].tolist()),
        early_forwards=early,
        module_gaps=np.diff(np.searchsorted(begun, named, "right")).tolist(),
        longest_phase=max(lengths, key=lambda name: int(lengths[name]), default=""),
        overlap_ns=int(np.maximum(end[:-1] - start[1:], 0).sum()) if start.size else 0,
        beyond_ns=int(np.count_nonzero(spans["flags"][phase])),
    )


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("plain", 10),
        ("two_optimizers", 10),
        ("accumulation", 6),
        ("adversarial", 10),
        ("several_judge_steps", 20),
        ("one_after_another", 15),
        ("first_one_then_the_other", 29),
        ("one_that_never_steps", 9),
        ("evaluated_first", 6),
        ("one_optimizer_a_parameter", 10),
        ("scaled", 10),
        ("closure", 10),
        ("evaluated_before_closures", 5),
        ("compiled_function", 6),
        ("raising", 10),
        ("checkpointed_activations", 5),
        ("scheduled", 5),
        ("inherited_step", 5),
        ("trained_on_its_answers", 12),
        ("answers_beside_an_optimizer", 6),
        ("annotated", 3),
        ("example_mlp", 20),
        ("example_dataloader_bound", 12),
    ],
)
def test_a_loop_has_as_many_steps_as_rounds(
    loops: Callable[[str], Loop], name: str, steps: int
) -> None:
    assert loops(name).steps == list(range(steps))


def test_one_that_steps_around_others_made_anew_ends_a_step(loops: Callable[[str], Loop]) -> None:
    # Each of the twelve inside was one, in the first three rounds at most.
    assert 20 <= len(loops("learning_to_learn").steps) <= 17 + 3 * 12


def test_threads_that_train_have_steps_of_their_own(loops: Callable[[str], Loop]) -> None:
    loop = loops("trainings_in_threads")
    assert len(loop.steps) == len(set(loop.steps)) == 4 * 12
    # Also while another thread is in a backward.
    assert loop.phases["forward"] == 4 * 12
    late = loops("trainings_in_one_thread_after_another")
    assert (len(late.steps), late.phases["forward"], late.early_forwards) == (18, 18, 0)


def test_the_first_step_begins_after_an_evaluation(loops: Callable[[str], Loop]) -> None:
    assert loops("evaluated_first").early_forwards == 40
    # There the first forward of the training is inside the step of an optimizer.
    assert loops("evaluated_before_closures").early_forwards == 3


def test_a_compiled_function_is_forward_where_it_may_need_gradients(
    loops: Callable[[str], Loop],
) -> None:
    loop = loops("compiled_function")
    assert loop.phases == {"forward": 6, "backward": 6, "optimizer": 6}
    assert loop.early_forwards == 0


def test_inference_by_a_compiled_function_has_steps_and_forwards(
    loops: Callable[[str], Loop],
) -> None:
    loop = loops("compiled_decoding")
    assert loop.steps == list(range(29))
    assert loop.phases == {"forward": 30}


def test_threads_that_infer_have_steps_of_their_own(loops: Callable[[str], Loop]) -> None:
    # The last call of each lasts for ever.
    assert len(loops("inference_in_threads").steps) == 4 * 23


def test_steps_of_the_program_itself_count_instead(loops: Callable[[str], Loop]) -> None:
    assert loops("explicit").steps == [100, 101, 102, 103]


def test_inference_steps_with_the_first_module_that_is_called_again(
    loops: Callable[[str], Loop],
) -> None:
    assert loops("encoder_and_decoder").steps == list(range(9))


@pytest.mark.parametrize(
    ("name", "calls"), [("evaluating_without_eval_mode", 30), ("evaluated_only", 12)]
)
def test_inference_that_looked_like_the_beginning_of_a_training_counts_in_the_end(
    loops: Callable[[str], Loop], name: str, calls: int
) -> None:
    assert loops(name).steps == list(range(calls - 1))


def test_a_module_that_is_called_more_often_takes_over_with_all_its_calls(
    loops: Callable[[str], Loop],
) -> None:
    # Two of the first three; the third lasts until the other module's first.
    assert loops("warmed_up_with_another").steps == list(range(3 + 80 - 1))


def test_every_loop_is_split_into_phases_that_do_not_overlap(loops: Callable[[str], Loop]) -> None:
    for name in ("plain", "closure", "adversarial", "one_optimizer_a_parameter", "raising"):
        # Two that meet in one tick may be converted by two readings of the clocks.
        assert loops(name).overlap_ns < 1000 and loops(name).beyond_ns == 0, name


def test_a_plain_step_has_forward_backward_and_optimizer(loops: Callable[[str], Loop]) -> None:
    assert loops("plain").phases == {"forward": 10, "backward": 10, "optimizer": 10}


def test_forward_and_backward_interrupt_an_optimizer_that_calls_them(
    loops: Callable[[str], Loop],
) -> None:
    assert loops("closure").phases == {"forward": 10, "backward": 10, "optimizer": 30}


def test_a_forward_that_runs_again_in_the_backward_belongs_to_it(
    loops: Callable[[str], Loop],
) -> None:
    assert loops("checkpointed_activations").phases["forward"] == 2 * 5


def test_modules_go_by_their_path(loops: Callable[[str], Loop]) -> None:
    names = ("Sequential", "Sequential.0", "Sequential.1", "Sequential.2")
    assert {name: loops("plain").modules[name] for name in names} == dict.fromkeys(names, 10)


def test_modules_of_fast_steps_are_told_in_some_of_them_and_phases_in_all(
    loops: Callable[[str], Loop],
) -> None:
    # 42 modules take 17 µs: a step would have to last 17 ms for all of them to be told.
    loop = loops("many_small_modules")
    assert loop.steps == list(range(400)) and loop.phases["forward"] == 400
    assert 64 <= loop.modules["Sequential"] < 400
    assert loop.modules["Sequential.40"] == loop.modules["Sequential"]
    # Which of them is drawn: what a program does in every n-th is told as often as it happens.
    assert any(gap & (gap - 1) for gap in loop.module_gaps)


def test_the_backward_of_modules_is_told_in_some_steps(loops: Callable[[str], Loop]) -> None:
    told = Counter({n: c for n, c in loops("plain").modules.items() if n.endswith(" backward")})
    assert set(told) == {f"Sequential.{layer} backward" for layer in range(3)}
    # Two steps a second, the first at once: ten take less than five seconds.
    assert set(told.values()) <= set(range(1, 10))


def test_the_backward_of_wrapped_branching_and_raising_modules(
    loops: Callable[[str], Loop],
) -> None:
    told = [name for name in loops("odd_modules").modules if name.endswith(" backward")]
    assert sorted(told) == ["Inner.first backward", "Inner.second backward"]


def test_without_an_optimizer_a_backward_ends_a_step(loops: Callable[[str], Loop]) -> None:
    assert loops("without_optimizer").steps == list(range(20))
    assert loops("few_without_optimizer").steps == list(range(3))


def test_backwards_before_an_optimizer_is_made_are_no_steps(loops: Callable[[str], Loop]) -> None:
    assert loops("optimizer_made_late").steps == list(range(10))


def test_record_function_is_a_range(loops: Callable[[str], Loop]) -> None:
    assert loops("annotated").ranges == {"mine": 3}
    # However late the first comes, and however it is written; the optimizer's own are none.
    assert loops("annotated_late").ranges == {"by keyword": 1, "decorated": 2}


def test_saving_and_loading_is_a_phase(loops: Callable[[str], Loop]) -> None:
    assert loops("saved").phases["checkpoint"] == 2


def test_models_functions_and_scripts_look_untouched(loops: Callable[[str], Loop]) -> None:
    assert "untouched" in loops("looks_untouched").marks


def test_hooks_that_raise_ten_times_turn_the_adapter_off(loops: Callable[[str], Loop]) -> None:
    marks = loops("faulty").marks
    told = "adapter torch off: its hooks raised 10 times, last ValueError"
    assert [mark.startswith(told) for mark in marks if mark.startswith("adapter")] == [True], marks
    assert loops("faulty").phases == {}


def test_patches_that_the_program_takes_out_stay_out(loops: Callable[[str], Loop]) -> None:
    assert loops("patches_removed").steps == [0, 1, 2]
    assert loops("patches_removed").phases["optimizer"] == 3


def test_an_interrupt_inside_a_hook_reaches_the_program(loops: Callable[[str], Loop]) -> None:
    assert "interrupt passed" in loops("interrupted").marks


def test_the_example_that_waits_for_its_data_shows_it(
    loops: Callable[[str], Loop], recording: Recording
) -> None:
    loop = loops("example_dataloader_bound")
    # The start of the workers, twelve batches, and the end of them.
    assert loop.phases["data"] == 1 + 12 + 1 and loop.longest_phase == "data"
    assert {"loader.queue", "loader.workers"} <= loop.counters
    spans = recording.detail("spans")
    fetches = (spans["kind"] == SpanKind.LOADER) & ~np.isin(
        spans["process"], list(_processes(recording).values())
    )
    assert np.count_nonzero(fetches) == 12 and np.unique(spans["process"][fetches]).size == 1


def test_the_example_of_inference_steps_by_calls_and_by_generate(
    loops: Callable[[str], Loop],
) -> None:
    # Of calls the last one is not ended by another; generate itself has an end.
    assert loops("example_infer").steps == list(range(12 - 1))
    assert loops("example_generate").steps == list(range(6))
    assert loops("example_generate").modules["Language.head"] == 6 * 16
