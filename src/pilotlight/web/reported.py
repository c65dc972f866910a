"""A report as one file: thinned to what a browser can draw."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pilotlight.recording.columns import group
from pilotlight.report.document import document_of, step_document
from pilotlight.report.flame import Flame, Function
from pilotlight.report.report import Report
from pilotlight.report.steps import StepRows
from pilotlight.web.onefile import one_file
from pilotlight.web.stalled import joined

NODES_LIMIT = 20_000
ENTRIES_LIMIT = 100_000
STEPS_LIMIT = 100_000
SMALL = Function("(small)", "")


def report_page(report: Report, version: str) -> str:
    """The whole page. Names from the profiled program are data in it, never markup or code."""
    flame, nodes_left_out = pruned(report.flame)
    document = document_of(replace(report, flame=flame))
    document["step_rows"], steps_left_out = thinned(report)
    document["page"] = {"nodes_left_out": nodes_left_out, "steps_left_out": steps_left_out}
    document["stalls"] = joined(report.gpu.stalls)
    title = f"{report.manifest.job} · pilotlight"
    return one_file(title, "#/report", {"report": document}, {}, version)


def pruned(flame: Flame) -> tuple[Flame, int]:
    """The flame with its largest nodes only; the time of the others is in `(small)` beside them."""
    entries = flame.entry_node.size
    if flame.parents.size <= NODES_LIMIT and entries <= ENTRIES_LIMIT:
        return flame, 0
    limit = min(NODES_LIMIT, max(1, int(NODES_LIMIT * min(1.0, ENTRIES_LIMIT / entries))))
    total_ns = flame.total_ns(flame.self_ns(np.ones(entries, bool)))
    keep = np.zeros(flame.parents.size, bool)
    keep[np.argsort(-total_ns, kind="stable")[:limit]] = True
    keep[0] = True
    parents, functions, renamed, small = [0], [int(flame.function_of[0])], [0], {0: -1}
    small_number = len(flame.functions)
    old_parents, old_functions = flame.parents.tolist(), flame.function_of.tolist()
    for node in range(1, flame.parents.size):
        above = renamed[old_parents[node]]
        is_whole = bool(keep[node]) and small.get(above) != above
        if not is_whole and small.get(above, -1) >= 0:
            renamed.append(small[above])
            continue
        number = len(parents)
        parents.append(above)
        functions.append(old_functions[node] if is_whole else small_number)
        renamed.append(number)
        if not is_whole:
            small[above] = small[number] = number
    left_out = int(flame.parents.size - np.count_nonzero(keep))
    return _with_nodes(flame, parents, functions, renamed), left_out


def _with_nodes(
    flame: Flame, parents: list[int], functions: list[int], renamed: list[int]
) -> Flame:
    node = np.array(renamed)[flame.entry_node]
    found, position = group(flame.entry_process, flame.entry_thread, node, flame.entry_state)
    size = found[0].size
    return replace(
        flame,
        functions=(*flame.functions, SMALL),
        parents=np.array(parents),
        function_of=np.array(functions),
        entry_process=found[0],
        entry_thread=found[1],
        entry_node=found[2],
        entry_state=found[3],
        entry_ns=np.bincount(position, flame.entry_ns, size).astype(np.int64),
        entry_samples=np.bincount(position, flame.entry_samples, size).astype(np.int64),
    )


def thinned(report: Report) -> tuple[list[dict[str, Any]], int]:
    """All outliers, and of the other steps every n-th where there are too many to draw."""
    whole = sum(rows.step.size for rows in report.step_rows)
    every = -(-whole // STEPS_LIMIT) if whole else 1
    documents = []
    kept = 0
    for rows in report.step_rows:
        chosen = rows.is_outlier | (np.arange(rows.step.size) % every == 0)
        kept += int(np.count_nonzero(chosen))
        documents.append(step_document(_chosen(rows, chosen), report.start_ns))
    return documents, whole - kept


def _chosen(rows: StepRows, mask: Any) -> StepRows:
    return StepRows(
        rows.process,
        rows.thread[mask],
        rows.step[mask],
        rows.start_ns[mask],
        rows.duration_ns[mask],
        rows.is_outlier[mask],
    )
