"""`pilotlight capture JOB --collector URL`: detail of a job on other machines, by its collector."""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

from pilotlight.agent.tracing import TRACE_PROBLEM
from pilotlight.asking import Asking
from pilotlight.capture.manifest import SAME
from pilotlight.errors import CollectorError, PilotlightError
from pilotlight.web.archive import unpack

_LOOK_S = 1.0
_ARCHIVE = ".tar.zst"
_ENDS = ("stored", "partial", "failed")


def capture_by_collector(
    args: argparse.Namespace, ranks: tuple[int, ...], seconds: float, folder: Path
) -> int:
    """The last seconds of the flight recorders and, if steps are asked for, full traces of the
    next ones; a folder a node. 1 if some are missing."""
    asking = Asking(args)
    question = {"job": args.target, "ranks": list(ranks), "seconds": seconds}
    asked = asking.post("/v1/captures", {**question, "steps": args.steps or 0})
    capture = _wait(asking, args.target, asked["id"], args.timeout)
    files = asking.get("/v1/captures/files", id=capture["id"])
    folder.mkdir(parents=True, exist_ok=True)
    problems = [capture["problem"]] if capture["problem"] else []
    for file in files:
        name = Path(file["name"]).name
        asking.download("/v1/captures/file", folder / name, id=capture["id"], name=name)
        if name.endswith(_ARCHIVE):
            problems += _unpacked(folder / name, folder / name.removesuffix(_ARCHIVE))
    steps = steps_of(folder)
    if args.json:
        said = {"folder": str(folder), **capture, "problems": problems, **steps}
        print(json.dumps(said))
    else:
        nodes = f"{len(capture['ranks'])} ranks on {len(capture['nodes'])} nodes"
        print(f"{capture['state']}: {nodes}, {capture['bytes']:,} bytes: {folder}")
        print("".join(f"  {line}\n" for line in _step_lines(steps)), end="")
        print("".join(f"  problem: {problem}\n" for problem in problems), end="")
        print(f"see it with `pilotlight report {folder}/NODE/…` or `pilotlight analyze {folder}`")
    return 0 if capture["state"] == "stored" and not problems else 1


def steps_of(folder: Path) -> dict[str, Any]:
    """Which steps the traces have, by rank, and whether they are the same; {} if none were asked
    for; and those that the flight recorders of all ranks have."""
    found: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        noted = json.loads((folder / "capture.json").read_text())
        if "same_steps" in noted:
            traced = [one for node in noted["nodes"].values() for one in node["steps"]]
            found = {"first_step": noted.get("first_step"), "same_steps": noted["same_steps"]}
            found["steps"] = {str(one["rank"]): [one["first"], one["last"]] for one in traced}
    recorded = [span for part in folder.glob("*/capture-*") for span in _recorded(part)]
    if recorded:
        first, last = max(one[0] for one in recorded), min(one[1] for one in recorded)
        found["recorded_steps"] = [first, last] if first <= last else None
    return found


def _recorded(part: Path) -> list[tuple[int, int]]:
    """The first and the last step in the flight recorder of each process that has some."""
    from pilotlight.capture.examine import recorded_steps

    try:
        processes = recorded_steps(part).values()
    except (PilotlightError, OSError):
        return []
    return [
        (min(one.number for one in steps), max(one.number for one in steps)) for steps in processes
    ]


def _step_lines(steps: dict[str, Any]) -> list[str]:
    lines = []
    if "same_steps" in steps:
        by_span = Counter(tuple(span) for span in steps["steps"].values())
        lines += [f"{count} traces of steps {a} to {b}" for (a, b), count in by_span.items()]
        lines.append(SAME[steps["same_steps"]])
    if steps.get("recorded_steps"):
        first, last = steps["recorded_steps"]
        lines.append(f"all flight recorders have steps {first} to {last}")
    return lines


def _unpacked(archive: Path, folder: Path) -> list[str]:
    """The parts of a node in a folder of its own, without the archive; what is missing of them."""
    folder.mkdir(exist_ok=True)
    unpack(archive, folder)
    archive.unlink()
    for part in (folder / "files").iterdir():
        part.rename(folder / part.name)
    (folder / "files").rmdir()
    return [
        f"{folder.name}: {place.read_text(errors='replace').strip()}"
        for place in sorted(folder.rglob(TRACE_PROBLEM))
    ]


def _wait(asking: Asking, job: str, id: str, timeout_s: float) -> dict[str, Any]:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        for one in asking.get("/v1/captures", job=job):
            if one["id"] == id and one["state"] in _ENDS:
                found: dict[str, Any] = one
                return found
        time.sleep(_LOOK_S)
    raise CollectorError(f"the capture {id} is not complete after {timeout_s:g} s; it goes on")
