from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from example import Process, write_chunk, write_example, write_head

from pilotlight.recording.manifest import AgentFacts, Lost
from pilotlight.recording.processes import ProcessEnd, ProcessStart, append_event
from pilotlight.recording.recording import Recording
from pilotlight.report.devices import DeviceEvent, DeviceValues
from pilotlight.report.gpu_work import WorkTime
from pilotlight.report.headline import headline
from pilotlight.report.phases import PhaseTimes
from pilotlight.report.report import Report, report_of

MS = 1_000_000
S = 1000 * MS


def report(folder: Path, *processes: Process, ended: str = "exit") -> Report:
    return report_of(Recording.open(write_example(folder, *processes, ended=ended)))


def test_threads_are_told_by_state(tmp_path: Path) -> None:
    process = Process(0)
    process.add("threads", 100, process.name("MainThread"))
    for number, state in enumerate([1, 1, 1, 2, 3, 4, 0, 77]):
        process.add("samples", 100, process.stack("f"), state, 0, number * S, 10 * MS)
    process.add("samples", 200, process.stack("f"), 2, 0, S, 10 * MS)
    main, other = report(tmp_path, process).threads
    assert (main.name, main.is_main, main.samples, other.is_main) == ("MainThread", True, 8, False)
    times = main.times
    assert (times.running_ns, times.waiting_ns, times.gil_wait_ns) == (30 * MS, 10 * MS, 10 * MS)
    assert (times.disk_ns, times.unknown_ns, times.total_ns) == (10 * MS, 20 * MS, 80 * MS)


def test_a_range_has_count_total_self_and_quantiles(tmp_path: Path) -> None:
    process = Process(0)
    step, forward = process.name("step"), process.name("forward")
    for number in range(20):
        start = number * S
        process.add("spans", 7, step, 1, 0, start, (number + 1) * 10 * MS)
        process.add("spans", 7, forward, 1, 0, start + MS, 4 * MS)
        process.add("spans", 8, forward, 1, 0, start, 2 * MS)
    outer, inner = report(tmp_path, process).ranges
    assert (outer.name, outer.count, outer.total_ns) == ("step", 20, 2100 * MS)
    assert outer.self_ns == (2100 - 20 * 4) * MS
    assert (outer.p50_ns, outer.p95_ns, outer.max_ns) == (100 * MS, 190 * MS, 200 * MS)
    assert (inner.name, inner.count, inner.total_ns, inner.self_ns) == (
        "forward",
        40,
        120 * MS,
        120 * MS,
    )


def test_a_range_without_begin_or_end_is_counted_apart(tmp_path: Path) -> None:
    process = Process(0)
    for flags, length in ((0, 5), (1, 700), (2, 900)):
        process.add("spans", 7, process.name("load"), 1, flags, S, length * MS)
    (load,) = report(tmp_path, process).ranges
    assert (load.count, load.partial, load.total_ns, load.max_ns) == (1, 2, 5 * MS, 5 * MS)


def test_garbage_collection_is_a_share_of_the_life_of_a_process(tmp_path: Path) -> None:
    process = Process(0)
    for start, length in ((1, 100), (5, 350)):
        process.add("spans", 7, 0, 2, 0, start * S, length * MS)
    (garbage,) = report(tmp_path, process).garbage
    assert (garbage.count, garbage.total_ns, garbage.longest_ns) == (2, 450 * MS, 350 * MS)
    assert garbage.longest_since_start_ns == 5 * S - 1_000
    assert garbage.ratio == pytest.approx(0.45 / 90)


def test_counters_keep_last_least_and_greatest(tmp_path: Path) -> None:
    process = Process(0)
    for time, value in ((3, 2.0), (1, 9.0), (2, -1.0), (4, float("nan")), (5, float("inf"))):
        process.add("counters", 7, process.name("loss"), time * S, value)
    (loss,) = report(tmp_path, process).counters
    assert (loss.name, loss.last, loss.min, loss.max) == ("loss", 2.0, -1.0, 9.0)
    assert (loss.count, loss.not_numbers) == (3, 2)


def test_a_gap_is_told_with_the_steps_in_which_it_fell(tmp_path: Path) -> None:
    process = Process(0)
    for number in range(5):
        process.add("steps", 7, number + 40, 2 * S + number * S, S)
    process.add("gaps", 0, 1, 3 * S + 5, 3 * S + 9, 7)
    process.add("gaps", 1, 1, 4 * S + 5, 4 * S + 9, 5)
    process.add("gaps", 1, 99, S, S, 1)
    full, strange = report(tmp_path, process).losses.gaps
    assert (full.reason, full.count) == ("the ring was full", 12)
    assert (full.first_step, full.last_step) == (41, 42)
    assert full.first_since_start_ns == 3 * S + 5 - 1_000
    assert (strange.reason, strange.first_step) == ("reason 99", None)
    assert report_losses(tmp_path) == 13


def report_losses(folder: Path) -> int:
    return report_of(Recording.open(folder)).losses.records_dropped


