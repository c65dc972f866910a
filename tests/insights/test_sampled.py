"""What was sampled of a kernel stands with the findings that are about it."""

from __future__ import annotations

from pathlib import Path

from pilotlight.insights.finding import Finding, Remedy
from pilotlight.insights.sampled import NO_SAMPLES, Samples, samples_of, with_samples
from pilotlight.report.kernel_use import KernelUse
from pilotlight.report.stalls import FunctionStalls, Stall

_STALLS = (Stall("long_scoreboard", 60, 0.6, 32), Stall("barrier", 40, 0.4, 64))
_SAMPLES = Samples(
    stalls=(FunctionStalls("gemm", 1, 100, 0.8, _STALLS), FunctionStalls("rare", 1, 3, 0, ())),
    kernels=(KernelUse("gemm", 12, 5e4, 0.9, {"tensor_active": 11.0, "dram_active": 83.0}),),
)


def _finding(kernel: str) -> Finding:
    return Finding(
        rule="A17",
        cause="below_roofline",
        title="slower than it could be",
        rank=0,
        place="forward",
        evidence=("measured",),
        fix="fuse it",
        gain_low_ratio=0.1,
        gain_high_ratio=0.2,
        confidence="medium",
        remedies=(Remedy(kernels=((kernel, 0.5),)),),
    )


def test_a_finding_about_a_kernel_says_why_it_stalls_and_how_busy_it_keeps_units() -> None:
    (found,) = with_samples([_finding("gemm")], _SAMPLES)
    assert found.evidence == (
        "measured",
        "gemm, of 100 PC samples: waits for global memory 60%, waits at a barrier 40%",
        "gemm, in 12 runs with hardware metrics: tensor units are busy 11 %, memory is busy 83 %",
    )


def test_neither_other_kernels_nor_a_handful_of_samples_are_evidence() -> None:
    for kernel in ("norm", "rare"):
        (found,) = with_samples([_finding(kernel)], _SAMPLES)
        assert found.evidence == ("measured",)


def test_what_is_no_recording_has_no_samples(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text("[]")
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "manifest.json").write_text("{")
    assert samples_of([tmp_path / "trace.json", broken]) == NO_SAMPLES
