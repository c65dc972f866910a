"""Chrome's trace event format: JSON for chrome://tracing, Perfetto and everything that reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from pilotlight.export.devices import device_instants, device_tracks
from pilotlight.export.gpu import Work, WorkTrack, gpu_tracks
from pilotlight.export.stacks import process_label, thread_label
from pilotlight.export.timeline import (
    Slice,
    counter_tracks,
    instants,
    sampled_tracks,
    tracks,
)
from pilotlight.recording.columns import group
from pilotlight.recording.recording import Recording

_FIRST_OWN_TRACK = 1 << 30
"""Tracks that are no thread need a thread id too, of 32 bits: from here on no thread has one."""
_NAMELESS_PID = 1 << 30
_NODE_PID = 0
"""The node itself, which no process has as its pid."""
_AT_ONCE = 5_000


def write_chrome(recording: Recording, out: BinaryIO) -> None:
    out.write(b'{"displayTimeUnit":"ms","traceEvents":[\n')
    some: list[str] = []
    first = True
    for event in _events(recording):
        some.append(event)
        if len(some) == _AT_ONCE:
            out.write((("" if first else ",\n") + ",\n".join(some)).encode())
            some, first = [], False
    if some:
        out.write((("" if first else ",\n") + ",\n".join(some)).encode())
    manifest = recording.manifest
    about = {
        "job": manifest.job,
        "node": manifest.node,
        "clocks": [[pair.monotonic_ns, pair.realtime_ns] for pair in manifest.clocks],
    }
    out.write(f'\n],"otherData":{json.dumps(about)}}}\n'.encode())


def _events(recording: Recording) -> Iterator[str]:
    recording.load()
    pids = {
        process.start.process: process.start.pid or _NAMELESS_PID + process.start.process
        for process in recording.processes
    }
    for index, pid in pids.items():
        label = process_label(recording, index)
        yield json.dumps({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": label}})
        yield json.dumps(
            {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": index}}
        )
    for index, thread in _threads(recording):
        yield _thread_name(pids[index], thread, thread_label(recording, index, thread))

    own = _FIRST_OWN_TRACK
    for track in tracks(recording):
        if track.thread is not None and track.number == 0:
            yield from _slices(track.slices, pids[track.process], track.thread)
            continue
        more = f" ({track.number + 1})" if track.number else ""
        yield _thread_name(pids[track.process], own, track.title + more)
        yield from _slices(track.slices, pids[track.process], own)
        own += 1
    for track in sampled_tracks(recording):
        yield _thread_name(pids[track.process], own, track.title)
        yield from _slices(track.slices, pids[track.process], own)
        own += 1
    for work in gpu_tracks(recording):
        yield _thread_name(pids[work.process], own, work.title)
        yield from _slices(work.work, pids[work.process], own)
        yield from _arrows(work, pids[work.process], own)
        own += 1
    for instant in instants(recording):
        head = f'{{"ph":"i","s":"t","pid":{pids[instant.process]},"tid":{instant.thread}'
        name = json.dumps(instant.name)
        args = f'"args":{{"value":{instant.value}}}'
        yield f'{head},"ts":{_us(instant.time_ns)},"name":{name},{args}}}'
    for counter in counter_tracks(recording):
        head = f'{{"ph":"C","pid":{pids[counter.process]},"name":{json.dumps(counter.name)}'
        for time_ns, value in zip(counter.time_ns.tolist(), counter.values.tolist(), strict=True):
            yield f'{head},"ts":{_us(time_ns)},"args":{{"value":{value!r}}}}}'
    yield from _devices(recording)


def _devices(recording: Recording) -> Iterator[str]:
    """A process of their own, that of the node."""
    is_first = True
    for track in device_tracks(recording):
        if is_first:
            name = {"name": f"node {recording.manifest.node}"}
            yield json.dumps({"ph": "M", "name": "process_name", "pid": _NODE_PID, "args": name})
            is_first = False
        title = json.dumps(f"{track.title} [{track.unit}]" if track.unit else track.title)
        head = f'{{"ph":"C","pid":{_NODE_PID},"name":{title}'
        for time_ns, value in zip(track.time_ns.tolist(), track.values.tolist(), strict=True):
            yield f'{head},"ts":{_us(time_ns)},"args":{{"value":{value!r}}}}}'
    for event in device_instants(recording):
        head = f'{{"ph":"i","s":"g","pid":{_NODE_PID},"tid":0,"ts":{_us(event.time_ns)}'
        yield f'{head},"name":{json.dumps(event.name)},"args":{{"value":{event.value}}}}}'


def _threads(recording: Recording) -> list[tuple[int, int]]:
    found: set[tuple[int, int]] = set()
    for name in ("spans", "samples", "marks"):
        table = recording.detail(name)
        (processes, threads), _ = group(table["process"], table["thread"])
        found.update(zip(processes.tolist(), threads.tolist(), strict=True))
    return sorted(found)


def _thread_name(pid: int, thread: int, name: str) -> str:
    return json.dumps(
        {"ph": "M", "name": "thread_name", "pid": pid, "tid": thread, "args": {"name": name}}
    )


def _arrows(track: WorkTrack, pid: int, thread: int) -> Iterator[str]:
    """From a call to what it launched."""
    how = '"ph":"f","bp":"e"' if track.is_device else '"ph":"s"'
    for item in track.work:
        if isinstance(item, Work) and item.flow:
            yield (
                f'{{{how},"id":{item.flow},"pid":{pid},"tid":{thread},'
                f'"ts":{_us(item.start_ns)},"cat":"launch","name":"launch"}}'
            )


def _slices(slices: Sequence[Slice], pid: int, thread: int) -> Iterator[str]:
    names: dict[str, str] = {}
    for item in slices:
        name = names.get(item.name)
        if name is None:
            name = names[item.name] = json.dumps(item.name)
        yield (
            f'{{"ph":"X","pid":{pid},"tid":{thread},"ts":{_us(item.start_ns)},'
            f'"dur":{_us(item.end_ns - item.start_ns)},"name":{name}}}'
        )


def _us(time_ns: int) -> str:
    """Microseconds, exactly: a double could not hold the nanoseconds of a long uptime."""
    return f"{time_ns // 1000}.{time_ns % 1000:03}"
