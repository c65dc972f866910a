"""The tables of an analysis: rows of one kind each, as dictionaries with the same keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pilotlight.errors import FormatError
from pilotlight.insights.breakdown import (
    Breakdown,
    CategoryTime,
    KernelTime,
    category_times,
    kernel_times,
)
from pilotlight.insights.communication import (
    Clock,
    GroupCommunication,
    RankCommunication,
    clocks,
    exposed_waits,
    group_communication,
    rank_communication,
)
from pilotlight.insights.critical_path import PathPart, critical_path
from pilotlight.insights.finding import Finding
from pilotlight.insights.host_time import (
    HostFunction,
    HostOperator,
    HostTime,
    host_functions,
    host_operators,
    host_times,
)
from pilotlight.insights.job import Job, steady_part
from pilotlight.insights.launches import Launches, launches
from pilotlight.insights.memory_use import MemoryUse, memory_use
from pilotlight.insights.ownership import (
    OwnerTime,
    StackTime,
    module_times,
    operator_times,
    stack_times,
)
from pilotlight.insights.pricing import too_many_spans
from pilotlight.insights.rank import RankView
from pilotlight.insights.recorded_graph import recorded_graph
from pilotlight.insights.sampled import Samples
from pilotlight.report.hardware import UnitUse
from pilotlight.report.kernel_use import KernelUse
from pilotlight.report.stalls import FunctionStalls

Row = dict[str, Any]
_OF_BREAKDOWN = ("exposed_communication_waiting_ns", "overlap_ratio")


@dataclass(frozen=True)
class Told:
    """What tables are made of."""

    job: Job
    findings: Sequence[Finding]
    samples: Samples


@dataclass(frozen=True)
class Table:
    """`columns` are known without a row."""

    columns: tuple[str, ...]
    rows: Callable[[Told], list[Row]]


def _columns(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def _table(kind: type, rows: Callable[[Told], Iterable[Any]]) -> Table:
    return Table(_columns(kind), lambda told: [dataclasses.asdict(row) for row in rows(told)])


def _of_ranks(kind: type, rows: Callable[[RankView], Iterable[Any]]) -> Table:
    columns = tuple(dict.fromkeys(("rank", *_columns(kind))))

    def made(told: Told) -> list[Row]:
        return [
            {"rank": view.rank, **dataclasses.asdict(row)}
            for view in told.job.ranks
            for row in rows(view)
        ]

    return Table(columns, made)


def _of_breakdowns(of: str) -> Table:
    return Table((*_columns(Breakdown), *_OF_BREAKDOWN), lambda told: _breakdowns(told.job, of))


def _breakdowns(job: Job, of: str) -> list[Row]:
    found = []
    for column, view in enumerate(job.ranks):
        rows = view.steps if of == "steps" else (view.whole,)
        for row, waited_ns in zip(rows, exposed_waits(job, column, of), strict=True):
            more = zip(_OF_BREAKDOWN, (waited_ns, row.overlap_ratio), strict=True)
            found.append({**dataclasses.asdict(row), **dict(more)})
    return found


def _critical_path(told: Told) -> list[PathPart]:
    """Of what represents the job, as the gains are; empty for jobs that cannot be replayed, for
    which `pricing` says why."""
    job = told.job
    if not job.ranks or too_many_spans(job) is not None:
        return []
    try:
        return critical_path(recorded_graph(steady_part(job)))
    except FormatError:
        return []


def _findings(told: Told) -> list[Row]:
    rows = [dataclasses.asdict(finding) for finding in told.findings]
    return [{name: row[name] for name in _OF_FINDING} for row in rows]


# What the replay was asked is no part of the answer.
_OF_FINDING = tuple(name for name in _columns(Finding) if name != "remedies")

TABLES = {
    "findings": Table(_OF_FINDING, _findings),
    "ranks": _of_breakdowns("ranks"),
    "steps": _of_breakdowns("steps"),
    "kernels": _of_ranks(KernelTime, lambda view: kernel_times(view.trace)),
    "categories": _of_ranks(CategoryTime, lambda view: category_times(view.trace)),
    "modules": _of_ranks(OwnerTime, module_times),
    "operators": _of_ranks(OwnerTime, operator_times),
    "stacks": _of_ranks(StackTime, stack_times),
    "launches": _of_ranks(Launches, lambda view: [launches(view)]),
    "communication": _table(RankCommunication, lambda told: rank_communication(told.job)),
    "groups": _table(GroupCommunication, lambda told: group_communication(told.job)),
    "clocks": _table(Clock, lambda told: clocks(told.job)),
    "memory": _of_ranks(MemoryUse, memory_use),
    "critical_path": _table(PathPart, _critical_path),
    "hosts": _table(HostTime, lambda told: host_times(told.job.traces)),
    "host_operators": _table(HostOperator, lambda told: host_operators(told.job.traces)),
    "host_functions": _table(HostFunction, lambda told: host_functions(told.job.traces)),
    "stalls": _table(FunctionStalls, lambda told: told.samples.stalls),
    "units": _table(UnitUse, lambda told: told.samples.units),
    "kernel_metrics": _table(KernelUse, lambda told: told.samples.kernels),
}
