"""pilotlight.analyze: findings and tables from traces, for scripts and notebooks."""

from __future__ import annotations

import contextlib
import dataclasses
import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from pilotlight.errors import UsageError
from pilotlight.insights.breakdown import Breakdown
from pilotlight.insights.catalogue import RULES, diagnose, plugin_rules
from pilotlight.insights.clock import clock_problems
from pilotlight.insights.host_excess import with_host_work
from pilotlight.insights.host_windows import steady, windows_of
from pilotlight.insights.job import Job, job_of
from pilotlight.insights.online.diagnosis import NO_STEPS, ONLINE_RULES, diagnose_windows
from pilotlight.insights.online.steps import NOT_SENT
from pilotlight.insights.sampled import NO_SAMPLES, Samples, samples_of, with_samples
from pilotlight.insights.tables import TABLES, Table, Told
from pilotlight.insights.verdicts import Diagnosis, shown
from pilotlight.model.hardware import find_gpu, gpus
from pilotlight.trace.bounded import bounded
from pilotlight.trace.problem import Problem
from pilotlight.trace.reader import read_traces
from pilotlight.trace.trace import Trace

SHOWN_RANKS = 64
STALL_STEPS = 3
NO_SPANS = "no span of this in the steps"
SHOWN_PROBLEMS = 10
LARGE = ("kernels", "stacks", "host_operators", "host_functions")  # asked for by name only
_STYLE = "font:14px system-ui;max-width:70em;border-collapse:collapse"


@dataclass(frozen=True, repr=False)
class Analysis:
    """What the traces say; `table(name)` for each of TABLES, `frame(name)` as a data frame."""

    job: Job
    diagnosis: Diagnosis
    problems: tuple[Problem, ...]
    samples: Samples = NO_SAMPLES

    def table(self, name: str) -> list[dict[str, Any]]:
        """Rows of a table as dictionaries with the same keys."""
        with bounded():
            return _known(name).rows(Told(self.job, self.diagnosis.findings, self.samples))

    def frame(self, name: str) -> Any:
        """The table as a data frame of polars, or of pandas where that is what is installed. One
        without rows has its columns."""
        rows, columns = self.table(name), list(_known(name).columns)
        with contextlib.suppress(ImportError):
            polars: Any = import_module("polars")
            if not rows:
                return polars.DataFrame(schema=columns)
            return polars.DataFrame(rows, infer_schema_length=None)
        with contextlib.suppress(ImportError):
            return import_module("pandas").DataFrame(rows, columns=columns)
        raise UsageError("data frames need polars or pandas: pip install polars")

    def to_dict(self) -> dict[str, Any]:
        return {
            "step_ns": self.job.step_ns if self.job.ranks else None,
            "traces": [
                {
                    "source": trace.source,
                    "format": trace.format,
                    "rank": trace.rank,
                    "world_size": trace.world_size,
                    "devices": list(trace.devices[:1]),
                    "spans": len(trace.spans),
                    "unused_events": trace.skipped,
                }
                for trace in self.job.traces
            ],
            "findings": self.table("findings"),
            "joint_gain_ratio": self.diagnosis.joint_gain_ratio,
            "pricing": self.diagnosis.pricing,
            "not_checked": [dataclasses.asdict(row) for row in self.diagnosis.not_checked],
            **{name: self.table(name) for name in TABLES if name not in ("findings", *LARGE)},
            "problems": [str(problem) for problem in self.problems],
        }

    def to_html(self, title: str = "traces") -> str:
        """A page that needs nothing else: findings, timeline, flame graph, roofline."""
        from pilotlight.web.opened import OpenTrace
        from pilotlight.web.traced import trace_page

        return trace_page(OpenTrace("0", title, self))

    def __repr__(self) -> str:
        """A line a finding: shells and notebooks print it, and traces are large."""
        traces, ranks = (len(each) for each in (self.job.traces, self.job.ranks))
        lines = [f"Analysis of {_plural(traces, 'trace')}, {_plural(ranks, 'rank')} with device"
                 " activity"]  # fmt: skip
        for finding in self.diagnosis.findings:
            rank = "" if finding.rank is None else f" (rank {finding.rank})"
            lines.append(f"  {finding.rule} {finding.title}{rank}: {finding.gain_text}")
        if not self.diagnosis.findings:
            lines.append("  nothing found")
        lines += [f"  problem: {problem}" for problem in self.problems[:SHOWN_PROBLEMS]]
        lines.append(f"  {len(self.diagnosis.not_checked)} rules not checked; .frame(name) for"
                     f" {', '.join(TABLES)}")  # fmt: skip
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        parts = [f'<div style="{_STYLE}">']
        for finding in self.diagnosis.findings:
            evidence = "".join(f"<li>{html.escape(text)}</li>" for text in finding.evidence)
            parts.append(
                f"<h3>{html.escape(finding.title)}</h3>"
                f"<p>{html.escape(finding.where)}: gain {finding.gain_text},"
                f" {finding.confidence} confidence</p><ul>{evidence}</ul>"
                f"<p>Do: {html.escape(finding.fix)}</p>"
            )
        if not self.diagnosis.findings:
            parts.append("<p>Nothing found.</p>")
        if len(self.diagnosis.findings) > 1 and self.diagnosis.joint_gain_ratio is not None:
            joint = f"{100 * self.diagnosis.joint_gain_ratio:.1f} %"
            parts.append(f"<p>All together gain {joint}: single gains do not add up.</p>")
        parts += [f"<p>{html.escape(str(p))}</p>" for p in self.problems[:SHOWN_PROBLEMS]]
        parts.append(_html_table(_flat([view.whole for view in self.job.ranks[:SHOWN_RANKS]])))
        if len(self.job.ranks) > SHOWN_RANKS:
            parts.append(f"<p>and {len(self.job.ranks) - SHOWN_RANKS} ranks more</p>")
        missing = "".join(
            f"<li>{row.rule} {html.escape(row.cause)}: {html.escape(row.missing)}</li>"
            for row in self.diagnosis.not_checked
        )
        parts.append(f"<details><summary>Not checked</summary><ul>{missing}</ul></details></div>")
        return "".join(parts)


