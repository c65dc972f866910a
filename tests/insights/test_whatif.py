from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pilotlight.errors import UsageError
from pilotlight.insights.job import Job, job_of, steady_part
from pilotlight.insights.recorded_graph import Role, recorded_graph
from pilotlight.insights.whatif import (
    Whatif,
    at_bandwidth,
    at_batch,
    least_ns,
    on_gpu,
    overlapped_ns,
    parse_factor,
    parse_scale,
    scaled,
    whatif,
    without,
)
from pilotlight.model.hardware import gpus
from pilotlight.simulate.fault import Fault
from pilotlight.simulate.job import JobShape
from pilotlight.simulate.run import simulate, step_us
from pilotlight.trace.reader import read_traces

SHAPE = JobShape(ranks=2, steps=4, layers=3)


def job(*faults: Fault) -> Job:
    return job_of(simulate(SHAPE, faults))


@pytest.mark.parametrize(
    "name",
    [
        "kineto/resnet50_workers0.json.gz",
        "kineto/diff_control_a100.json.gz",
        "kineto/qwen_mi300.json.gz",
        "kineto/dlrm_v100_8ranks.tar.gz",
        "nsys/mfu_2gpu_before.sqlite",
    ],
)
def test_real_traces_replay_to_what_was_recorded(shared_data: Path, name: str) -> None:
    graph = recorded_graph(job_of(read_traces([shared_data / name]).traces))
    assert whatif(graph, graph.duration_ns).replay_error_ratio <= 0.02


def test_a_simulated_job_replays_to_itself() -> None:
    graph = recorded_graph(job())
    assert whatif(graph, graph.duration_ns).replay_error_ratio < 0.001


def test_without_the_loader_the_job_is_as_fast_as_one_that_never_waited() -> None:
    fault = Fault("loader", factor=1.4)
    graph = recorded_graph(job(fault))
    found = whatif(graph, without(graph, graph.duration_ns, "loader")).gain_ratio
    true = 1 - step_us(simulate(SHAPE)) / step_us(simulate(SHAPE, (fault,)))
    assert found == pytest.approx(true, abs=0.02)


def test_without_garbage_collection_the_job_is_as_fast_as_one_without_it() -> None:
    fault = Fault("gc", factor=1.4)
    graph = recorded_graph(job(fault))
    found = whatif(graph, without(graph, graph.duration_ns, "gc")).gain_ratio
    true = 1 - step_us(simulate(SHAPE)) / step_us(simulate(SHAPE, (fault,)))
    assert found == pytest.approx(true, abs=0.08)


def test_a_slow_device_scaled_back_frees_all_ranks() -> None:
    shape = JobShape(ranks=3, steps=4, layers=3, kernel_jitter_ratio=0, device_spread_ratio=0)
    slow = (Fault("slow_gpu", 1, 1.5),)
    graph = recorded_graph(job_of(simulate(shape, slow)))
    repaired = np.where((graph.rank == 1) & (graph.role == Role.KERNEL), 1 / 1.5, 1.0)
    found = whatif(graph, graph.duration_ns * repaired).gain_ratio
    true = 1 - step_us(simulate(shape)) / step_us(simulate(shape, slow))
    assert found == pytest.approx(true, abs=0.03)


def test_kernels_scale_by_their_name() -> None:
    graph = recorded_graph(job())
    half = scaled(graph, graph.duration_ns, [parse_scale("nvjet=0.5x")])
    changed = graph.duration_ns != half
    assert {graph.names[i] for i in graph.name[changed]} == {
        name for name in graph.names if "nvjet" in name
    }
    assert whatif(graph, half).gain_ratio > 0.1


def test_a_gain_of_nothing_has_no_sign() -> None:
    assert Whatif(1e9, 1e9, 1e9 + 1).gain_text == "0.0 %"
    assert Whatif(1e9, 1e9, 1.1e9).gain_text == "-10.0 %"


def test_a_pattern_that_matches_calls_alone_matches_no_kernel() -> None:
    graph = recorded_graph(job())
    assert any("cudaLaunchKernel" in name for name in graph.names)
    with pytest.raises(UsageError, match="no kernel matches"):
        scaled(graph, graph.duration_ns, [parse_scale("cudaLaunchKernel=0.5x")])


def test_a_pattern_that_matches_nothing_is_a_usage_error() -> None:
    graph = recorded_graph(job())
    with pytest.raises(UsageError, match="no kernel matches"):
        scaled(graph, graph.duration_ns, [parse_scale("zzz=0.5x")])


@pytest.mark.parametrize("text", ["", "gemm", "gemm=fast", "(=0.5x", "=0.5x", "gemm=-1x"])
def test_a_wrong_scale_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="--kernel"):
        parse_scale(text)


def test_a_faster_gpu_gains_and_the_same_does_not() -> None:
    graph = recorded_graph(job())
    table = gpus()
    same = on_gpu(graph, graph.duration_ns, table["H100-SXM"], table["H100-SXM"])
    faster = on_gpu(graph, graph.duration_ns, table["H100-SXM"], table["B200"])
    assert whatif(graph, same).gain_ratio == pytest.approx(0)
    assert whatif(graph, faster).gain_ratio > 0.2