def test_what_the_recorder_and_the_sampler_lost_is_told(tmp_path: Path) -> None:
    write_head(tmp_path, lost=Lost(2, 30, ("disk full",)), last_chunk=1)
    rows = [(0, S, 100, 300, 4, 5, MS, 10 * MS), (0, 2 * S, 100, 300, 1, 0, MS, 10 * MS)]
    write_chunk(tmp_path / "detail" / "000001", {"sampler": rows})
    losses = report_of(Recording.open(tmp_path)).losses
    assert (losses.chunks_dropped, losses.rows_dropped) == (2, 30)
    assert (losses.samples_torn, losses.passes_skipped) == (5, 5)
    assert losses.write_errors == ("disk full",)


def test_the_cost_of_the_profiler_is_measured_between_its_own_records(tmp_path: Path) -> None:
    agent = AgentFacts(1, "0.1.0", cpu_ns=20 * MS, wall_ns=10 * S, rss_bytes=40_000_000)
    write_head(tmp_path, agent=agent, detail_bytes=123, last_chunk=1)
    rows = [(0, number * S, 95, 285, 0, 0, 4 * MS, 10 * MS) for number in range(1, 12)]
    write_chunk(tmp_path / "detail" / "000001", {"sampler": rows})
    overhead = report_of(Recording.open(tmp_path)).overhead
    (sampler,) = overhead.samplers
    assert sampler.cpu_ratio == pytest.approx(0.004)
    assert (sampler.achieved_hz, sampler.asked_hz) == (95.0, 100.0)
    assert overhead.agent_cpu_ratio == pytest.approx(0.002)
    assert (overhead.agent_rss_bytes, overhead.recorded_bytes) == (40_000_000, 123)


def test_what_was_not_measured_is_none_and_not_zero(tmp_path: Path) -> None:
    write_head(tmp_path, agent=AgentFacts(1, "0.1.0"))
    overhead = report_of(Recording.open(tmp_path)).overhead
    assert (overhead.samplers, overhead.agent_cpu_ratio, overhead.agent_rss_bytes) == (
        (),
        None,
        None,
    )


def test_processes_tell_how_they_ended(tmp_path: Path) -> None:
    process = Process(0)
    process.add("marks", 100, process.name("ValueError"), 3, 5 * S, 0)
    process.add("marks", 100, process.name("too many threads"), 5, 4 * S, 0)
    (facts,) = report(tmp_path, process, ended="died").processes
    assert (facts.label, facts.pid, facts.how) == ("rank 0", 100, "died")
    assert (facts.exception, facts.off) == ("ValueError", "too many threads")
    assert facts.command == "python train.py"
    assert facts.duration_ns == 90 * S - 1_000


def test_the_headline_tells_the_step_the_slow_rank_and_the_worst_outlier(tmp_path: Path) -> None:
    processes = [Process(0), Process(1), Process(2)]
    for process in processes:
        start = 2_000
        for number in range(20):
            length = (50 if process.index == 2 else 40) * MS
            length += 900 * MS if number == 0 else 400 * MS if number == 9 else 0
            process.add("steps", 7, number, start, length)
            start += length
    found = headline(report(tmp_path, *processes))
    assert found.startswith("A step takes 40.0 ms (20 steps); rank 2 is 25.0 % slower")
    assert "6 outliers, the worst 450 ms (step 9 of rank 2)" in found


@pytest.mark.parametrize(("least", "is_told"), [(0.1, True), (0.7, False)])
def test_the_headline_tells_for_whom_the_ranks_wait(
    tmp_path: Path, least: float, is_told: bool
) -> None:
    processes = [Process(0), Process(1)]
    for process in processes:
        for number in range(20):
            process.add("steps", 7, number, 2_000 + number * 40 * MS, 40 * MS)
    phases = (
        PhaseTimes(0, "communication", 20, 600 * MS, 0.75),
        PhaseTimes(1, "communication", 20, 80 * MS, least),
    )
    found = headline(replace(report(tmp_path, *processes), phases=phases))
    where = "on rank 0" if is_told else "on each rank"
    assert f"75.0 % of it {where} is communication" in found
    assert (", mostly waiting for rank 1, which has 10.0 % of it" in found) == is_told


def test_the_headline_without_steps_tells_the_busiest_function(tmp_path: Path) -> None:
    process = Process(0)
    process.add("threads", 100, process.name("MainThread"))
    process.add("samples", 100, process.stack("main", "parse"), 1, 0, S, 75 * MS)
    process.add("samples", 100, process.stack("main"), 1, 0, 2 * S, 25 * MS)
    assert headline(report(tmp_path, process)).startswith(
        "75.0 % of the time of the main threads is spent in parse; no step was marked"
    )


@pytest.mark.parametrize("is_back", [False, True])
def test_the_headline_names_a_gpu_that_was_lost_and_did_not_come_back(
    tmp_path: Path, is_back: bool
) -> None:
    found = report(tmp_path, Process(0))
    told = [DeviceEvent(5_000_000_000, "gpu1", "lost", 0, "")]
    told += [DeviceEvent(6_000_000_000, "gpu1", "back", 0, "")] if is_back else []
    found = replace(found, devices=replace(found.devices, events=tuple(told)))
    assert ("gpu1 did not answer any more after 5.00 s." in headline(found)) == (not is_back)


