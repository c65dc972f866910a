"""speedscope: one sampled profile for each thread, all sharing one list of frames."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, BinaryIO

from pilotlight.export.stacks import (
    ThreadSamples,
    process_label,
    thread_label,
    thread_samples,
)
from pilotlight.recording.recording import Recording

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_AT_ONCE = 10_000


def write_speedscope(recording: Recording, out: BinaryIO) -> None:
    frames = [
        {"name": frame.function, "file": frame.file, "line": frame.line}
        for frame in recording.calls.frame_list
    ]
    head = {
        "$schema": SCHEMA,
        "name": recording.manifest.job,
        "exporter": "pilotlight",
        "activeProfileIndex": 0,
        "shared": {"frames": frames},
    }
    _write(out, _json(head)[:-1] + ',"profiles":[')
    threads = thread_samples(recording)
    for number, samples in enumerate(threads):
        _write(out, "," if number else "")
        _write_profile(recording, samples, out)
    _write(out, "]}\n")


def _write_profile(recording: Recording, samples: ThreadSamples, out: BinaryIO) -> None:
    who = process_label(recording, samples.process)
    head = {
        "type": "sampled",
        "name": f"{who} {thread_label(recording, samples.process, samples.thread)}",
        "unit": "nanoseconds",
        "startValue": 0,
        "endValue": int(samples.weight_ns.sum()),
    }
    _write(out, _json(head)[:-1] + ',"samples":[')
    paths = _paths(recording)
    _write_list(out, (paths(node) for node in samples.nodes.tolist()))
    _write(out, '],"weights":[')
    _write_list(out, samples.weight_ns.tolist())
    _write(out, "]}")


def _paths(recording: Recording) -> Any:
    """Nodes as lists of frames, outermost first, each made once."""
    calls = recording.calls
    known: dict[int, list[int]] = {0: []}

    def path(node: int) -> list[int]:
        missing = []
        while node not in known:
            missing.append(node)
            node = calls.parents[node]
        for below in reversed(missing):
            known[below] = [*known[calls.parents[below]], calls.frames[below]]
        return known[missing[0]] if missing else known[node]

    return path


def _write_list(out: BinaryIO, items: Iterable[object]) -> None:
    iterator: Iterator[object] = iter(items)
    first = True
    while some := list(islice(iterator, _AT_ONCE)):
        _write(out, ("" if first else ",") + _json(some)[1:-1])
        first = False


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _write(out: BinaryIO, text: str) -> None:
    out.write(text.encode())
