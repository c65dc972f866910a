"""Plays a job: a host thread, a compute stream and a communication stream a rank, and collectives
that all ranks leave together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pilotlight.simulate.fault import Fault
from pilotlight.simulate.job import JobShape
from pilotlight.simulate.tape import COMM_STREAM, COMPUTE_STREAM, Tape
from pilotlight.trace.trace import Kind, Trace

LAUNCH_LATENCY_US = 2.0
SYNC_RETURN_US = 4.0
ITEM_US = 15.0
SHORT_KERNEL_US = 4.0
GC_EVERY_STEPS = 3

_FORWARD = (
    ("layer_norm_kernel<bfloat16>", "norm_us", "aten::layer_norm"),
    ("nvjet_tst_192x192_64x4_qkv_TNN", "gemm_us", "aten::linear"),
    ("flash_fwd_kernel<bf16_128>", "attention_us", "aten::scaled_dot_product_attention"),
    ("nvjet_tst_128x256_64x4_mlp_TNN", "gemm_us", "aten::linear"),
    ("vectorized_elementwise_kernel<gelu>", "elementwise_us", "aten::gelu"),
)
_COLLECTIVE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


@dataclass
class _Rank:
    number: int
    tape: Tape
    random: np.random.Generator
    device_ratio: float
    host_us: float = 0.0
    compute_us: float = 0.0
    comm_us: float = 0.0
    buckets: list[tuple[float, int]] = field(default_factory=list)
    step_start_us: float = 0.0


def simulate(shape: JobShape, faults: Sequence[Fault] = ()) -> tuple[Trace, ...]:
    """The traces of all ranks; the same seed gives the same job with and without a fault."""
    return _Player(shape, tuple(faults)).play()


def step_us(traces: Sequence[Trace]) -> float:
    """Mean step of the steady part, which truth is computed from."""
    ends = [t.steps.start_ns[-1] + t.steps.duration_ns[-1] for t in traces]
    skip = 1 if len(traces[0].steps) >= 3 else 0
    begins = [t.steps.start_ns[skip] for t in traces]
    count = len(traces[0].steps) - skip
    return float(max(ends) - min(begins)) / count / 1000


class _Player:
    def __init__(self, shape: JobShape, faults: tuple[Fault, ...]) -> None:
        self.shape = shape
        self.faults = {fault.kind: fault for fault in faults}
        spread = np.random.default_rng([shape.seed, 1]).normal(0, 1, shape.ranks)
        self.ranks = [
            _Rank(
                number,
                Tape(),
                np.random.default_rng([shape.seed, 2, number]),
                1 + shape.device_spread_ratio * float(spread[number]),
            )
            for number in range(shape.ranks)
        ]
        self.network = np.random.default_rng([shape.seed, 3])
        layer = sum(getattr(shape, length) for _, length, _ in _FORWARD)
        self.device_step_us: float = (
            shape.layers * layer * (1 + shape.backward_ratio) + shape.optimizer_us
        )

    def play(self) -> tuple[Trace, ...]:
        for step in range(self.shape.steps):
            for rank in self.ranks:
                self._forward_and_backward(rank, step)
            self._collectives()
            for rank in self.ranks:
                self._finish_step(rank, step)
        world = len(self.ranks)
        return tuple(r.tape.trace(r.number, world, self.shape.gpu) for r in self.ranks)

    def _forward_and_backward(self, rank: _Rank, step: int) -> None:
        shape = self.shape
        rank.step_start_us = rank.host_us
        self._input(rank, step)
        if self._hits("slow_host", rank):
            self._host(rank, "aten::to", self._added_us("slow_host"))
        kernels = self._kernels(step)
        syncs = self._sync_places(len(kernels))
        pause = int(rank.random.integers(len(kernels)))
        per_bucket = shape.bucket_layers * len(_FORWARD)
        forward = shape.layers * len(_FORWARD)
        for i, (name, length_us, operator) in enumerate(kernels):
            self._kernel(rank, name, length_us, operator)
            if i in syncs:
                self._synchronize(rank, "aten::item")
            if i == pause and "gc" in self.faults and (step + rank.number) % GC_EVERY_STEPS == 0:
                length = self._added_us("gc") * GC_EVERY_STEPS
                self._host(rank, "Python GC", length, Kind.GC)
            if i >= forward and (i - forward + 1) % per_bucket == 0:
                correlation = self._launch_call(rank, "cudaLaunchKernelExC")
                rank.buckets.append((max(rank.compute_us, rank.host_us), correlation))
        if "allocation" in self.faults:
            self._allocate(rank)

    def _input(self, rank: _Rank, step: int) -> None:
        shape = self.shape
        wait_us = shape.loader_us * float(rank.random.uniform(0.8, 1.2))
        if "loader" in self.faults:
            wait_us += self._added_us("loader")
        if self._hits("storage", rank) and step % 2:
            wait_us += 2 * self._added_us("storage")
        self._host(rank, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", wait_us)
        size = 16 << 20
        if "pageable" in self.faults:
            length_us = shape.input_copy_us + self._added_us("pageable")
            self._copy(rank, "Memcpy HtoD (Pageable -> Device)", length_us, size)
            rank.host_us = max(rank.host_us, rank.compute_us)
        else:
            self._copy(rank, "Memcpy HtoD (Pinned -> Device)", shape.input_copy_us, size)

    def _kernels(self, step: int) -> list[tuple[str, float, str]]:
        shape = self.shape
        layer = [(name, float(getattr(shape, length)), op) for name, length, op in _FORWARD]
        if "launch" in self.faults:
            layer = [(name, SHORT_KERNEL_US, op) for name, _, op in layer]
        forward = layer * shape.layers
        backward = [
            (f"{n}_backward", shape.backward_ratio * us, f"{op}_backward") for n, us, op in layer
        ]
        if "launch" in self.faults:
            backward = [(name, SHORT_KERNEL_US, op) for name, _, op in backward]
        kernels = forward + backward[::-1] * shape.layers
        scale = 1.0
        if "power_cap" in self.faults:
            scale *= self.faults["power_cap"].factor
        if "batch_size" in self.faults and step >= shape.steps // 2:
            scale *= self.faults["batch_size"].factor
        if "warm_up" in self.faults and step == 0:
            scale *= self.faults["warm_up"].factor
        if "eval_step" in self.faults and step == shape.steps // 2:
            kernels = forward * 2 + kernels[len(forward) :]
        return [(name, us * scale, operator) for name, us, operator in kernels]

    def _kernel(self, rank: _Rank, name: str, length_us: float, operator: str) -> None:
        shape = self.shape
        begin = rank.host_us
        cheap = 0.2 if "launch" in self.faults and self.faults["launch"].factor <= 1 else 1.0
        rank.host_us += shape.host_op_us * cheap * float(rank.random.uniform(0.7, 1.3))
        correlation = self._launch_call(rank, "cudaLaunchKernel", cheap)
        rank.tape.add(Kind.OPERATOR, operator, begin, rank.host_us)
        jitter = float(np.exp(rank.random.normal(0, shape.kernel_jitter_ratio)))
        length_us *= jitter * rank.device_ratio
        if self._hits("slow_gpu", rank):
            length_us *= self.faults["slow_gpu"].factor
        if self._hits("throttle", rank) and ("nvjet" in name or "flash" in name):
            length_us *= self.faults["throttle"].factor
        start = max(rank.compute_us, rank.host_us + LAUNCH_LATENCY_US)
        rank.compute_us = start + length_us
        rank.tape.add(Kind.KERNEL, name, start, rank.compute_us, COMPUTE_STREAM, correlation)

    def _copy(self, rank: _Rank, name: str, length_us: float, size: int) -> None:
        correlation = self._launch_call(rank, "cudaMemcpyAsync")
        start = max(rank.compute_us, rank.host_us + LAUNCH_LATENCY_US)
        rank.compute_us = start + length_us
        rank.tape.add(Kind.MEMCPY, name, start, rank.compute_us, COMPUTE_STREAM, correlation, size)

    def _launch_call(self, rank: _Rank, name: str, cheap: float = 1.0) -> int:
        correlation = rank.tape.next_correlation()
        length_us = self.shape.launch_us * cheap * float(rank.random.uniform(0.8, 1.2))
        rank.tape.add(
            Kind.RUNTIME, name, rank.host_us, rank.host_us + length_us, correlation=correlation
        )
        rank.host_us += length_us
        return correlation

    def _host(self, rank: _Rank, name: str, length_us: float, kind: Kind = Kind.OPERATOR) -> None:
        rank.tape.add(kind, name, rank.host_us, rank.host_us + length_us)
        rank.host_us += length_us

    def _synchronize(self, rank: _Rank, operator: str) -> None:
        begin = rank.host_us
        rank.host_us = max(rank.host_us, rank.compute_us) + SYNC_RETURN_US
        rank.tape.add(Kind.RUNTIME, "cudaStreamSynchronize", begin, rank.host_us)
        rank.tape.add(Kind.OPERATOR, operator, begin, rank.host_us)
        rank.host_us += ITEM_US

    def _allocate(self, rank: _Rank) -> None:
        begin = rank.host_us
        rank.host_us = max(rank.host_us, rank.compute_us) + self._added_us("allocation") / 2
        rank.tape.add(Kind.RUNTIME, "cudaFree", begin, rank.host_us)
        end = rank.host_us + self._added_us("allocation") / 2
        rank.tape.add(Kind.RUNTIME, "cudaMalloc", rank.host_us, end)
        rank.host_us = end

    def _collectives(self) -> None:
        length_us = self.shape.collective_us
        if "slow_link" in self.faults:
            length_us *= self.faults["slow_link"].factor
        if "launch" in self.faults:
            length_us = SHORT_KERNEL_US
        for bucket in range(len(self.ranks[0].buckets)):
            starts = [max(rank.comm_us, rank.buckets[bucket][0]) for rank in self.ranks]
            end = max(starts) + length_us * float(np.exp(self.network.normal(0, 0.02)))
            for rank, start in zip(self.ranks, starts, strict=True):
                correlation = rank.buckets[bucket][1]
                rank.tape.add(Kind.KERNEL, _COLLECTIVE, start, end, COMM_STREAM, correlation)
                rank.comm_us = end
        for rank in self.ranks:
            rank.buckets.clear()

    def _finish_step(self, rank: _Rank, step: int) -> None:
        rank.compute_us = max(rank.compute_us, rank.comm_us)
        name = "multi_tensor_apply_kernel<FusedAdamMathFunctor>"
        length_us = SHORT_KERNEL_US if "launch" in self.faults else self.shape.optimizer_us
        self._kernel(rank, name, length_us, "Optimizer.step#AdamW.step")
        self._synchronize(rank, "aten::item")
        title = f"ProfilerStep#{step + 1}"
        rank.tape.add(Kind.ANNOTATION, title, rank.step_start_us, rank.host_us)

    def _sync_places(self, count: int) -> frozenset[int]:
        if "sync" not in self.faults:
            return frozenset()
        bubble_us = SYNC_RETURN_US + ITEM_US + self.shape.host_op_us + self.shape.launch_us
        wanted = max(1, round(self._added_us("sync") / bubble_us))
        return frozenset(int(i) for i in np.linspace(0, count - 2, min(wanted, count - 1)))

    def _added_us(self, kind: str) -> float:
        """What makes a step as long as the fault's factor says."""
        return (self.faults[kind].factor - 1) * self.device_step_us

    def _hits(self, kind: str, rank: _Rank) -> bool:
        fault = self.faults.get(kind)
        return fault is not None and fault.rank == rank.number
