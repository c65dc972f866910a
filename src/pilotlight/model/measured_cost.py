"""What a kernel did, from the counters that Nsight Compute read while it ran."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from pilotlight.model.cost import Cost

# Operations of the tensor cores by the type they read; those with and without sparsity are also
# counted apart.
_TENSOR = re.compile(r"^sm__ops_path_tensor_src_(fp8|fp16|bf16|tf32|fp64)(?:_dst_\w+)?\.sum$")
_PEAK_OF_TENSOR = {"fp64": "fp64_matrix"}
# Instructions of threads; a fused one is two operations.
_THREAD = re.compile(r"^sm(?:sp)?__sass_thread_inst_executed_op_([dfh])(add|mul|fma)_pred_on\.sum$")
_PEAK_OF_THREAD = {"d": "fp64", "f": "fp32", "h": "fp16"}
_BYTES = "dram__bytes.sum"
_BYTES_BY_WAY = ("dram__bytes_read.sum", "dram__bytes_write.sum")

WANTED_METRICS = (
    _BYTES,
    "sm__ops_path_tensor_src_bf16_dst_fp32.sum",
    *(f"smsp__sass_thread_inst_executed_op_f{what}_pred_on.sum" for what in ("add", "mul", "fma")),
)


@dataclass(frozen=True)
class Measured:
    """Of one launch; None where no counter says it. `peak` is a column of the hardware table."""

    flops: float | None
    bytes: float | None
    peak: str = "fp32"

    def cost(self, model: Cost | None) -> Cost:
        """What was not measured is the model's."""
        if self.flops is not None:
            flops, peak = self.flops, self.peak
        else:
            flops, peak = (model.flops, model.peak) if model else (0.0, self.peak)
        size = self.bytes if self.bytes is not None else (model.bytes if model else 0.0)
        return Cost(flops, size, peak)


def measured_of(metrics: Mapping[str, float]) -> Measured | None:
    """None if no metric tells operations or bytes."""
    work: dict[str, float] = defaultdict(float)
    for name, value in metrics.items():
        if (tensor := _TENSOR.match(name)) and "sparsity" not in name:
            work[_PEAK_OF_TENSOR.get(tensor[1], tensor[1])] += value
        elif thread := _THREAD.match(name):
            work[_PEAK_OF_THREAD[thread[1]]] += value * (2 if thread[2] == "fma" else 1)
    ways = [metrics[name] for name in _BYTES_BY_WAY if name in metrics]
    size = metrics.get(_BYTES, sum(ways) if ways else None)
    if not work and size is None:
        return None
    if not work:
        return Measured(None, size)
    return Measured(sum(work.values()), size, max(work, key=lambda peak: work[peak]))
