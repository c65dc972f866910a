"""The tree of calls with the time spent in them, from samples and from the windows before them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pilotlight.recording.columns import Array, group
from pilotlight.recording.recording import MAIN_THREAD, Recording
from pilotlight.recording.schema import State, WindowKind
from pilotlight.report.coverage import Coverage

FUNCTIONS_LISTED = 200
THREAD_NOT_KEPT = "(before the detail)"
# Where only the main thread of a process begins: sums have stacks, but no threads.
_MAIN_ROOTS = ("<module>", "_run_module_as_main", "_find_and_load")


@dataclass(frozen=True)
class Function:
    name: str
    file: str


@dataclass(frozen=True)
class FunctionTime:
    """Over all ranks; `total_ns` counts a recursive function once."""

    function: str
    file: str
    self_ns: int
    total_ns: int
    running_ns: int
    samples: int


@dataclass(frozen=True)
class Flame:
    """Node 0 is the root; `parents[n] < n`. An entry is time that ended in a node.

    Entries are by process, name of the thread, node and state of the thread.
    """

    functions: tuple[Function, ...]
    parents: Array
    function_of: Array
    threads: tuple[str, ...]
    entry_process: Array
    entry_thread: Array
    entry_node: Array
    entry_state: Array
    entry_ns: Array
    entry_samples: Array

    def self_ns(self, entries: Array) -> Array:
        """Time by node of the chosen entries."""
        nodes, weights = self.entry_node[entries], self.entry_ns[entries]
        return np.bincount(nodes, weights, self.parents.size).astype(np.int64)

    def total_ns(self, self_ns: Array) -> Array:
        """With the time of everything called from a node."""
        total: Array = self_ns.copy()
        parents = self.parents.tolist()
        for node in range(len(parents) - 1, 0, -1):
            total[parents[node]] += total[node]
        return total


def flame_of(recording: Recording, coverage: Coverage) -> Flame:
    calls = recording.calls
    functions, parents, function_of, merged = _merge_lines(recording)

    samples = recording.detail("samples")
    detail = samples.where(coverage.detail_rows(samples["process"], samples["time_ns"]))
    sums = recording.windows("windows")
    early = sums.where(
        (sums["kind"] == WindowKind.SAMPLE)
        & coverage.window_rows(sums["process"], sums["start_ns"])
    )
    thread_names, thread_of = _thread_numbers(recording, detail["process"], detail["thread"])
    process = np.concatenate([detail["process"], early["process"]]).astype(np.int64)
    stack = np.concatenate([detail["stack"], early["id"]])
    node = merged[calls.find(process, stack)]
    is_main = _begins_main(functions, parents, function_of)[node[detail.rows :]]
    early_thread = np.where(is_main, thread_names.index(MAIN_THREAD), 0)
    thread = np.concatenate([thread_of, early_thread])
    state = np.concatenate([detail["state"], early["state"]]).astype(np.int64)
    weight = np.concatenate([detail["weight_ns"], early["total_ns"]])
    count = np.concatenate([np.ones(detail.rows, np.uint64), early["count"]])

    entries, position = group(process, thread, node, state)
    size = entries[0].size
    return Flame(
        functions=functions,
        parents=parents,
        function_of=function_of,
        threads=thread_names,
        entry_process=entries[0],
        entry_thread=entries[1],
        entry_node=entries[2],
        entry_state=entries[3],
        entry_ns=np.bincount(position, weight, size).astype(np.int64),
        entry_samples=np.bincount(position, count.astype(np.float64), size).astype(np.int64),
    )


def _merge_lines(recording: Recording) -> tuple[tuple[Function, ...], Array, Array, Array]:
    """The tree of calls by function and file: two lines of a function are one node."""
    calls = recording.calls
    numbers: dict[Function, int] = {}
    function_of_frame = [
        numbers.setdefault(Function(frame.function, frame.file), len(numbers))
        for frame in calls.frame_list
    ]
    nodes: dict[tuple[int, int], int] = {}
    merged, parents, function_of = [0], [0], [0]
    for parent, frame in zip(calls.parents[1:], calls.frames[1:], strict=True):
        key = (merged[parent], function_of_frame[frame])
        node = nodes.setdefault(key, len(parents))
        if node == len(parents):
            parents.append(key[0])
            function_of.append(key[1])
        merged.append(node)
    return tuple(numbers), np.array(parents), np.array(function_of), np.array(merged)


def _begins_main(functions: Sequence[Function], parents: Array, function_of: Array) -> Array:
    """Of each node: whether the outermost of its calls is one that only a main thread has."""
    result = np.zeros(parents.size, np.bool_)
    for node, parent in enumerate(parents.tolist()):
        if node and parent:
            result[node] = result[parent]
        elif node:
            result[node] = functions[function_of[node]].name in _MAIN_ROOTS
    return result


def _thread_numbers(
    recording: Recording, process: Array, thread: Array
) -> tuple[tuple[str, ...], Array]:
    """Threads of one name are one; number 0 is for time whose thread is not kept."""
    names = recording.thread_names
    found, position = group(process, thread)
    numbers = {THREAD_NOT_KEPT: 0, MAIN_THREAD: 1}
    number_of = [
        numbers.setdefault(names.get((index, number)) or f"thread {number}", len(numbers))
        for index, number in zip(found[0].tolist(), found[1].tolist(), strict=True)
    ]
    return tuple(numbers), np.array(number_of, np.int64)[position]


def function_times(
    flame: Flame, threads: frozenset[str], without: frozenset[int] = frozenset()
) -> tuple[FunctionTime, ...]:
    """The functions in threads of these names, those with the most time of their own first."""
    size = len(flame.functions)
    entry_function = flame.function_of[flame.entry_node]
    numbers = [number for number, name in enumerate(flame.threads) if name in threads]
    chosen_entries = np.isin(flame.entry_thread, numbers) & ~np.isin(
        flame.entry_process, list(without)
    )
    named = chosen_entries & (flame.entry_node > 0)
    self_ns = np.bincount(entry_function[named], flame.entry_ns[named], size)
    is_running = named & (flame.entry_state == State.RUNNING)
    running_ns = np.bincount(entry_function[is_running], flame.entry_ns[is_running], size)
    samples = np.bincount(entry_function[named], flame.entry_samples[named], size)
    node_total = flame.total_ns(flame.self_ns(chosen_entries))
    outermost = _outermost(flame)
    total_ns = np.bincount(flame.function_of[outermost], node_total[outermost], size)
    by_self = np.argsort(self_ns, kind="stable")[::-1].tolist()
    return tuple(
        FunctionTime(
            function=flame.functions[number].name,
            file=flame.functions[number].file,
            self_ns=int(self_ns[number]),
            total_ns=int(total_ns[number]),
            running_ns=int(running_ns[number]),
            samples=int(samples[number]),
        )
        for number in by_self
        if total_ns[number] > 0
    )


def most_telling(functions: Sequence[FunctionTime]) -> tuple[FunctionTime, ...]:
    """Of all functions those with the most time, of their own and in all."""
    by_self = sorted(functions, key=lambda one: -one.self_ns)[:FUNCTIONS_LISTED]
    by_total = sorted(functions, key=lambda one: -one.total_ns)[:FUNCTIONS_LISTED]
    return tuple(dict.fromkeys(by_self + by_total))


def _outermost(flame: Flame) -> Array:
    """The nodes that have no caller of the same function."""
    parents, functions = flame.parents.tolist(), flame.function_of.tolist()
    children: list[list[int]] = [[] for _ in parents]
    for node in range(1, len(parents)):
        children[parents[node]].append(node)
    depth_of = [0] * len(flame.functions)
    result = []
    pending = list(children[0])
    while pending:
        node = pending.pop()
        if node < 0:
            depth_of[functions[-node]] -= 1
            continue
        if not depth_of[functions[node]]:
            result.append(node)
        depth_of[functions[node]] += 1
        pending.append(-node)
        pending.extend(children[node])
    return np.array(result, np.int64)
