"""The roofline of a rank, with the roofs of its GPU and of others to compare with."""

from __future__ import annotations

from dataclasses import asdict

from pilotlight.errors import UsageError
from pilotlight.insights.rank import RankView
from pilotlight.insights.roofline import Roofline, roofline
from pilotlight.model.hardware import Gpu, find_gpu, gpus
from pilotlight.web import answers

OTHERS = ("A100-80-SXM", "H100-SXM", "H200-SXM", "B200", "MI300X")
RECORD_SHAPES = "no shapes of operators in this trace: record it with record_shapes=True"
NO_SHAPES = {
    "xplane": "no shapes of operators are read from XPlane traces: those of torch.profiler and of"
    " nsys have what it takes"
}
_TYPES = ("bf16", "fp16", "tf32", "fp32")


def roofline_answer(view: RankView, gpu_name: str | None) -> answers.Roofline:
    """What a trace lacks is no error of whoever asks: the answer then says what is missing."""
    gpu = find_gpu(gpu_name or next(iter(view.trace.devices), ""))
    if gpu is None and gpu_name:
        raise UsageError(f"which GPU? One of {', '.join(gpus())}")
    if gpu is None:
        return _missing("the trace names no GPU that is known here: choose the roof of one")
    operators = view.trace.detail.operators
    if not operators.kinds and not len(view.trace.detail.grids.blocks):
        return _missing(NO_SHAPES.get(view.trace.format, RECORD_SHAPES))
    return answer_of(roofline(view, operators, gpu), gpu)


def _missing(why: str) -> answers.Roofline:
    return answers.Roofline("", None, 0.0, [], [], why)


def answer_of(found: Roofline, gpu: Gpu) -> answers.Roofline:
    names = answers.RooflineRow.__struct_fields__
    rows = [asdict(row) for row in found.rows]
    return answers.Roofline(
        gpu=found.gpu,
        mfu_ratio=found.mfu_ratio if found.is_mfu_known else None,
        covered_ratio=found.covered_ratio,
        rows=[answers.RooflineRow(**{name: row[name] for name in names}) for row in rows],
        peaks=peaks_of(gpu),
        is_mfu_a_bound=found.is_mfu_a_bound,
    )


def peaks_of(gpu: Gpu) -> list[answers.Peak]:
    """Its own first."""
    found = [_peak(gpu)] + [_peak(gpus()[name]) for name in OTHERS if name != gpu.name]
    return [peak for peak in found if peak.flops and peak.bytes]


def _peak(gpu: Gpu) -> answers.Peak:
    flops = next((value for kind in _TYPES if (value := gpu.achievable(kind))), 0.0)
    return answers.Peak(gpu.name, flops * 1e12, (gpu.achievable("memory_gb_per_s") or 0.0) * 1e9)
