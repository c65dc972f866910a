"""What is simulated: the shape of a training job on a kind of GPU."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pilotlight.errors import FormatError, UsageError

MAX_SPANS = 50_000_000
_COUNTS = (
    "ranks", "steps", "layers", "bucket_layers", "pipeline", "tensor", "experts", "micro_batches",
    "ranks_per_node",
)  # fmt: skip


@dataclass(frozen=True)
class JobShape:
    """Times in microseconds, of one rank and, where it applies, one layer of one micro-batch.

    The ranks are divided by pipeline stages and tensor ranks; what remains is data-parallel.
    With more than one expert the experts are spread over so many data ranks. `counters` adds what
    an agent reads of the devices and the host.
    """

    ranks: int = 8
    steps: int = 12
    layers: int = 12
    pipeline: int = 1
    tensor: int = 1
    experts: int = 1
    micro_batches: int = 1
    ranks_per_node: int = 8
    gemm_us: float = 120.0
    attention_us: float = 80.0
    elementwise_us: float = 25.0
    norm_us: float = 15.0
    backward_ratio: float = 2.0
    optimizer_us: float = 300.0
    bucket_layers: int = 3
    collective_us: float = 350.0
    transfer_us: float = 20.0
    tensor_us: float = 15.0
    exchange_us: float = 25.0
    input_copy_us: float = 60.0
    loader_us: float = 40.0
    host_op_us: float = 8.0
    launch_us: float = 5.0
    kernel_jitter_ratio: float = 0.01
    device_spread_ratio: float = 0.003
    counters: bool = False
    gpu: str = "NVIDIA H100 80GB HBM3"
    seed: int = 0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name == "gpu":
                continue
            least = 1 if field.name in _COUNTS else 0
            if not isinstance(value, (int, float)) or not least <= value < 1e9:
                raise UsageError(f"{field.name} = {value!r}: a number of {least} or more is needed")
            if field.name in _COUNTS and type(value) is not int:
                raise UsageError(f"{field.name} = {value!r}: a whole number is needed")
        if self.ranks % (self.pipeline * self.tensor):
            raise UsageError(
                f"ranks = {self.ranks}: not a multiple of pipeline x tensor ="
                f" {self.pipeline * self.tensor}"
            )
        if self.layers % self.pipeline:
            raise UsageError(
                f"layers = {self.layers}: not a multiple of pipeline = {self.pipeline}"
            )
        if self.data % self.experts:
            raise UsageError(
                f"experts = {self.experts}: the {self.data} data ranks are no multiple of it"
            )
        if self.ranks * self.steps * self.layers * self.micro_batches * 30 > MAX_SPANS:
            raise UsageError(f"a job of more than {MAX_SPANS} spans: fewer ranks, steps or layers")

    @property
    def data(self) -> int:
        """Data-parallel ranks."""
        return self.ranks // (self.pipeline * self.tensor)

    @property
    def device_step_us(self) -> float:
        """What a device works in a step, without communication."""
        layer = 2 * self.gemm_us + self.attention_us + self.elementwise_us + self.norm_us
        stage = self.layers // self.pipeline * layer * (1 + self.backward_ratio)
        return stage * self.micro_batches + self.optimizer_us


def read_job(path: Path) -> JobShape:
    """From a TOML file with the fields of JobShape at its top."""
    try:
        import tomllib  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise UsageError(f"{path}: reading TOML needs Python 3.11 or newer") from None
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"{path}: {error}") from None
    return shape_of(values, str(path))


def shape_of(values: dict[str, Any], source: str) -> JobShape:
    known = {field.name for field in dataclasses.fields(JobShape)}
    for name in values:
        if name not in known:
            raise FormatError(
                f"{source}: {name}: no such setting; one of {', '.join(sorted(known))}"
            )
    try:
        return JobShape(**values)
    except UsageError as error:
        raise FormatError(f"{source}: {error}") from None