def test_the_headline_of_a_program_without_python_tells_the_work_of_its_gpus(
    tmp_path: Path,
) -> None:
    found = report(tmp_path, Process(0))
    gemm = WorkTime("gemm", "kernel", 9, 9, 900, 900, 900, 0.75, 100, "", True)
    graph = replace(gemm, name="CUDA graph 1", kind="graph", ratio=1, is_in_graphs=False)
    found = replace(found, gpu=replace(found.gpu, work=(graph, gemm)))
    assert headline(found).startswith("75.0 % of the work of the devices is gemm; no Python code")


def test_the_headline_of_nothing_says_what_to_do(tmp_path: Path) -> None:
    write_head(tmp_path / "none", ranks=0)
    assert "pilotlight doctor" in headline(report_of(Recording.open(tmp_path / "none")))
    write_head(tmp_path / "short")
    assert "sampled in 90.0 s" in headline(report_of(Recording.open(tmp_path / "short")))


def test_the_headline_says_that_a_rank_died(tmp_path: Path) -> None:
    assert "Rank 0 died." in headline(report(tmp_path, Process(0), ended="died"))


def ended(folder: Path, *ends: tuple[int | None, str, int | None]) -> Report:
    """Processes by rank, how they ended and their exit code."""
    write_head(folder, ranks=0, exit_code=1)
    for number, (rank, how, code) in enumerate(ends):
        identity = {"job": "example", "rank": rank}
        append_event(folder, ProcessStart(number, 100 + number, 5, "", 1, 2, (1, 0), identity))
        append_event(folder, ProcessEnd(number, how, 90 * S, exit_code=code))
    return report_of(Recording.open(folder))


def test_the_headline_names_those_that_died_and_their_signal(tmp_path: Path) -> None:
    found = headline(
        ended(tmp_path, (0, "died", -9), (1, "died", -15), (2, "died", -9), (3, "died", None))
    )
    assert "Rank 0, rank 2 died of SIGKILL. Rank 1 died of SIGTERM. Rank 3 died. The" in found


def test_the_headline_names_a_rank_that_was_started_again_once(tmp_path: Path) -> None:
    found = headline(ended(tmp_path, (1, "died", -9), (0, "died", -9), (1, "died", -9)))
    assert "Rank 1 (2 times), rank 0 died of SIGKILL." in found


def test_the_headline_names_the_first_to_end_first(tmp_path: Path) -> None:
    write_head(tmp_path, ranks=0, exit_code=1)
    for number, (code, end_s) in enumerate([(-15, 9), (-11, 8), (-15, 9)]):
        identity = {"job": "example", "rank": number}
        append_event(tmp_path, ProcessStart(number, 100 + number, 5, "", 1, 2, (1, 0), identity))
        append_event(tmp_path, ProcessEnd(number, "died", end_s * S, exit_code=code))
    found = headline(report_of(Recording.open(tmp_path)))
    assert "Rank 1 died of SIGSEGV. Rank 0, rank 2 died of SIGTERM." in found


def test_the_headline_leaves_out_how_a_pool_ends_its_workers(tmp_path: Path) -> None:
    found = ended(tmp_path, (None, "exit", 1), (None, "died", -15), (None, "exit", 9))
    assert headline(found).endswith("a second or more? The command ended with exit code 1.")


def test_a_function_has_its_part_of_all_time_however_many_there_are(tmp_path: Path) -> None:
    process = Process(0)
    process.add("threads", 100, process.name("MainThread"))
    for number in range(500):
        stack = process.stack("main", f"one of many {number}")
        process.add("samples", 100, stack, 1, 0, number * MS, 10 * MS)
    found = report(tmp_path, process)
    assert (found.functions_found, found.functions_ns) == (501, 5 * S)
    assert len(found.functions) < 500
    (main,) = [one for one in found.functions if one.function == "main"]
    assert main.total_ns == found.functions_ns
    assert headline(found).startswith("0.200 % of the time")


@pytest.mark.parametrize(("waited", "is_told"), [(98.8, True), (12.0, False)])
def test_the_headline_says_that_cpus_were_lacking(
    tmp_path: Path, waited: float, is_told: bool
) -> None:
    process = Process(0)
    process.add("steps", 7, 0, 2_000, 40 * MS)
    pressure = DeviceValues(
        "host", "pressure_cpu_some", "%", 9, waited, waited, waited, waited, False
    )
    found = report(tmp_path, process)
    found = replace(found, devices=replace(found.devices, values=(pressure,)))
    assert ("waited for a CPU 98.8 % of the time." in headline(found)) == is_told


def test_the_headline_says_that_the_command_failed(tmp_path: Path) -> None:
    write_head(tmp_path / "failed", exit_code=1)
    write_head(tmp_path / "killed", exit_code=None, signal=9)
    assert "exit code 1." in headline(report_of(Recording.open(tmp_path / "failed")))
    assert "by SIGKILL." in headline(report_of(Recording.open(tmp_path / "killed")))
