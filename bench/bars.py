"""How a benchmark says what it found: a table for people, one line of JSON for machines."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Bar:
    """`holds` is None where `value` is: what it is compared with is not installed."""

    what: str
    value: float | None
    bar: float
    holds: bool | None


def at_most(what: str, value: float | None, bar: float) -> Bar:
    return Bar(what, value, bar, None if value is None else value <= bar)


def at_least(what: str, value: float | None, bar: float) -> Bar:
    return Bar(what, value, bar, None if value is None else value >= bar)


def median_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float:
    """The median over interleaved pairs: what slows the machine down slows both of a pair."""
    return statistics.median(a / b for a, b in zip(numerators, denominators, strict=True))


def report(benchmark: str, bars: Sequence[Bar], *, as_json: bool) -> int:
    """Prints the bars; the exit code says whether none was missed."""
    width = max((len(bar.what) for bar in bars), default=0)
    for bar in bars:
        value = "-" if bar.value is None else f"{bar.value:.3g}"
        verdict = {True: "holds", False: "MISSED", None: "not measured"}[bar.holds]
        print(f"{bar.what:<{width}}  {value:>8}  bar {bar.bar:<6g}  {verdict}")
    if as_json:
        print(json.dumps({"benchmark": benchmark, "bars": [asdict(bar) for bar in bars]}))
    return int(any(bar.holds is False for bar in bars))
