"""Simulated trainings through what the collector does with their batches: who is blamed, how soon.

python bench/comparing.py --seeds 200 --first 7000     a table of false alarms, then of faults found
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from bars import Bar, at_least, at_most, report

from pilotlight.collector.watch.look import found_in
from pilotlight.collector.watch.opened import Opened, Register
from pilotlight.collector.watch.recent import RecentJob, take_in
from pilotlight.simulate.training import Training
from pilotlight.store.batch import Clock, decode

EPOCH_NS = 1_700_000_000_000_000_000
SETTLE_NS = 500_000_000
FACTORS = (1.02, 1.05, 1.1, 1.2, 1.5, 3.0)
SEEDS = 6
SLOW_FROM_S = 100.0

HOSTS = Training(
    0,
    ranks=4,
    ranks_per_node=2,
    step_s=0.02,
    lasts_s=200.0,
    sees_devices=False,
    jitter_ratio=0.08,
    drift_ratio=0.03,
    unlike_ratio=0.01,
    spikes_ratio=0.01,
)
KINDS = {
    "devices, 8 ranks": Training(0, jitter_ratio=0.01),
    "devices, 2 ranks": Training(0, ranks=2, jitter_ratio=0.01),
    "devices, 64 ranks": Training(0, ranks=64, ranks_per_node=8, step_s=1.0, jitter_ratio=0.008),
    "devices, 8 ranks, 3 s": Training(0, step_s=3.0, jitter_ratio=0.01),
    "devices, evaluates and saves": Training(0, evaluates_every=90, saves_every=60, lasts_s=400.0),
    "devices, uneven batches": Training(0, uneven_ratio=0.12),
    "hosts, 4 ranks, 20 ms": HOSTS,
    "hosts, 2 ranks, 20 ms": replace(HOSTS, ranks=2),
    "hosts, 2 ranks on 2 nodes, 20 ms": replace(HOSTS, ranks=2, ranks_per_node=1),
    "hosts, 4 ranks, 5 ms, noisy": replace(
        HOSTS,
        ranks_per_node=4,
        step_s=0.005,
        jitter_ratio=0.25,
        drift_ratio=0.05,
        unlike_ratio=0.02,
        spikes_ratio=0.02,
    ),
    "hosts, 4 ranks, uneven, evaluates": replace(
        HOSTS,
        ranks_per_node=4,
        drift_ratio=0.005,
        unlike_ratio=0.004,
        uneven_ratio=0.2,
        evaluates_every=2000,
    ),
}


@dataclass(frozen=True)
class Blamed:
    """A finding that names a rank, and when it opened."""

    cause: str
    rank: int
    opened_ns: int


def watched(training: Training) -> Iterator[Opened]:
    """The findings of a training as they open, as the collector's watcher would tell them."""
    jobs: dict[tuple[str, str], RecentJob] = {}
    register = Register()
    for when_ns, body in training.batches(EPOCH_NS):
        take_in(jobs, decode("default", body, Clock(), when_ns))
        now_ns = when_ns + SETTLE_NS
        for job in jobs.values():
            for one in register.update(job, found_in(job, job.told_ns), now_ns):
                if one.opened_ns == now_ns:
                    yield one


def blamed(training: Training) -> list[Blamed]:
    """Who is said to hold up the others."""
    return [
        Blamed(one.finding.cause, one.finding.rank, one.opened_ns)
        for one in watched(training)
        if one.finding.rank is not None and "holds up" in one.finding.title
    ]


def false_alarms(training: Training, seeds: Sequence[int]) -> list[Blamed]:
    return [one for seed in seeds for one in blamed(replace(training, seed=seed))]


def delays_s(training: Training, factor: float, seeds: Sequence[int]) -> tuple[list[float], int]:
    """Until the right rank was named, of each seed in which it was; how often another was."""
    found, wrong = [], 0
    for seed in seeds:
        rank = seed % training.ranks
        slow = replace(
            training, seed=seed, slow_rank=rank, slow_factor=factor, slow_from_s=SLOW_FROM_S
        )
        since_ns = EPOCH_NS + slow.slow_from_ns()
        named = blamed(slow)
        right = [one for one in named if one.rank == rank and one.opened_ns >= since_ns]
        wrong += sum(one.rank != rank for one in named)
        if right:
            found.append((right[0].opened_ns - since_ns) / 1e9)
    return found, wrong


def measure(seeds: int, first: int, kinds: Sequence[str] = tuple(KINDS)) -> list[Bar]:
    bars = []
    for name in kinds:
        training = KINDS[name]
        hours = seeds * training.lasts_s / 3600
        alarms = false_alarms(training, range(first, first + seeds))
        causes = dict(Counter(one.cause for one in alarms))
        print(f"{name}: {len(alarms)} false alarms in {hours:.1f} h {causes or ''}", flush=True)
        bars.append(at_most(f"{name}: false alarms a job and hour", len(alarms) / hours, 0.05))
        for factor in FACTORS:
            some = range(first + seeds, first + seeds + max(1, seeds // 3))
            times, wrong = delays_s(training, factor, some)
            ratio = len(times) / len(some)
            typical = f"{median(times):.0f} s, at most {max(times):.0f} s" if times else "never"
            print(f"  {factor:.2f} x: {ratio:.0%} found, {typical}, {wrong} wrong", flush=True)
            if factor == 1.5:
                bars.append(at_least(f"{name}: part found of 1.5 x", ratio, 1.0))
                worst_s = max(times, default=999.0)
                bars.append(at_most(f"{name}: s until 1.5 x is found, at most", worst_s, 20))
    return bars


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--seeds", type=int, default=SEEDS, help="a kind, and a third more with faults"
    )
    parser.add_argument("--first", type=int, default=0, help="seed")
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    return report(
        "comparing", measure(args.seeds, args.first, args.kind or tuple(KINDS)), as_json=args.json
    )


if __name__ == "__main__":
    sys.exit(main())
