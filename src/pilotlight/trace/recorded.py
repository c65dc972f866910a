"""Reads a recording of pilotlight: a trace for each process of the job that has steps or spans."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pilotlight.errors import FormatError
from pilotlight.recording.columns import Array
from pilotlight.recording.gpu_windows import gpu_windows
from pilotlight.recording.recording import Recording
from pilotlight.trace.problem import Problem
from pilotlight.trace.recorded_gpu import analysed_window, device_spans
from pilotlight.trace.trace import NONE, Counters, Kind, Lane, Spans, Steps, Trace

MANIFEST = "manifest.json"
_GC = 2  # spans.kind in docs/recording.md


def is_recording(path: Path) -> bool:
    return (path / MANIFEST).is_file()


def read_recording(path: Path) -> tuple[Trace, ...]:
    """Raises FormatError if the folder is no recording; its warnings become problems."""
    recording = Recording.open(path)
    spans, steps, counters = (recording.detail(table) for table in ("spans", "steps", "counters"))
    texts = (*recording.names.texts, "Python GC")
    span_names = recording.names.find(spans["process"], spans["name"])
    counter_names = recording.names.find(counters["process"], counters["name"])
    gpu = {windows.process: windows for windows in gpu_windows(recording)}
    notes: list[Problem] = []
    traces = []
    for process in recording.processes:
        index = process.start.process
        mine, my_steps = spans["process"] == index, steps["process"] == index
        my_counters = counters["process"] == index
        windows = gpu.get(index)
        device = device_spans(recording, index, process.start.pid, 0)
        if not (mine.any() or my_steps.any() or my_counters.any() or len(device.spans)):
            continue
        threads, lane = np.unique(spans["thread"][mine], return_inverse=True)
        collects = spans["kind"][mine] == _GC
        name = np.where(collects, len(texts) - 1, span_names[mine])
        none = np.full(int(mine.sum()), NONE, np.int64)
        order = np.argsort(steps["start_ns"][my_steps], kind="stable")
        device = device_spans(recording, index, process.start.pid, len(threads))
        window = analysed_window(windows)
        seen = _inside(window, steps["start_ns"][my_steps], steps["duration_ns"][my_steps])[order]
        if window is not None and windows is not None:
            text = (
                f"process {index}: device records were on {windows.coverage_ratio:.0%} of the "
                f"time; the longest such window is shown, {(window[1] - window[0]) / 1e6:.0f} ms "
                f"with {int(seen.sum())} of {seen.size} steps"
            )
            notes.append(Problem(str(path), "", text))
        world_size = process.start.identity.get("world_size")
        traces.append(
            Trace(
                source=f"{path} process {index}",
                format="recording",
                rank=NONE if process.rank is None else process.rank,
                world_size=world_size if type(world_size) is int else None,
                devices=(),
                names=texts,
                lanes=tuple(
                    Lane(
                        str(process.start.pid),
                        str(thread),
                        recording.thread_names.get((index, int(thread)), ""),
                    )
                    for thread in threads
                )
                + device.lanes,
                spans=_shown(
                    window,
                    Spans(
                        spans["start_ns"][mine].astype(np.int64),
                        spans["duration_ns"][mine].astype(np.int64),
                        np.where(collects, Kind.GC, Kind.ANNOTATION).astype(np.uint8),
                        name.astype(np.uint32),
                        lane.astype(np.uint32),
                        none,
                        none,
                    ),
                    device.spans,
                ),
                counters=Counters(
                    counters["time_ns"][my_counters].astype(np.int64),
                    counter_names[my_counters].astype(np.uint32),
                    counters["value"][my_counters].astype(np.float64),
                ),
                steps=Steps(
                    *(
                        steps[column][my_steps][order][seen].astype(np.int64)
                        for column in ("step", "start_ns", "duration_ns")
                    )
                ),
            )
        )
    problems = (*(Problem(str(path), "", text) for text in recording.warnings), *notes)
    if not traces:
        raise FormatError(f"{path}: a recording without spans, steps and counters")
    if problems:
        first = traces[0]
        traces[0] = Trace(**{**first.__dict__, "problems": problems})
    return tuple(traces)


def _shown(window: tuple[int, int] | None, first: Spans, second: Spans) -> Spans:
    """Both together, as far as they lie in the window."""
    columns = ("start_ns", "duration_ns", "kind", "name", "lane", "correlation", "bytes")
    spans = Spans(
        *(np.concatenate((getattr(first, name), getattr(second, name))) for name in columns)
    )
    return spans.take(_inside(window, spans.start_ns, spans.duration_ns))


def _inside(window: tuple[int, int] | None, start_ns: Array, duration_ns: Array) -> Array:
    everything: Array = np.ones(start_ns.size, bool)
    if window is None:
        return everything
    inside: Array = (start_ns >= window[0]) & (start_ns + duration_ns <= window[1])
    return inside
