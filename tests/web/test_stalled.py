from __future__ import annotations

from pilotlight.report.stalls import FunctionStalls, Stall
from pilotlight.web.stalled import joined


def function(name: str, **samples: int) -> FunctionStalls:
    whole = sum(samples.values())
    stalls = tuple(Stall(reason, count, count / whole, 0) for reason, count in samples.items())
    return FunctionStalls(name, 7, whole, 1.0, stalls)


def test_a_kernel_of_two_ranks_is_one_kernel() -> None:
    found = joined(
        [
            function("gemm", math_pipe_throttle=30, long_scoreboard=10),
            function("softmax", long_scoreboard=20),
            function("gemm", long_scoreboard=40),
        ]
    )
    assert [(one.name, one.samples) for one in found] == [("gemm", 80), ("softmax", 20)]
    gemm = found[0]
    assert gemm.ratio == 0.8
    assert [(one.words, one.samples) for one in gemm.reasons] == [
        ("waits for global memory", 50),
        ("math units are busy", 30),
    ]


def test_nothing_sampled_is_nothing_told() -> None:
    assert joined([]) == []
