from __future__ import annotations

from dataclasses import replace

import numpy as np

from pilotlight.analysis import Analysis
from pilotlight.insights.job import job_of
from pilotlight.insights.verdicts import Diagnosis
from pilotlight.trace.trace import Kind, Trace
from pilotlight.web.opened import OpenTrace


def test_all_device_time_is_in_the_tree_below_the_launching_operators(job: OpenTrace) -> None:
    rank = job.rank(1)
    tree = job.icicle(1, 0, job.extent.length_ns)
    spans = rank.trace.spans
    device = (spans.kind >= Kind.KERNEL) & (spans.kind <= Kind.MEMSET)
    assert tree.device_ns.sum() == spans.duration_ns[device].sum()
    assert (tree.parent[1:] < np.arange(1, tree.parent.size)).all()
    paths = set()
    for node in np.flatnonzero(tree.device_ns).tolist():
        names = []
        while node:
            names.append(tree.names[int(tree.name[node])])
            node = int(tree.parent[node])
        paths.add(" < ".join(names))
    assert any("flash_fwd" in path and "scaled_dot_product" in path for path in paths)


def test_host_time_adds_up_to_what_the_outermost_spans_cover(job: OpenTrace) -> None:
    rank = job.rank(0)
    tree = job.icicle(0, 0, job.extent.length_ns)
    outermost = [
        rank.layout.order[rank.layout.first[i] : rank.layout.first[i + 1]]
        for i, row in enumerate(rank.layout.rows)
        if not row.is_device and row.depth == 0 and i > 0
    ]
    covered = sum(int(rank.trace.spans.duration_ns[rows].sum()) for rows in outermost)
    assert tree.host_ns.sum() == covered


def test_a_stretch_of_time_counts_only_what_lies_in_it(job: OpenTrace) -> None:
    length = job.extent.length_ns
    whole = job.icicle(0, 0, length).device_ns.sum()
    halves = sum(
        job.icicle(0, low, high).device_ns.sum()
        for low, high in ((0, length // 2), (length // 2, length))
    )
    assert halves == whole
    assert job.icicle(0, length + 5, length + 9).device_ns.sum() == 0


def test_steps_and_threads_of_one_name_are_one_whatever_their_numbers(
    traces: tuple[Trace, ...],
) -> None:
    """Without that no two traces could be compared."""
    names = tuple(name.replace("ProfilerStep#", "ProfilerStep#7") for name in traces[0].names)
    lanes = tuple(replace(lane, process=f"9{lane.process}") for lane in traces[0].lanes)
    other = OpenTrace("1", "later", opened_analysis(replace(traces[0], names=names, lanes=lanes)))
    one = OpenTrace("0", "earlier", opened_analysis(traces[0]))
    assert paths(one) == paths(other)
    assert "ProfilerStep" in {path.split(" > ")[-1] for path in paths(one)}


def opened_analysis(trace: Trace) -> Analysis:
    return Analysis(job_of((trace,)), Diagnosis((), ()), ())


def paths(trace: OpenTrace) -> set[str]:
    tree = trace.icicle(trace.first_rank, 0, trace.extent.length_ns)
    found = ["all"]
    for node in range(1, tree.parent.size):
        found.append(f"{found[int(tree.parent[node])]} > {tree.names[int(tree.name[node])]}")
    return set(found)