def gain(faults: tuple[Fault, ...], change: object, shape: JobShape = SHAPE) -> tuple[float, float]:
    """What the replay finds, and what the job without the faults gains."""
    graph = recorded_graph(job_of(simulate(shape, faults)))
    assert callable(change)
    found = 1 - change(graph) / graph.total_ns(graph.duration_ns)
    return found, 1 - step_us(simulate(shape)) / step_us(simulate(shape, faults))


@pytest.mark.parametrize(
    ("kind", "what"),
    [("recompile", "compile"), ("checkpoint", "checkpoint"), ("pageable", "copies")],
)
def test_without_a_stall_the_job_is_as_fast_as_one_that_never_had_it(kind: str, what: str) -> None:
    found, true = gain(
        (Fault(kind, 0, 1.4),),
        lambda graph: graph.total_ns(without(graph, graph.duration_ns, what)),
        JobShape(ranks=2, steps=8, layers=3),
    )
    assert found == pytest.approx(true, abs=0.07)


def test_without_blocking_calls_the_host_runs_ahead() -> None:
    found, true = gain(
        (Fault("sync", 0, 1.3),),
        lambda graph: graph.without_waits("sync").total_ns(graph.duration_ns),
    )
    assert found == pytest.approx(true, abs=0.05)


def test_ranks_alike_are_as_fast_as_without_the_slow_one() -> None:
    shape = JobShape(ranks=4, steps=4, layers=3)
    found, true = gain(
        (Fault("slow_gpu", 1, 1.4),),
        lambda graph: graph.total_ns(without(graph, graph.duration_ns, "straggler")),
        shape,
    )
    assert found == pytest.approx(true, abs=0.03)


def test_one_rank_alone_has_no_straggler() -> None:
    graph = recorded_graph(job_of(simulate(JobShape(ranks=1, steps=3, layers=3))))
    with pytest.raises(UsageError, match="two ranks"):
        without(graph, graph.duration_ns, "straggler")


def test_a_faster_network_undoes_a_slow_one() -> None:
    found, true = gain(
        (Fault("slow_network", 0, 12.0),),
        lambda graph: graph.total_ns(at_bandwidth(graph, graph.duration_ns, 12.0)),
    )
    assert found == pytest.approx(true, abs=0.05)


def test_overlap_hides_at_most_what_compute_can_hide() -> None:
    graph = recorded_graph(job(Fault("slow_network", 0, 12.0)))
    whole = graph.total_ns(graph.duration_ns)
    best = graph.total_ns(without(graph, graph.duration_ns, "exposed-comm"))
    assert best < overlapped_ns(graph, graph.duration_ns) < whole


def test_twice_the_batch_takes_less_than_twice_the_time() -> None:
    graph = recorded_graph(job())
    whole = graph.total_ns(graph.duration_ns)
    twice = graph.total_ns(at_batch(graph, graph.duration_ns, 2.0))
    assert 1.5 * whole < twice < 2 * whole


@pytest.mark.parametrize("text", ["", "0x", "-1", "fast", "nan"])
def test_a_wrong_factor_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="--batch"):
        parse_factor("--batch", text)


@pytest.mark.parametrize(("handover_us", "is_known"), [(5, True), (18, True), (300, False)])
def test_a_stream_that_waited_long_waited_for_the_one_that_ended_before(
    script: Any, handover_us: float, is_known: bool
) -> None:
    """Streams of ROCm hand over in up to 20 µs; who waits 2 ms does not begin then by chance."""
    story = script()
    story.launch("gemm", 100.0).launch("ncclDevKernel_Generic", 2000.0)
    collective = story.events[-1]
    collective["tid"] = 8
    story.device_us += handover_us
    story.launch("copy_kernel", 100.0)
    graph = recorded_graph(job_of([story.trace()]))
    shorter = np.where(graph.role == Role.COLLECTIVE, 0.0, graph.duration_ns)
    gain = 1 - graph.total_ns(shorter) / graph.total_ns(graph.duration_ns)
    assert (gain > 0.8) == is_known


def test_a_device_needs_what_its_kernels_took_at_the_concurrency_that_was_recorded() -> None:
    recorded = job(Fault("sync", factor=1.5))
    graph = recorded_graph(recorded)
    compute_ns = max(view.line.compute.total_ns() for view in recorded.ranks)
    assert least_ns(recorded, graph, graph.duration_ns) == compute_ns
    shorter = without(graph, graph.duration_ns, "launch")
    assert least_ns(recorded, graph, shorter) == compute_ns
    kernels = np.where(graph.role == Role.KERNEL, 0.5, 1.0) * graph.duration_ns
    assert least_ns(recorded, graph, kernels) == 0


def test_a_pipeline_without_synchronisation_still_sends_what_it_has_computed() -> None:
    shape = JobShape(ranks=4, steps=6, layers=8, pipeline=4, micro_batches=8, seed=5)
    waiting = simulate(shape, [Fault("sync", factor=2.0)])
    truth = 1 - step_us(simulate(shape)) / step_us(waiting)
    graph = recorded_graph(steady_part(job_of(waiting)))
    after = graph.without_waits("sync").total_ns(graph.duration_ns)
    assert truth > 0.15
    assert 1 - after / graph.total_ns(graph.duration_ns) == pytest.approx(truth, abs=0.03)
