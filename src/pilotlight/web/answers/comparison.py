"""What the API answers about two jobs or stretches of time."""

from __future__ import annotations

from msgspec import Struct


class Side(Struct, frozen=True):
    job: str
    from_ns: int
    to_ns: int
    steps: int


class Difference(Struct, frozen=True):
    """Nanoseconds a step."""

    what: str
    before_ns: float
    after_ns: float


class FactChange(Struct, frozen=True):
    name: str
    before: str
    after: str


class Comparison(Struct, frozen=True):
    """`noise_probability`: how often chance alone makes such a difference; None: too few steps."""

    headline: str
    before: Side
    after: Side
    noise_probability: float | None
    is_noise: bool | None
    step: Difference
    parts: list[Difference]
    kernels: list[Difference]
    facts: list[FactChange]
    is_partial: bool
