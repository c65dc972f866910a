"""Full traces for the collector: of steps that all nodes agree on, by a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from pilotlight.capture.agree import RankSteps, rank_steps
from pilotlight.capture.manifest import CaptureManifest
from pilotlight.capture.told import told_at_last
from pilotlight.errors import FormatError
from pilotlight.runtime import runtime

# The collector waits 120 s.
_TRACE_S = 60
_CAPTURE = [sys.executable, "-m", "pilotlight", "capture"]
TRACES = "traces"
TRACE_PROBLEM = "traces.problem"

Agree = Callable[[Mapping[str, object]], Mapping[str, object] | None]
"""Gives the collector's decision on a proposal; None: it has none."""

Tell = Callable[[Sequence[Mapping[str, object]]], object]
"""Says to the collector how far each rank is."""


DETAIL = ("stacks", "shapes", "memory")
"""What traces can hold besides, named as the options of `pilotlight capture`."""


def add_traces(
    place: Path,
    job: str,
    ranks: Sequence[int],
    steps: int,
    detail: Sequence[str],
    agree: Agree,
    tell: Tell,
) -> list[RankSteps]:
    """Puts traces of the next steps beside the recording, and says which steps they have. Reading
    traces takes memory that an agent must not. What went wrong is written beside them."""
    words = [*_CAPTURE, "--json", "--agree"]
    words += ["--steps", str(steps), "--timeout", str(_TRACE_S), "-o", str(place / TRACES)]
    words += [f"--{name}" for name in detail]
    if ranks:
        words += ["--ranks", ",".join(map(str, ranks))]
    try:
        with tempfile.TemporaryFile("w+", errors="replace") as said:
            code, answered = _run(["nice", *words, "--", job], said, agree, tell)
            said.seek(0)
            problem = "" if code == 0 else said.read().strip() or "some ranks are missing"
    except OSError as error:
        answered, problem = "", str(error)
    if problem:
        with contextlib.suppress(OSError):
            (place / TRACE_PROBLEM).write_text(f"{problem[-2000:]}\n")
    try:
        manifest = CaptureManifest.from_json(json.loads(answered))
    except (ValueError, FormatError):
        return []
    tell([told.to_json() for told in told_at_last(manifest)])
    return rank_steps(manifest)


def _run(words: Sequence[str], said: IO[str], agree: Agree, tell: Tell) -> tuple[int, str]:
    """The exit code and the last thing it answered."""
    env = {key: value for key, value in os.environ.items() if key != "PILOTLIGHT_COLLECTOR"}
    env |= {"PILOTLIGHT": "0", "PILOTLIGHT_RUNTIME_DIR": str(runtime().folder)}
    process = subprocess.Popen(
        words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    too_long = threading.Timer(_TRACE_S + 40, process.kill)
    too_long.start()
    answered = progress = ""
    try:
        for line in process.stdout:
            if line.startswith('{"progress"'):
                if line != progress:
                    progress = line
                    tell(json.loads(line)["progress"])
                continue
            answered = line
            if line.startswith('{"proposal"'):
                decision = agree(json.loads(line)["proposal"])
                # It may be gone already: then its answer says why.
                with contextlib.suppress(OSError):
                    process.stdin.write(json.dumps(decision or "none") + "\n")
                    process.stdin.flush()
    finally:
        too_long.cancel()
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.stdout.close()
        code = process.wait()
    return code, answered