def analyze(
    paths: str | Path | Sequence[str | Path],
    progress: Callable[[int], None] = lambda count_bytes: None,
    memory_bytes: int | None = None,
    gpu: str | None = None,
) -> Analysis:
    """Reads traces as the ranks of one job and diagnoses it. `gpu`: on which they ran, where they
    do not say it.

    What is wrong with the input is in `problems`; only paths of which none exists raise.
    """
    chosen = [paths] if isinstance(paths, (str, Path)) else list(paths)
    files = [Path(path) for path in chosen]
    with bounded():
        found = read_traces(files, progress=progress, memory_bytes=memory_bytes)
        job = job_of(_on(gpu, found.traces) if gpu else found.traces)
        diagnosis = diagnose(job, (*RULES, *plugin_rules()))
        if not job.ranks:
            windows = windows_of(job.traces)
            of_host = diagnose_windows(
                steady(windows, STALL_STEPS), stall_steps=STALL_STEPS, told=windows
            )
            told = with_host_work(of_host.findings, job.traces)
            diagnosis = _with_host(diagnosis, replace(of_host, findings=told))
        samples = samples_of(files)
        diagnosis = replace(diagnosis, findings=with_samples(diagnosis.findings, samples))
    return Analysis(job, diagnosis, (*found.problems, *clock_problems(job)), samples)


def _on(name: str, traces: Sequence[Trace]) -> list[Trace]:
    """Traces that name no GPU, or none that is known, are of this one."""
    gpu = find_gpu(name)
    if gpu is None:
        raise UsageError(f"{name}: which GPU? One of {', '.join(gpus())}")
    return [
        trace
        if any(find_gpu(device) for device in trace.devices[:1])
        else replace(trace, devices=(gpu.name,))
        for trace in traces
    ]


def _known(name: str) -> Table:
    if name not in TABLES:
        raise UsageError(f"no table {name!r}: one of {', '.join(TABLES)}")
    return TABLES[name]


def _with_host(found: Diagnosis, of_host: Diagnosis) -> Diagnosis:
    """Without device activity the steps and phases of the hosts tell what they can."""
    if any(row.missing == NO_STEPS for row in of_host.not_checked):
        return found
    checked = {finding.rule for finding in of_host.findings}
    others = [row for row in found.findings if row.rule != "A07" or "A34" not in checked]
    missing = {row.rule: row for row in found.not_checked}
    for row in of_host.not_checked:
        absent = row.missing.startswith(NOT_SENT)
        missing[row.rule] = replace(row, missing=NO_SPANS) if absent else row
    for rule in ONLINE_RULES - {row.rule for row in of_host.not_checked}:
        missing.pop(rule, None)
    return replace(
        found,
        findings=shown((*others, *of_host.findings)),
        not_checked=tuple(missing.values()),
    )


def _flat(rows: Sequence[Breakdown]) -> list[dict[str, str]]:
    """Ranks for people, with the causes of idle time that one of them has."""
    causes = {cause for row in rows for cause, ns in row.idle_by_cause_ns.items() if ns}
    return [
        {
            "rank": str(row.rank),
            "window ms": f"{row.window_ns / 1e6:.2f}",
            "compute": _percent(row.compute_ns, row.window_ns),
            "exposed communication": _percent(row.exposed_communication_ns, row.window_ns),
            "exposed copies": _percent(row.exposed_copy_ns, row.window_ns),
            "idle": _percent(row.idle_ns, row.window_ns),
            **{
                f"idle: {cause}": _percent(ns, row.window_ns)
                for cause, ns in row.idle_by_cause_ns.items()
                if cause in causes
            },
        }
        for row in rows
    ]


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else ""


def _html_table(rows: list[dict[str, str]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{html.escape(key)}</th>" for key in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(value)}</td>" for value in row.values()) + "</tr>"
        for row in rows
    )
    return f"<table border=1 cellpadding=4><tr>{head}</tr>{body}</table>"
