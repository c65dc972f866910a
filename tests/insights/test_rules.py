"""Each rule: a story that has the cause and a near one that has not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.insights.telling import verdict

from pilotlight.insights.catalogue import RULES, diagnose
from pilotlight.insights.job import job_of
from pilotlight.insights.kernel import short_name
from pilotlight.insights.verdicts import Diagnosis
from pilotlight.trace.reader import read_traces
from pilotlight.trace.trace import Trace


def diagnosis(*traces: Trace) -> Diagnosis:
    return diagnose(job_of(traces))


def found(*traces: Trace) -> dict[str, int | None]:
    return {finding.rule: finding.rank for finding in diagnosis(*traces).findings}


def steps(story: Any, count: int, body: Any) -> Any:
    for _ in range(count):
        story.step(body)
    return story


def test_a_slow_loader_is_found_with_its_gain(script: Any) -> None:
    story = script()

    def body() -> None:
        story.host("enumerate(DataLoader)#next", 300).launch("sgemm_tensorop", 690).synchronize()

    (finding,) = [f for f in diagnosis(steps(story, 4, body).trace()).findings if f.rule == "A08"]
    assert finding.gain_low_ratio < 0.3 <= finding.gain_high_ratio + 0.01
    assert finding.confidence == "high"


def test_a_loader_hidden_behind_the_device_is_not_found(script: Any) -> None:
    story = script()

    def body() -> None:
        story.launch("gemm_tensorop", 1000).host("enumerate(DataLoader)#next", 300)
        story.host_us = max(story.host_us, story.device_us - 200)

    assert "A08" not in found(steps(story, 4, body).trace())


def test_short_kernels_launched_one_by_one_are_found(script: Any) -> None:
    story = script()

    def body() -> None:
        for _ in range(50):
            story.host("aten::add", 10).launch("elementwise", 3, cost=6)

    assert "A01" in found(steps(story, 3, body).trace())


def test_a_few_launches_that_load_code_are_not_many_short_kernels(script: Any) -> None:
    story = script()
    for _ in range(6):
        story.launch("elementwise", 3, cost=4000)
    for _ in range(50):
        story.host("aten::add", 10).launch("elementwise", 3, cost=6)
        story.launch("gemm_tensorop", 900, cost=6)
        story.host_us = story.device_us + 1
    assert "A01" not in found(story.trace())


def test_long_kernels_in_a_full_queue_are_not_launch_bound(script: Any) -> None:
    story = script()

    def body() -> None:
        for _ in range(50):
            story.launch("gemm_tensorop", 50, cost=6)
        story.host_us = story.device_us - 100

    assert found(steps(story, 3, body).trace()) == {}


def test_launch_bound_explains_the_late_host(script: Any) -> None:
    story = script()

    def body() -> None:
        for _ in range(50):
            story.host("aten::add", 10).launch("elementwise", 3, cost=6)

    rules = found(steps(story, 3, body).trace())
    assert "A01" in rules and "A02" not in rules


def test_a_late_host_is_found_with_what_it_does(script: Any) -> None:
    story = script()

    def body() -> None:
        for _ in range(5):
            story.host("my_metrics", 80).launch("gemm_tensorop", 100)
            story.host_us = story.device_us

    (finding,) = diagnosis(steps(story, 3, body).trace()).findings
    assert (finding.rule, finding.place) == ("A02", "my_metrics")


def test_synchronisation_in_every_step_is_found_with_the_caller(script: Any) -> None:
    story = script()

    def body() -> None:
        for _ in range(4):
            story.launch("gemm_tensorop", 200)
            begin = story.host_us
            story.synchronize()
            story.span("cpu_op", "aten::item", begin, story.host_us - begin)
            story.host_us += 40

    (finding,) = diagnosis(steps(story, 3, body).trace()).findings
    assert finding.rule == "A03"
    assert "cudaStreamSynchronize in aten::item" in finding.evidence


def test_garbage_collection_that_stops_the_device_is_found(script: Any) -> None:
    story = script()

    def body() -> None:
        story.launch("gemm_tensorop", 500).host("Python GC", 600).launch("gemm_tensorop", 500)
        story.host_us = story.device_us

    assert "A04" in found(steps(story, 4, body).trace())


def test_exposed_copies_from_pageable_memory_are_found(script: Any) -> None:
    story = script()

    def body() -> None:
        story.launch("Memcpy HtoD (Pageable -> Device)", 200, category="gpu_memcpy")
        story.launch("gemm_tensorop", 500)
        story.host_us = story.device_us - 50

    (finding,) = diagnosis(steps(story, 4, body).trace()).findings
    assert finding.rule == "A11"
    assert "pin_memory" in finding.fix


@pytest.mark.parametrize("framework", ["aten::mul", ""])
def test_copies_within_the_device_are_not_told_to_stay_there(script: Any, framework: str) -> None:
    story = script()
    for _ in range(4):
        story.launch("Memcpy DtoD (Device -> Device)", 200, category="gpu_memcpy")
        story.launch("gemm_tensorop", 500)
        story.host_us = story.device_us - 50
    trace = story.trace()
    (finding,) = diagnosis(replace(trace, names=(*trace.names, framework))).findings
    assert finding.rule == "A11"
    assert "within the device" in finding.title.lower()
    assert "contiguous()" in finding.fix


def test_fp32_products_are_found_on_a_device_with_tensor_cores(script: Any) -> None:
    story = script()

    def body() -> None:
        story.launch("volta_sgemm_128x64_nn", 500).launch("elementwise", 500)
        story.host_us = story.device_us - 50

    steps(story, 3, body)
    assert "A14" in found(story.trace())
    assert "A14" not in found(story.trace(device="Unknown device"))


def test_products_on_tensor_cores_are_not_found(script: Any) -> None:
    story = script()

    def body() -> None:
        story.launch("volta_h884gemm_128x64_nn", 500)
        story.host_us = story.device_us - 50

    assert found(steps(story, 3, body).trace()) == {}


def test_softmax_between_batched_products_is_unfused_attention(script: Any) -> None:
    story = script()

    def body() -> None:
        story.host("aten::bmm", 5).launch("gemm_tensorop", 200)
        story.host("aten::softmax", 5).launch("softmax_warp_forward", 100)
        story.host_us = story.device_us - 50

    steps(story, 3, body)
    assert "A18" in found(story.trace())
    story.launch("flash_fwd_kernel", 10)
    assert "A18" not in found(story.trace())


def test_steps_that_take_twice_as_long_are_found_with_their_rhythm(script: Any) -> None:
    story = script()
    for number in range(40):
        story.step(lambda n=number: story.host("work", 500 if n % 10 == 9 else 100))
    (finding,) = diagnosis(story.trace()).findings
    assert (finding.rule, finding.place) == ("A07", "every 10 steps")
    assert 0.1 < finding.gain_ratio < 0.3


def test_even_steps_have_no_spikes(script: Any) -> None:
    story = script()
    for number in range(40):
        story.step(lambda n=number: story.host("work", 100 + n % 7))
    assert found(story.trace()) == {}


def ranks(
    script: Any, work_us: list[float], variant: str = "kernel", transfer_us: float = 60
) -> list[Trace]:
    """Ranks that meet in one all-reduce a step, after work of different length."""
    traces = []
    for rank, own_us in enumerate(work_us):
        story = script(rank, len(work_us))
        for step in range(5):
            begin = story.host_us = step * 2000.0
            names = ("gemm_tensorop_a", "gemm_tensorop_b", "relu_elementwise")
            if variant == "kernel":
                for name in names:
                    story.device_us = story.host_us
                    story.launch(name, own_us / 3)
                    story.host_us = story.device_us - 4
            else:
                for name in names:
                    story.launch(name, 100)
                story.host("slow_python", own_us)
            arrival = max(story.device_us, story.host_us) + 3
            margin = 30 if variant == "kernel" else 330
            end = begin + max(work_us) + margin + transfer_us
            story.span("kernel", "ncclDevKernel_AllReduce_Sum", arrival, end - arrival)
            story.device_us = story.host_us = end
            story.span("user_annotation", f"ProfilerStep#{step}", begin, 2000)
        traces.append(story.trace())
    return traces


def test_one_slow_device_is_found_and_explains_the_waiting(script: Any) -> None:
    rules = found(*ranks(script, [600, 600, 900, 600]))
    assert rules.get("A23") == 2
    assert "A25" not in rules and "A26" not in rules


def test_a_rank_with_a_slow_host_is_a_straggler_not_a_slow_device(script: Any) -> None:
    rules = found(*ranks(script, [400, 400, 900, 400], variant="host"))
    assert rules.get("A26") == 2
    assert "A23" not in rules


def test_equal_ranks_have_no_straggler(script: Any) -> None:
    rules = found(*ranks(script, [600, 602, 598, 601]))
    assert "A26" not in rules and "A23" not in rules


def test_exposed_communication_is_found(script: Any) -> None:
    rules = found(*ranks(script, [600, 602, 598, 601], transfer_us=400))
    assert "A25" in rules


def test_one_rank_alone_cannot_tell_waiting_from_transfer(script: Any) -> None:
    traces = ranks(script, [600, 602, 598, 601], transfer_us=400)
    (alone,) = verdict("A25", traces[0]).findings
    assert alone.confidence == "medium"
    assert any("only one rank was traced" in text for text in alone.evidence)
    assert {one.confidence for one in verdict("A25", *traces).findings} == {"high"}


def test_a_host_that_waits_for_other_ranks_exposes_communication(script: Any) -> None:
    """A step is 912 µs, 300 of them waiting. The steady three end with their last kernel: two waits
    in 2436 µs."""
    story = script()
    for _ in range(4):
        story.step(lambda: story.launch("gemm", 600).synchronize().host("gloo:all_reduce", 300))
    (finding,) = (row for row in diagnosis(story.trace()).findings if row.rule == "A25")
    assert any("waits for other ranks" in text for text in finding.evidence)
    assert finding.gain_high_ratio == pytest.approx(600 / 2436, rel=0.01)


def test_rules_without_their_signals_say_what_is_missing(script: Any) -> None:
    missing = {
        row.rule: row.missing for row in diagnosis(script().launch("k", 10).trace()).not_checked
    }
    assert "data loader" in missing["A08"]
    assert "ranks" in missing["A26"]


def test_findings_under_half_a_per_cent_are_not_shown(script: Any) -> None:
    for finding in diagnosis(*ranks(script, [600, 602, 598, 601])).findings:
        assert finding.gain_high_ratio >= 0.005


def test_every_rule_has_its_page() -> None:
    folder = Path(__file__).parents[2] / "docs" / "insights"
    assert [rule.identity for rule in RULES if not list(folder.glob(f"{rule.identity}-*.md"))] == []


def test_the_loader_is_found_in_the_first_of_the_pair_and_not_in_the_second(
    shared_data: Path,
) -> None:
    pair = []
    for workers in (0, 4):
        path = shared_data / "kineto" / f"resnet50_workers{workers}.json.gz"
        job = job_of(read_traces([path]).traces)
        pair.append((job, diagnose(job)))
    (slow, slow_diagnosis), (fixed, fixed_diagnosis) = pair
    first = slow_diagnosis.findings[0]
    assert first.rule == "A08"
    assert "A08" not in {finding.rule for finding in fixed_diagnosis.findings}
    true_gain = 1 - fixed.step_ns / slow.step_ns
    assert abs(first.gain_ratio - true_gain) <= 0.2 * true_gain


def test_the_offload_export_is_bound_by_its_copies(shared_data: Path) -> None:
    traces = read_traces([shared_data / "nsys" / "h100_2gpu_1s.sqlite"]).traces
    first = diagnosis(*traces).findings[0]
    assert first.rule == "A11"
    assert "Memcpy HtoD (Pinned -> Device)" in first.place
    assert first.gain_high_ratio > 0.6


def test_no_two_rules_explain_each_other() -> None:
    explains = {rule.identity: set(rule.explains) for rule in RULES}
    for rule, others in explains.items():
        assert others <= set(explains)
        assert all(rule not in explains[other] for other in others)


def test_the_whole_catalogue_of_forty_rules_is_there() -> None:
    numbers = {rule.identity[:3] for rule in RULES}
    assert numbers == {f"A{number:02}" for number in range(1, 41)}


def test_kernels_that_the_profiler_lost_are_no_waits(script: Any) -> None:
    """In three of ten steps the first kernel after the blocking call is missing."""
    story = script()
    for step in range(10):

        def body(step: int = step) -> None:
            story.launch("gemm", 400.0).launch("gemm", 600.0).synchronize()
            if step in (3, 5, 8):
                del story.events[-4]

        story.step(body)
    assert not verdict("A03", story.trace()).findings


def test_a_kernel_whose_return_type_is_a_template_has_a_short_name() -> None:
    name = "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, float>(int)"
    assert short_name(name) == "kernel"


def test_a_kernel_in_an_unnamed_namespace_has_a_short_name() -> None:
    for space in ("(anonymous namespace)", "<unnamed>"):
        assert short_name(f"void at::native::{space}::CatArray<float, 4>(int)") == "CatArray"


def test_launched_work_that_starts_late_is_found(script: Any) -> None:
    """The call returns at once, the kernel of 100 µs begins 50 µs after the one before it ended;
    without the delay nothing is found."""
    late, prompt = script(), script()
    for story, delay in ((late, 50), (prompt, 0)):
        for _ in range(6):
            story.launch("gemm", 100)
            story.device_us += delay
    (finding,) = verdict("A02q", late.trace()).findings
    assert 0.25 < finding.gain_high_ratio < 0.35
    assert not verdict("A02q", prompt.trace()).findings


def test_work_that_waits_for_another_stream_says_so(script: Any) -> None:
    story = script().launch("gemm", 100).host("cudaStreamWaitEvent", 2, "cuda_runtime")
    story.device_us += 500
    (finding,) = verdict("A02q", story.launch("gemm", 100).trace()).findings
    assert any("cudaStreamWaitEvent" in text for text in finding.evidence)
