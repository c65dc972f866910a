"""The program of each rank: what its host launches, and what its streams wait for."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pilotlight.simulate import layout
from pilotlight.simulate.effect import SHORT_KERNEL_US, Effects
from pilotlight.simulate.job import JobShape
from pilotlight.simulate.score import Score
from pilotlight.simulate.tape import (
    COMM_STREAM,
    COMPUTE_STREAM,
    INNER_STREAM,
    RECEIVE_BACKWARD,
    RECEIVE_FORWARD,
    SEND_BACKWARD,
    SEND_FORWARD,
    Tape,
)
from pilotlight.trace.detail import Message
from pilotlight.trace.trace import Float64, Kind, Trace

LAUNCH_LATENCY_US = 2.0
SYNC_RETURN_US = 4.0
ITEM_US = 15.0
ITEM_COPY_US = 2.0
DRAWS = 997
# What links carry, for sizes: 20 GB/s to the device, of messages 300 over the bus.
COPY_BYTES_PER_US = 20_000
BYTES_PER_US = 300_000

_LAYER = (
    ("layer_norm_kernel<bfloat16>", "norm_us", "aten::layer_norm"),
    ("nvjet_tst_192x192_64x4_qkv_TNN", "gemm_us", "aten::linear"),
    ("flash_fwd_kernel<bf16_128>", "attention_us", "aten::scaled_dot_product_attention"),
    ("vectorized_elementwise_kernel<gelu>", "elementwise_us", "aten::gelu"),
    ("nvjet_tst_128x256_64x4_mlp_TNN", "gemm_us", "aten::linear"),
)
_EXPERT = ("nvjet_tst_128x256_64x4_expert_TNN", "gemm_us", "aten::_grouped_mm")
_HEAD = ("nvjet_tst_256x128_64x4_vocabulary_TNN", "aten::linear")


@dataclass
class _Rank:
    number: int
    tape: Tape
    spread: float
    host: int
    streams: dict[int, int] = field(default_factory=dict)
    draws: tuple[Float64, Float64, Float64] = field(default_factory=lambda: (np.empty(0),) * 3)
    drawn: int = 0
    syncs: frozenset[int] = frozenset()
    pause: tuple[int, float] = (-1, 0.0)


class Player:
    def __init__(self, shape: JobShape, effects: Effects) -> None:
        self.shape = shape
        self.effects = effects
        self.score = Score(shape.ranks)
        spread = np.random.default_rng([shape.seed, 1]).normal(0, 1, shape.ranks)
        self.ranks = [
            _Rank(
                number,
                Tape(),
                1 + shape.device_spread_ratio * float(spread[number]),
                self.score.add(number, 0.0),
            )
            for number in range(shape.ranks)
        ]
        self.network = np.random.default_rng([shape.seed, 3])
        self.short = "launch" in effects
        self.cheap = 0.2 if self.short and effects.factor("launch") <= 1 else 1.0

    def play(self) -> tuple[Trace, ...]:
        for step in range(self.shape.steps):
            for rank in self.ranks:
                self._step(rank, step)
        begins_us, ends_us = self.score.times_us()
        return tuple(
            rank.tape.trace(
                rank.number,
                self.shape.ranks,
                self.shape.gpu,
                begins_us,
                ends_us,
                self.effects.counters(rank.number) if self.shape.counters else {},
            )
            for rank in self.ranks
        )

    def _step(self, rank: _Rank, step: int) -> None:
        shape = self.shape
        random = np.random.default_rng([shape.seed, 2, rank.number, step])
        rank.draws = (
            random.uniform(0.75, 1.25, DRAWS) * self.effects.host_factor(rank.number),
            random.uniform(0.8, 1.2, DRAWS) * self.effects.host_factor(rank.number),
            np.exp(random.normal(0, shape.kernel_jitter_ratio, DRAWS)),
        )
        rank.drawn = 0
        rank.syncs = self._sync_places()
        pause = int(random.integers(0, 5 * shape.layers // shape.pipeline))
        rank.pause = pause, self.effects.gc_us(rank.number, step)
        begin = self._host_point(rank)
        self._input(rank, step, float(random.uniform(0.8, 1.2)))
        self._micro_batches(rank, step)
        if "allocation" in self.effects:
            self._allocate(rank)
        self._finish(rank, step)
        rank.tape.add(Kind.ANNOTATION, f"ProfilerStep#{step + 1}", begin, 2 * rank.host + 1)

    def _host_point(self, rank: _Rank) -> int:
        return 2 * rank.host + 1

    def _input(self, rank: _Rank, step: int, ratio: float) -> None:
        shape, effects = self.shape, self.effects
        wait_us = shape.loader_us * ratio + effects.loader_us(rank.number, step)
        self._host(rank, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", wait_us)
        if "pageable" in effects:
            length_us = shape.input_copy_us + effects.added_us("pageable")
            self._blocking_copy(rank, "Memcpy HtoD (Pageable -> Device)", length_us)
        else:
            self._copy(rank, "Memcpy HtoD (Pinned -> Device)", shape.input_copy_us)
        if effects.hits("slow_host", rank.number):
            self._host(rank, "aten::to", effects.added_us("slow_host"))
        if effects.recompile_us(step):
            name = "TorchDynamo: _compile.compile_inner (torch/_dynamo/convert_frame.py)"
            self._host(rank, name, effects.recompile_us(step))
        if effects.checkpoint_us(step):
            self._synchronize(rank, "checkpoint: synchronize")
            self._host(rank, "checkpoint: torch.save", effects.checkpoint_us(step))

    def _micro_batches(self, rank: _Rank, step: int) -> None:
        """One forward, one backward, after as many forwards as stages follow."""
        shape = self.shape
        stage = layout.place_of(shape, rank.number).stage
        ahead = min(shape.micro_batches, shape.pipeline - 1 - stage)
        for batch in range(ahead):
            self._forward(rank, step, batch)
        for batch in range(ahead, shape.micro_batches):
            self._forward(rank, step, batch)
            self._backward(rank, step, batch - ahead)
        for batch in range(shape.micro_batches - ahead, shape.micro_batches):
            self._backward(rank, step, batch)

    def _forward(self, rank: _Rank, step: int, batch: int) -> None:
        shape = self.shape
        source, target = (layout.neighbour(shape, rank.number, by) for by in (-1, 1))
        if source is not None:
            self._transfer(rank, source, rank.number, ("f", step, batch), RECEIVE_FORWARD)
        again = "eval_step" in self.effects and step == shape.steps // 2
        for _ in range(2 if again else 1):
            for _ in range(shape.layers // shape.pipeline):
                self._layer(rank, step, 1.0, "")
        extra = self.effects.extra_stage_us(rank.number)
        if extra:
            self._kernel(rank, step, _HEAD[0], extra, _HEAD[1])
        if target is not None:
            self._transfer(rank, rank.number, target, ("f", step, batch), SEND_FORWARD)

    def _backward(self, rank: _Rank, step: int, batch: int) -> None:
        shape = self.shape
        source, target = (layout.neighbour(shape, rank.number, by) for by in (1, -1))
        if source is not None:
            self._transfer(rank, source, rank.number, ("b", step, batch), RECEIVE_BACKWARD)
        last = batch == shape.micro_batches - 1
        layers = shape.layers // shape.pipeline
        for layer in range(layers):
            self._layer(rank, step, shape.backward_ratio, "_backward")
            full = (layer + 1) % shape.bucket_layers == 0 or layer == layers - 1
            if last and shape.data > 1 and full:
                self._gradients(rank, step, layer)
        if target is not None:
            self._transfer(rank, rank.number, target, ("b", step, batch), SEND_BACKWARD)

    def _layer(self, rank: _Rank, step: int, ratio: float, suffix: str) -> None:
        shape = self.shape
        kernels = _LAYER if not suffix else _LAYER[::-1]
        for name, length, operator in kernels:
            if "mlp" in name and shape.experts > 1:
                self._expert(rank, step, ratio, suffix)
            else:
                us = ratio * float(getattr(shape, length))
                self._kernel(rank, step, name + suffix, us, operator + suffix)
            if shape.tensor > 1 and ("flash" in name or "mlp" in name):
                group = layout.tensor_group(shape, rank.number)
                self._inner(rank, group, "allreduce", "AllReduce_Sum_bf16_RING_LL", shape.tensor_us)

    def _expert(self, rank: _Rank, step: int, ratio: float, suffix: str) -> None:
        """The mean of the experts' work is that of the dense layer."""
        group = layout.expert_group(self.shape, rank.number)
        exchange_us = self.shape.exchange_us
        self._inner(rank, group, "all_to_allv", "SendRecv", exchange_us)
        name, length, operator = _EXPERT
        us = ratio * float(getattr(self.shape, length))
        self._kernel(rank, step, name + suffix, us, operator + suffix)
        self._inner(rank, group, "all_to_allv", "SendRecv", exchange_us)

    def _kernel(self, rank: _Rank, step: int, name: str, length_us: float, operator: str) -> None:
        shape, score = self.shape, self.score
        drawn = rank.drawn % DRAWS
        begin = self._host_point(rank)
        host_us = shape.host_op_us * self.cheap * float(rank.draws[0][drawn])
        rank.host = score.add(rank.number, host_us, rank.host)
        correlation, ready = self._launch(rank, "cudaLaunchKernel")
        rank.tape.add(Kind.OPERATOR, operator, begin, 2 * rank.host + 1)
        if self.short:
            length_us = SHORT_KERNEL_US
        factor = self.effects.kernel_factor(rank.number, name, step)
        length_us *= factor * rank.spread * float(rank.draws[2][drawn])
        node = self._on_stream(rank, COMPUTE_STREAM, length_us, ready)
        rank.tape.add(Kind.KERNEL, name, 2 * node, 2 * node + 1, COMPUTE_STREAM, correlation)
        rank.drawn += 1
        if drawn in rank.syncs:
            self._item(rank)
        if drawn == rank.pause[0] and rank.pause[1]:
            self._host(rank, "Python GC", rank.pause[1], Kind.GC)

    def _on_stream(self, rank: _Rank, stream: int, length_us: float, *before: int) -> int:
        last = rank.streams.get(stream)
        waits = before if last is None else (*before, last)
        node = self.score.add(rank.number, length_us, *waits)
        rank.streams[stream] = node
        return node

    def _launch(self, rank: _Rank, name: str) -> tuple[int, int]:
        """The correlation, and the node after which the device may begin."""
        correlation = rank.tape.next_correlation()
        ratio = float(rank.draws[1][rank.drawn % DRAWS])
        rank.host = self.score.add(
            rank.number, self.shape.launch_us * self.cheap * ratio, rank.host
        )
        rank.tape.add(Kind.RUNTIME, name, 2 * rank.host, 2 * rank.host + 1, correlation=correlation)
        return correlation, self.score.add(rank.number, LAUNCH_LATENCY_US, rank.host)

    def _copy(self, rank: _Rank, name: str, length_us: float) -> None:
        correlation, ready = self._launch(rank, "cudaMemcpyAsync")
        node = self._on_stream(rank, COMPUTE_STREAM, length_us, ready)
        size = round(self.shape.input_copy_us * COPY_BYTES_PER_US)
        rank.tape.add(Kind.MEMCPY, name, 2 * node, 2 * node + 1, COMPUTE_STREAM, correlation, size)

    def _blocking_copy(self, rank: _Rank, name: str, length_us: float) -> None:
        """From pageable memory: the call returns when the copy has been made."""
        correlation = rank.tape.next_correlation()
        begin = self._host_point(rank)
        ready = self.score.add(rank.number, self.shape.launch_us + LAUNCH_LATENCY_US, rank.host)
        node = self._on_stream(rank, COMPUTE_STREAM, length_us, ready)
        size = round(self.shape.input_copy_us * COPY_BYTES_PER_US)
        rank.tape.add(Kind.MEMCPY, name, 2 * node, 2 * node + 1, COMPUTE_STREAM, correlation, size)
        rank.host = self.score.add(rank.number, 0.0, rank.host, node)
        end = 2 * rank.host + 1
        rank.tape.add(Kind.RUNTIME, "cudaMemcpyAsync", begin, end, correlation=correlation)

    def _host(self, rank: _Rank, name: str, length_us: float, kind: Kind = Kind.OPERATOR) -> None:
        rank.host = self.score.add(rank.number, length_us, rank.host)
        rank.tape.add(kind, name, 2 * rank.host, 2 * rank.host + 1)

    def _synchronize(self, rank: _Rank, operator: str) -> None:
        begin = self._host_point(rank)
        rank.tape.add(Kind.OPERATOR, operator, begin, self._wait(rank))
        rank.host = self.score.add(rank.number, ITEM_US, rank.host)

    def _wait(self, rank: _Rank) -> int:
        """When a wait for the stream is over."""
        begin = self._host_point(rank)
        waits = [rank.host, *(n for s, n in rank.streams.items() if s == COMPUTE_STREAM)]
        rank.host = self.score.add(rank.number, SYNC_RETURN_US, *waits)
        end = 2 * rank.host + 1
        rank.tape.add(Kind.RUNTIME, "cudaStreamSynchronize", begin, end)
        return end

    def _item(self, rank: _Rank) -> None:
        """Asks for a number: the call of its copy returns when it is there."""
        begin = self._host_point(rank)
        correlation = rank.tape.next_correlation()
        ready = self.score.add(rank.number, LAUNCH_LATENCY_US, rank.host)
        node = self._on_stream(rank, COMPUTE_STREAM, ITEM_COPY_US, ready)
        name = "Memcpy DtoH (Device -> Pageable)"
        rank.tape.add(Kind.MEMCPY, name, 2 * node, 2 * node + 1, COMPUTE_STREAM, correlation, 4)
        rank.host = self.score.add(rank.number, SYNC_RETURN_US, rank.host, node)
        end = self._host_point(rank)
        rank.tape.add(Kind.RUNTIME, "cudaMemcpyAsync", begin, end, correlation=correlation)
        rank.tape.add(Kind.OPERATOR, "aten::item", begin, self._wait(rank))
        rank.host = self.score.add(rank.number, ITEM_US, rank.host)

    def _allocate(self, rank: _Rank) -> None:
        half_us = self.effects.added_us("allocation") / 2
        begin = self._host_point(rank)
        waits = [rank.host, *(n for s, n in rank.streams.items() if s == COMPUTE_STREAM)]
        rank.host = self.score.add(rank.number, half_us, *waits)
        rank.tape.add(Kind.RUNTIME, "cudaFree", begin, 2 * rank.host + 1)
        rank.host = self.score.add(rank.number, half_us, rank.host)
        rank.tape.add(Kind.RUNTIME, "cudaMalloc", 2 * rank.host, 2 * rank.host + 1)

    def _gradients(self, rank: _Rank, step: int, layer: int) -> None:
        group = layout.data_group(self.shape, rank.number)
        compute = rank.streams[COMPUTE_STREAM]
        length_us = SHORT_KERNEL_US if self.short else self.shape.collective_us
        message = _message("allreduce", group, length_us)
        self._collective(
            rank, ("dp", group.name, step, layer), group, message, "AllReduce_Sum_bf16_RING_LL",
            length_us, COMM_STREAM, compute,
        )  # fmt: skip

    def _inner(
        self, rank: _Rank, group: layout.Group, operation: str, kernel: str, length_us: float
    ) -> None:
        """A collective that the compute waits for."""
        count = rank.streams.setdefault(-INNER_STREAM, 0)
        rank.streams[-INNER_STREAM] = count + 1
        compute = rank.streams[COMPUTE_STREAM]
        message = _message(operation, group, length_us)
        key = ("inner", group.name, count)
        done = self._collective(rank, key, group, message, kernel, length_us, INNER_STREAM, compute)
        rank.streams[COMPUTE_STREAM] = self.score.add(rank.number, 0.0, compute, done)

    def _transfer(
        self, rank: _Rank, source: int, target: int, what: tuple[str, int, int], stream: int
    ) -> None:
        """From a stage to the next; the receiver's compute waits for it, the sender's does not."""
        sends = rank.number == source
        group = layout.Group(f"pp_{source}_{target}", (source, target))
        length_us = self.shape.transfer_us
        partner = target if sends else source
        message = Message(
            "send" if sends else "recv", group.name, 2, int(length_us * BYTES_PER_US), partner
        )
        compute = rank.streams[COMPUTE_STREAM]
        done = self._collective(
            rank, (source, target, *what), group, message, "SendRecv", length_us, stream, compute
        )
        if not sends:
            rank.streams[COMPUTE_STREAM] = self.score.add(rank.number, 0.0, compute, done)

    def _collective(
        self,
        rank: _Rank,
        key: tuple[object, ...],
        group: layout.Group,
        message: Message,
        kernel: str,
        length_us: float,
        stream: int,
        after: int,
    ) -> int:
        correlation, ready = self._launch(rank, "cudaLaunchKernelExC")
        arrival = self._on_stream(rank, stream, 0.0, ready, after)
        length_us *= self.effects.network_factor(group.ranks)
        length_us *= float(np.exp(self.network.normal(0, 0.02)))
        done = self.score.meet(key, arrival, length_us)
        rank.streams[stream] = done
        name = f"ncclDevKernel_{kernel}(ncclDevKernelArgsStorage<4096ul>)"
        rank.tape.add(Kind.KERNEL, name, 2 * arrival + 1, 2 * done + 1, stream, correlation)
        rank.tape.message(correlation, message)
        return done

    def _finish(self, rank: _Rank, step: int) -> None:
        last = rank.streams.get(COMM_STREAM)
        if last is not None:
            compute = rank.streams[COMPUTE_STREAM]
            rank.streams[COMPUTE_STREAM] = self.score.add(rank.number, 0.0, compute, last)
        name = "multi_tensor_apply_kernel<FusedAdamMathFunctor>"
        self._kernel(rank, step, name, self.shape.optimizer_us, "Optimizer.step#AdamW.step")
        self._item(rank)

    def _sync_places(self) -> frozenset[int]:
        if "sync" not in self.effects:
            return frozenset()
        shape = self.shape
        count = min(DRAWS, 10 * shape.layers // shape.pipeline * shape.micro_batches)
        bubble_us = 2 * SYNC_RETURN_US + ITEM_US + shape.host_op_us + shape.launch_us
        wanted = max(1, round(self.effects.added_us("sync") / bubble_us))
        return frozenset(int(i) for i in np.linspace(0, count - 2, min(wanted, count - 1)))


def _message(operation: str, group: layout.Group, length_us: float) -> Message:
    size = len(group.ranks)
    factor = (2 if operation == "allreduce" else 1) * (size - 1) / size
    return Message(operation, group.name, size, int(length_us * BYTES_PER_US / max(factor, 0.1)))
