"""Why kernels stall, over all recordings of a capture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from pilotlight.recording.recording import Recording
from pilotlight.report.stalls import WORDS, FunctionStalls, stalls_of
from pilotlight.web import answers

LISTED = 100


def kernel_stalls(recordings: Sequence[Path]) -> list[answers.KernelStalls]:
    """Empty where nothing was sampled."""
    return joined(one for path in recordings for one in stalls_of(Recording.open(path)))


def joined(functions: Iterable[FunctionStalls]) -> list[answers.KernelStalls]:
    """By name, the most sampled first."""
    sums: dict[str, Counter[str]] = {}
    for function in functions:
        mine = sums.setdefault(function.function, Counter())
        for stall in function.stalls:
            mine[stall.reason] += stall.samples
    whole = sum(mine.total() for mine in sums.values()) or 1
    ordered = sorted(sums.items(), key=lambda item: (-item[1].total(), item[0]))
    return [
        answers.KernelStalls(name, mine.total(), mine.total() / whole, reasons(mine))
        for name, mine in ordered[:LISTED]
    ]


def reasons(samples: Counter[str]) -> list[answers.StallReason]:
    whole = samples.total() or 1
    return [
        answers.StallReason(reason, WORDS.get(reason, reason), count, count / whole)
        for reason, count in samples.most_common()
    ]
