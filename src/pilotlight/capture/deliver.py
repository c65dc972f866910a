"""The last stage of a capture: a folder with everything, and its manifest."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pilotlight.capture.collect import collect
from pilotlight.capture.examine import common_steps, examine, same_steps, skew_ns
from pilotlight.capture.manifest import CaptureManifest, Step, write_capture
from pilotlight.capture.request import LEFT_OUT, Answered, CaptureRequest
from pilotlight.errors import PilotlightError
from pilotlight.recording.fields import take, take_optional, take_or


@dataclass(frozen=True)
class Delivered:
    manifest: CaptureManifest
    is_whole: bool
    """Everything that was captured is in the folder: the staging folder can go."""


def deliver(
    state: Mapping[str, object],
    request: CaptureRequest,
    job: str,
    node: str,
    recorded: Mapping[int, Sequence[Step]],
    folder: Path,
    progress: Callable[[str], None] = lambda text: None,
) -> Delivered:
    """`state` is the agent's last word; `recorded` the steps that the probes saw, by pid."""
    answers = [
        Answered.from_json(take({"p": one}, "p", dict)) for one in take(state, "processes", list)
    ]
    answers.sort(key=lambda one: (one.state == LEFT_OUT, one.rank is None, one.rank or 0, one.pid))
    first_step = take_optional(state, "first_step", int)
    collected = collect(answers, folder, progress)
    problems = [
        f"rank {rank}: no process of this node has it"
        for rank in take_or(state, "missing_ranks", list[object]())
    ]
    problems += [one.problem for one in collected if one.problem is not None]
    processes = []
    for one in collected:
        progress(f"reading {one.file}" if one.file else "reading")
        captured, found = examine(one, folder, node, first_step, recorded.get(one.answered.pid, ()))
        if one.file is not None and captured.file is None:
            (folder / one.file).unlink(missing_ok=True)
        processes.append(captured)
        problems += found
    if first_step is None:
        processes = common_steps(processes)
    manifest = CaptureManifest(
        job=job,
        created_ns=time.time_ns(),
        request=request.to_json(),
        first_step=first_step,
        processes=tuple(processes),
        skew_ns=skew_ns(processes),
        same_steps=same_steps(processes),
        problems=tuple(problems),
    )
    try:
        write_capture(folder, manifest)
    except OSError as error:
        raise PilotlightError(
            f"{folder}: {error.strerror}; what was captured is still in {state.get('staging')}"
        ) from None
    return Delivered(manifest, all(one.problem is None for one in collected))
