"""Diagnoses simulated jobs with seeded faults and with harmless changes.

    python bench/diagnosis.py [--seeds 1000:1500] [--twins 140] [--wide] [--json]

A case is a job of random shape (data, pipeline, tensor and expert parallel) with one fault, or two
in one of six cases, of random kind, rank and severity; in one of five the clocks of the ranks
differ or the profiler lost events. The truth of the gain is the same seed played without the
fault. Faults that cost less than `--least` of the step are played too: there nothing has to be
found, but nothing wrong may be. Hangs are diagnosed from flight-recorder dumps.

`--wide` draws from more kinds of jobs: 2 to 48 ranks, any even division into stages, tensor ranks
and experts, layers of 0.1 to 3 ms, few or many steps, other gradient buckets and noise. Shapes that
expose near as much communication as the rule for it allows are drawn again: there it is the truth.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from bars import at_least, at_most, report

from pilotlight.insights.catalogue import diagnose
from pilotlight.insights.communication import exposed_waits
from pilotlight.insights.finding import Finding
from pilotlight.insights.hang import find_culprits
from pilotlight.insights.job import job_of
from pilotlight.simulate.effect import SHORT_KERNEL_US
from pilotlight.simulate.fault import CONDITIONS, FAULTS, TWINS, Fault
from pilotlight.simulate.hang import HANGS, hung_dumps
from pilotlight.simulate.job import JobShape
from pilotlight.simulate.run import simulate, step_us

SEVERITIES = (1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0)
# Networks slower by less hide behind compute, as they should.
NETWORK_SEVERITIES = (6.0, 9.0, 12.0)
NETWORK = ("slow_network", "slow_link", "slow_nic")
MOST_EXCHANGE_RATIO = 0.04
HANG_SHARE = 8
WIDE_MOST_RANKS = 48
WIDE_MOST_LAYERS = 4000  # of all ranks and steps
WIDE_MOST_EXPOSED_RATIO = 0.03  # as much as the gradients of other jobs; the rule says 0.05

Shapes = Callable[[np.random.Generator, int, str], JobShape]


@dataclass(frozen=True)
class Case:
    shape: JobShape
    faults: tuple[Fault, ...]
    condition: tuple[Fault, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """`error` is that of the gain, None where nothing was found or nothing had to be."""

    label: str
    has_to_be_found: bool
    is_first: bool
    is_among_three: bool
    is_wrong_small: bool
    error: float | None
    note: str


def shape_of(random: np.random.Generator, seed: int, fault: str) -> JobShape:
    kind = {
        "slow_link": "divided", "slow_nic": "deeper", "stage_imbalance": "deep",
        "moe_skew": "experts", "launch": "data", "slow_network": "data", "length_imbalance": "data",
    }.get(fault) or str(random.choice(["data", "data", "deep", "divided", "experts"]))  # fmt: skip
    parallel: dict[str, int] = {"ranks": int(random.choice([4, 8, 16]))}
    if kind == "deeper":
        parallel = {"ranks": 8, "pipeline": 4, "micro_batches": 8}
    elif kind == "deep":
        parallel = {"ranks": int(random.choice([4, 8])), "pipeline": 4, "micro_batches": 8}
    elif kind == "divided":
        parallel = {"ranks": 16, "pipeline": 2, "tensor": 2, "micro_batches": 4}
    elif kind == "experts":
        parallel = {"ranks": 8, "experts": int(random.choice([4, 8]))}
    shape = JobShape(
        **parallel,
        steps=int(random.integers(8, 16)) if kind in ("data", "experts") else 8,
        layers=int(random.choice([6, 9, 12])) if kind == "data" else 8,
        gemm_us=float(random.uniform(80, 200)),
        attention_us=float(random.uniform(50, 120)),
        tensor_us=float(random.uniform(3, 6)),
        exchange_us=float(random.uniform(3, 6)),
        loader_us=float(random.uniform(10, 60)),
        kernel_jitter_ratio=float(random.uniform(0.003, 0.02)),
        device_spread_ratio=float(random.uniform(0.001, 0.004)),
        counters=bool(random.random() < 0.5),
        seed=seed,
    )
    # What is exposed, the last gradients and the exchange of experts, is little of the step, or no
    # job would be harmless.
    part = float(random.uniform(0.01, 0.03))
    return dataclasses.replace(
        shape,
        collective_us=part * shape.device_step_us,
        exchange_us=min(shape.exchange_us, MOST_EXCHANGE_RATIO * shape.gemm_us),
    )


def wide_shape_of(random: np.random.Generator, seed: int, fault: str) -> JobShape:
    """Any shape that can have the fault and is not too large to play."""
    while True:
        shape = any_shape(random, seed)
        size = shape.ranks * shape.steps * shape.layers // shape.pipeline * shape.micro_batches
        if size > WIDE_MOST_LAYERS or not Fault(fault).suits(shape):
            continue
        shape = small(shape) if fault == "launch" else shape
        if exposed_ratio(shape) <= WIDE_MOST_EXPOSED_RATIO:
            return shape


def exposed_ratio(shape: JobShape) -> float:
    """What the worst rank exposes of its transfers without any fault, its waits for other ranks
    not counted. Where that is much it is a true finding, and the job no harmless one."""
    job = job_of(simulate(shape))
    exposed = []
    for column, view in enumerate(job.ranks):
        (waited_ns,) = exposed_waits(job, column, "ranks")
        transfer_ns = view.whole.exposed_communication_ns - (waited_ns or 0)
        exposed.append(transfer_ns / view.whole.window_ns)
    return max(exposed)


def small(shape: JobShape) -> JobShape:
    """A step of short kernels has short inputs too, or the loader would be the worse fault."""
    ratio = 15 * shape.layers * SHORT_KERNEL_US / shape.device_step_us
    return dataclasses.replace(
        shape, loader_us=ratio * shape.loader_us, input_copy_us=ratio * shape.input_copy_us
    )


def any_shape(random: np.random.Generator, seed: int) -> JobShape:
    ranks = 0
    while not 2 <= ranks <= WIDE_MOST_RANKS:
        pipeline = int(random.choice([1, 1, 1, 2, 3, 4, 6, 8]))
        tensor = int(random.choice([1, 1, 1, 2, 4]))
        experts = int(random.choice([1, 1, 1, 2, 4, 8]))
        groups = int(random.choice([1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32]))
        ranks = groups * experts * pipeline * tensor
    shape = JobShape(
        ranks=ranks,
        pipeline=pipeline,
        tensor=tensor,
        experts=experts,
        micro_batches=pipeline * int(random.choice([2, 3, 4])) if pipeline > 1 else 1,
        layers=pipeline * int(random.choice([1, 2, 3, 4])) * (1 if pipeline > 1 else 4),
        steps=int(random.integers(6, 25)),
        bucket_layers=int(random.choice([1, 2, 3, 6])),
        ranks_per_node=int(random.choice([4, 8])),
        gemm_us=float(np.exp(random.uniform(np.log(40), np.log(1200)))),
        backward_ratio=float(random.uniform(1.6, 2.4)),
        host_op_us=float(random.uniform(4, 9)),
        launch_us=float(random.uniform(3, 6)),
        kernel_jitter_ratio=float(random.uniform(0.002, 0.025)),
        device_spread_ratio=float(random.uniform(0.001, 0.004)),
        counters=bool(random.random() < 0.5),
        gpu=str(random.choice(["NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "NVIDIA B200"])),
        seed=seed,
    )
    # Communication inside and between layers is exposed: as little as that of the gradients.
    inner = float(random.uniform(0.02, 0.05)) / (2 if tensor > 1 and experts > 1 else 1)
    shape = dataclasses.replace(
        shape,
        attention_us=float(random.uniform(0.3, 1.2)) * shape.gemm_us,
        elementwise_us=float(random.uniform(0.1, 0.3)) * shape.gemm_us,
        norm_us=float(random.uniform(0.08, 0.15)) * shape.gemm_us,
        optimizer_us=float(random.uniform(0.5, 3)) * shape.gemm_us,
        tensor_us=inner * shape.gemm_us,
        exchange_us=inner * shape.gemm_us,
        transfer_us=float(random.uniform(0.02, 0.06)) * shape.gemm_us * shape.layers / pipeline,
        input_copy_us=float(random.uniform(0.1, 0.5)) * shape.gemm_us,
    )
    step_us = shape.device_step_us
    return dataclasses.replace(
        shape,
        collective_us=float(random.uniform(0.005, 0.03)) * step_us,
        loader_us=float(random.uniform(0.001, 0.006)) * step_us,
    )


def case_of(seed: int, shapes: Shapes) -> Case:
    random = np.random.default_rng([seed, 99])
    kinds = [str(kind) for kind in random.permutation(list(FAULTS))]
    shape = shapes(random, seed, kinds[0])
    count = 2 if random.random() < 1 / 6 else 1
    faults: list[Fault] = []
    for kind in kinds:
        severities = NETWORK_SEVERITIES if kind in NETWORK else SEVERITIES
        fault = Fault(kind, int(random.integers(shape.ranks)), float(random.choice(severities)))
        alone = "launch" in (kind, *(other.kind for other in faults))
        if len(faults) < count and fault.suits(shape) and not (alone and faults):
            faults.append(fault)
    condition = ()
    if random.random() < 1 / 5:
        condition = (Fault(str(random.choice(CONDITIONS))),)
    return Case(shape, tuple(faults), condition)


def true_gain(case: Case, fault: Fault, with_all_us: float) -> float:
    """What the job gains if this fault alone is repaired."""
    rest = tuple(other for other in case.faults if other is not fault)
    if fault.kind == "launch":
        rest = (dataclasses.replace(fault, factor=1.0),)
    return 1 - step_us(simulate(case.shape, rest)) / with_all_us


def hits(finding: Finding, fault: Fault, shape: JobShape) -> bool:
    right_rank = not fault.is_of_one_rank or finding.rank == fault.rank
    return finding.cause == fault.cause_in(shape) and right_rank


def outcome(seed: int, least: float, shapes: Shapes) -> Outcome:
    if seed % HANG_SHARE == 3:
        return hang_outcome(seed)
    case = case_of(seed, shapes)
    traces = simulate(case.shape, (*case.faults, *case.condition))
    findings = diagnose(job_of(traces)).findings
    # The condition changes the record of the steps, not their lengths.
    with_all_us = step_us(traces)
    gains = {fault: true_gain(case, fault, with_all_us) for fault in case.faults}
    worst = max(gains, key=lambda fault: gains[fault])
    label = f"{worst.kind} {worst.factor:g}"
    seen = [(f.rule, f.cause, f.rank, round(f.gain_ratio, 3)) for f in findings[:3]]
    truth = [(f.kind, f.rank, f.factor, round(gains[f], 3)) for f in case.faults]
    under = f" under {case.condition[0].kind}" if case.condition else ""
    note = f"seed {seed}: {truth}{under}: {seen}"
    if gains[worst] < least:
        wrong = any(not any(hits(f, t, case.shape) for t in case.faults) for f in findings)
        return Outcome(label, False, False, False, wrong, None, note if wrong else "")
    found = findings[0] if findings else None
    # Of two faults of nearly the same weight either may come first.
    peers = [f for f in gains if gains[f] > 0.7 * gains[worst]]
    matched = next((f for f in peers if found and hits(found, f, case.shape)), None)
    among = any(hits(f, fault, case.shape) for f in findings[:3] for fault in peers)
    error = None
    if matched and found:
        error = abs(found.gain_ratio - gains[matched]) / gains[matched]
    return Outcome(label, True, matched is not None, among, False, error, "" if matched else note)


def hang_outcome(seed: int) -> Outcome:
    """All ranks at fault and no other."""
    random = np.random.default_rng([seed, 98])
    kind = str(random.choice(HANGS))
    ranks = int(random.choice([4, 8, 16]))
    dumps, truth = hung_dumps(kind, ranks, random)
    named = {culprit.rank for culprit in find_culprits(dumps).culprits}
    right = named == set(truth)
    note = "" if right else f"seed {seed}: hang {kind} of {truth}: {sorted(named)}"
    return Outcome(f"hang {kind}", True, right, right, False, None, note)


def alarm(seed: int, number: int, shapes: Shapes) -> str:
    shape = case_of(seed, shapes).shape
    twin = Fault(TWINS[number % len(TWINS)], 0, SEVERITIES[2 + number % 4])
    findings = diagnose(job_of(simulate(shape, (twin,)))).findings
    if not findings:
        return ""
    return f"alarm: seed {seed} {twin.kind} {twin.factor}: {findings[0].rule} {findings[0].title}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="1000:1500", metavar="FIRST:END")
    parser.add_argument("--twins", type=int, default=140, help="number of harmless jobs")
    parser.add_argument("--least", type=float, default=0.02, help="least true gain to be found")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--wide", action="store_true", help="jobs of more kinds")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    first, end = (int(text) for text in args.seeds.split(":"))
    seeds = range(first, end)
    twins = range(args.twins)
    shapes = wide_shape_of if args.wide else shape_of
    with ProcessPoolExecutor(args.processes) as pool:
        outcomes = list(pool.map(partial(outcome, least=args.least, shapes=shapes), seeds))
        alarms = list(pool.map(partial(alarm, shapes=shapes), [first + i for i in twins], twins))
    for text in (*(row.note for row in outcomes), *alarms):
        if text:
            print(text)
    expected = [row for row in outcomes if row.has_to_be_found]
    count = max(1, len(expected))
    errors = [row.error for row in expected if row.error is not None]
    print(f"{len(expected)} faults to be found, {len(outcomes) - len(expected)} too small,"
          f" {args.twins} harmless jobs")  # fmt: skip
    kinds = Counter(row.label.split()[0] for row in expected)
    missed = Counter(row.label.split()[0] for row in expected if not row.is_first)
    print("found first:", ", ".join(f"{k} {n - missed[k]}/{n}" for k, n in sorted(kinds.items())))
    wrong_small = sum(row.is_wrong_small for row in outcomes)
    first_ratio, three_ratio = (
        sum(getattr(row, name) for row in expected) / count
        for name in ("is_first", "is_among_three")
    )
    bars = [
        at_least("cause and rank right, first finding", first_ratio, 0.98),
        at_least("cause and rank right, first three", three_ratio, 0.98),
        at_most("alarms on harmless jobs", sum(map(bool, alarms)), 0),
        at_most("median error of the predicted gain", median(errors) if errors else None, 0.20),
        at_most("wrong cause named for faults too small to count", wrong_small, 0),
    ]
    return report("diagnosis", bars, as_json=args.json)


if __name__ == "__main__":
    sys.exit(main())
