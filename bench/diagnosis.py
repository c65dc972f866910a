"""Diagnoses simulated jobs with seeded faults and with harmless changes.

    python bench/diagnosis.py [--seeds 1000:1500] [--twins 120] [--json]

A case is a job of random shape with one fault, or two in one of eight cases, of random kind, rank
and severity. The truth of the gain is the same seed played without the fault. Faults that cost less
than `--least` of the step are played too: there nothing has to be found, but nothing wrong may be.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from pilotlight.insights.catalogue import diagnose
from pilotlight.insights.finding import Finding
from pilotlight.insights.job import job_of
from pilotlight.simulate.fault import FAULTS, TWINS, Fault
from pilotlight.simulate.job import JobShape
from pilotlight.simulate.run import simulate, step_us

SEVERITIES = (1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0)
# A link slower by less hides behind compute, as it should.
LINK_SEVERITIES = (6.0, 9.0, 12.0)


@dataclass(frozen=True)
class Case:
    shape: JobShape
    faults: tuple[Fault, ...]


def case_of(seed: int) -> Case:
    random = np.random.default_rng([seed, 99])
    shape = JobShape(
        ranks=int(random.choice([4, 8, 16])),
        steps=int(random.integers(8, 16)),
        layers=int(random.choice([6, 9, 12])),
        gemm_us=float(random.uniform(80, 200)),
        attention_us=float(random.uniform(50, 120)),
        collective_us=float(random.uniform(150, 350)),
        loader_us=float(random.uniform(10, 60)),
        kernel_jitter_ratio=float(random.uniform(0.003, 0.02)),
        device_spread_ratio=float(random.uniform(0.001, 0.004)),
        seed=seed,
    )
    kinds = list(random.permutation(list(FAULTS)))
    count = 2 if random.random() < 1 / 8 else 1
    faults = []
    for kind in kinds[:count]:
        severities = LINK_SEVERITIES if kind == "slow_link" else SEVERITIES
        factor = float(random.choice(severities))
        faults.append(Fault(str(kind), int(random.integers(shape.ranks)), factor))
    if any(fault.kind == "launch" for fault in faults):
        faults = [fault for fault in faults if fault.kind == "launch"]
    return Case(shape, tuple(faults))


def true_gain(case: Case, fault: Fault, with_all_us: float) -> float:
    """What the job gains if this fault alone is repaired."""
    rest = tuple(other for other in case.faults if other is not fault)
    if fault.kind == "launch":
        rest = (dataclasses.replace(fault, factor=1.0),)
    return 1 - step_us(simulate(case.shape, rest)) / with_all_us


def hits(finding: Finding, fault: Fault) -> bool:
    right_rank = not fault.is_of_one_rank or finding.rank == fault.rank
    return finding.cause == fault.cause and right_rank


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="1000:1500", metavar="FIRST:END")
    parser.add_argument("--twins", type=int, default=120, help="number of harmless jobs")
    parser.add_argument("--least", type=float, default=0.02, help="least true gain to be found")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    first, end = (int(text) for text in args.seeds.split(":"))
    top1 = top3 = expected = small = wrong_small = 0
    errors = []
    missed: dict[str, int] = {}
    for number, seed in enumerate(range(first, end)):
        case = case_of(seed)
        traces = simulate(case.shape, case.faults)
        findings = diagnose(job_of(traces)).findings
        with_all_us = step_us(traces)
        gains = {fault: true_gain(case, fault, with_all_us) for fault in case.faults}
        worst = max(gains, key=lambda fault: gains[fault])
        if gains[worst] < args.least:
            small += 1
            wrong_small += any(not any(hits(f, t) for t in case.faults) for f in findings)
            continue
        expected += 1
        found = findings[0] if findings else None
        # Of two faults of nearly the same weight either may come first.
        peers = [f for f in gains if gains[f] > 0.7 * gains[worst]]
        matched = next((f for f in peers if found and hits(found, f)), None)
        top1 += matched is not None
        top3 += any(hits(f, fault) for f in findings[:3] for fault in peers)
        if matched and found:
            errors.append(abs(found.gain_ratio - gains[matched]) / gains[matched])
        else:
            label = f"{worst.kind} {worst.factor:g}"
            missed[label] = missed.get(label, 0) + 1
            if not args.json:
                seen = [(f.cause, f.rank, round(f.gain_ratio, 3)) for f in findings[:3]]
                print(f"\nseed {seed}: {case.faults} gain {gains[worst]:.3f}: {seen}")
        if sys.stderr.isatty() and number % 10 == 0:
            print(f"\r{number} of {end - first}", end="", file=sys.stderr)
    alarms = 0
    for i in range(args.twins):
        shape = case_of(first + i).shape
        twin = Fault(TWINS[i % len(TWINS)], 0, SEVERITIES[2 + i % 4])
        findings = diagnose(job_of(simulate(shape, (twin,)))).findings
        alarms += bool(findings)
        if findings and not args.json:
            print(f"\nalarm: {shape.seed} {twin.kind} {twin.factor}: {findings[0].title}")
    error = median(errors) if errors else None
    rows = [
        ("cause and rank right, first finding", top1 / max(1, expected), 0.98, "least"),
        ("cause and rank right, first three", top3 / max(1, expected), 0.98, "least"),
        ("alarms on harmless jobs", alarms, 0, "most"),
        ("median error of the predicted gain", error, 0.20, "most"),
        ("wrong cause named for faults too small to count", wrong_small, 0, "most"),
    ]
    bars = []
    print(f"{expected} faults to be found, {small} too small, {args.twins} harmless jobs")
    for what, value, bar, sense in rows:
        holds = None if value is None else (value >= bar if sense == "least" else value <= bar)
        bars.append({"what": what, "value": value, "bar": bar, "holds": holds})
        print(f"{what:<50} {value if value is None else round(value, 4):>8}   bar {bar}   {holds}")
    if missed:
        print("missed:", ", ".join(f"{k} ({n})" for k, n in sorted(missed.items())))
    if args.json:
        print(json.dumps({"benchmark": "diagnosis", "bars": bars}))


if __name__ == "__main__":
    main()
