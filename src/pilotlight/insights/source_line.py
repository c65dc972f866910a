"""Which line of the user's code a finding is about, where the trace has Python stacks."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pilotlight.insights.finding import Finding, SpanReference
from pilotlight.insights.job import Job
from pilotlight.insights.rank import RankView
from pilotlight.trace.trace import NONE, Kind

# As torch.profiler names Python functions: path below sys.path, first line, function.
_FRAME = re.compile(r"^(?P<path>.+\.py)\((?P<line>\d{1,7})\): (?P<function>\S.*)$")
MAX_CHARACTERS = 120
_FRAMEWORKS = frozenset({"torch", "torchvision", "triton", "numpy", "apex", "transformer_engine"})


def with_lines(job: Job, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The places of findings, with the line that the first of their spans comes from that has
    one."""
    views = {view.rank: view for view in job.ranks}
    found = []
    for finding in findings:
        known = (line_of(views[one.rank], one) for one in finding.spans if one.rank in views)
        line = next(filter(None, known), "")
        found.append(replace(finding, place=f"{finding.place}, from {line}") if line else finding)
    return tuple(found)


def line_of(view: RankView, span: SpanReference) -> str:
    """`model.py:42 forward`: the innermost function around the span, or around half of it, that is
    neither the framework's nor Python's own; empty if the trace does not say."""
    called = _called(view, span)
    if called is None:
        return ""
    lane, start_ns, end_ns = called
    spans = view.trace.spans
    inside_ns = np.minimum(spans.end_ns, end_ns) - np.maximum(spans.start_ns, start_ns)
    around = (spans.kind == Kind.PYTHON) & (spans.lane == lane)
    rows = np.flatnonzero(around & (inside_ns >= (end_ns - start_ns) / 2))
    rows = rows[np.lexsort((-spans.duration_ns[rows], spans.start_ns[rows]))]
    for row in rows[::-1].tolist():
        frame = _FRAME.match(view.trace.names[spans.name[row]])
        if frame and not _is_framework(frame["path"]):
            return f"{frame['path']}:{frame['line']} {frame['function']}"[:MAX_CHARACTERS]
    return ""


def _is_framework(path: str) -> bool:
    _, installed, below = path.rpartition("-packages/")
    if not installed and "/lib/python3" in path:
        return True
    first = below.split("/", 1)[0].removesuffix(".py")
    return first in _FRAMEWORKS or first in sys.stdlib_module_names


def _called(view: RankView, span: SpanReference) -> tuple[int, int, int] | None:
    """Thread, begin and end of the call that launched this device span, if the trace has it; what
    the host did is of the thread that launches most."""
    if not len(view.calls):
        return None
    names = view.trace.names
    for row in np.flatnonzero(view.device.start_ns == span.start_ns).tolist():
        call = int(view.launch[row])
        if names[view.device.name[row]] == span.name:
            if call == NONE:
                return None
            start_ns = int(view.calls.start_ns[call])
            return int(view.calls.lane[call]), start_ns, start_ns + 1
    thread = int(np.bincount(view.calls.lane).argmax())
    return thread, span.start_ns, span.start_ns + max(1, span.duration_ns)
