"""`pilotlight capture JOB --collector URL`: detail of a job on other machines, by its collector."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilotlight.agent.tracing import DETAIL, TRACE_PROBLEM, TRACES
from pilotlight.asking import Asking
from pilotlight.errors import CollectorError, FormatError, NotFound, PilotlightError
from pilotlight.web.archive import unpack

if TYPE_CHECKING:
    from pilotlight.capture.manifest import CaptureManifest

_LOOK_S = 1.0
_ARCHIVE = ".tar.zst"
_NODES_FILE = "nodes.json"
_ENDS = ("stored", "partial", "failed")


def capture_by_collector(
    args: argparse.Namespace, ranks: tuple[int, ...], seconds: float, folder: Path
) -> int:
    """The last seconds of the flight recorders and, if steps are asked for, full traces of the
    next ones; a folder a node. 1 if some are missing."""
    asking = Asking(args)
    question = {"job": args.target, "ranks": list(ranks), "seconds": seconds}
    question["steps"] = args.steps or 0
    question["detail"] = [name for name in DETAIL if getattr(args, name)]
    # Who may not fetch a capture is told before one is asked for.
    asking.get("/v1/captures", job=args.target)
    id = args.id or asking.post("/v1/captures", question)["id"]
    capture = _wait(asking, args.target, id, args.timeout)
    files = asking.get("/v1/captures/files", id=capture["id"])
    folder.mkdir(parents=True, exist_ok=True)
    problems = [capture["problem"]] if capture["problem"] else []
    for file in files:
        name = Path(file["name"]).name
        asking.download("/v1/captures/file", folder / name, id=capture["id"], name=name)
        if name.endswith(_ARCHIVE):
            problems += _unpacked(folder / name, folder / name.removesuffix(_ARCHIVE))
    manifest = _combined(folder, question, problems)
    recorded = _recorded_steps(folder)
    if args.json:
        said = {"folder": str(folder), **capture, "problems": problems, "recorded_steps": recorded}
        if manifest is not None:
            said |= json.loads(manifest.to_json())
        print(json.dumps(said))
    else:
        print("\n".join(_lines(capture, folder, problems, manifest, recorded)))
    return 0 if capture["state"] == "stored" and not problems else 1


def _lines(
    capture: dict[str, Any],
    folder: Path,
    problems: list[str],
    manifest: CaptureManifest | None,
    recorded: list[int] | None,
) -> list[str]:
    from pilotlight.cli.capture_result import lines, next_lines
    from pilotlight.report.units import plural

    nodes = f"{plural(len(capture['ranks']), 'rank')} on {plural(len(capture['nodes']), 'node')}"
    shown = [f"{capture['state']}: {nodes}, {capture['bytes']:,} bytes: {folder}"]
    if recorded is not None:
        shown.append(f"the flight recorders of all ranks have steps {recorded[0]} to {recorded[1]}")
    shown += [f"see it with `pilotlight report {part}`" for part in _parts(folder)[:4]]
    if manifest is None:
        return [*shown, *(f"  problem: {problem}" for problem in problems)]
    return [*shown, *lines(manifest, folder), *next_lines(manifest, folder)]


def _parts(folder: Path) -> list[Path]:
    """The flight recorder of each node."""
    return sorted(path.parent for path in folder.glob("*/capture-*/manifest.json"))


def _combined(
    folder: Path, question: dict[str, object], problems: list[str]
) -> CaptureManifest | None:
    """The traces of all nodes as one capture; None if no node brought any."""
    from pilotlight.capture.combine import NodePart, combine
    from pilotlight.capture.manifest import is_capture, write_capture

    traced = [part / TRACES for part in _parts(folder) if is_capture(part / TRACES)]
    if not traced:
        return None
    try:
        noted = json.loads((folder / _NODES_FILE).read_text())
        parts = [
            NodePart(path.parts[-3], path, noted["nodes"][path.parts[-3]]["offset_ns"])
            for path in traced
        ]
        manifest = combine(parts, folder, noted.get("same_steps"), question, problems)
        write_capture(folder, manifest)
    except (OSError, ValueError, KeyError, TypeError, FormatError) as error:
        problems.append(f"{folder / _NODES_FILE}: the nodes cannot be put together ({error})")
        return None
    return manifest


def _recorded_steps(folder: Path) -> list[int] | None:
    """The first and the last step that the flight recorders of all processes have."""
    from pilotlight.capture.examine import recorded_steps

    firsts, lasts = [], []
    for part in _parts(folder):
        try:
            processes = recorded_steps(part).values()
        except (PilotlightError, OSError):
            continue
        firsts += [min(step.number for step in steps) for steps in processes]
        lasts += [max(step.number for step in steps) for steps in processes]
    return [max(firsts), min(lasts)] if firsts and max(firsts) <= min(lasts) else None


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
        known: list[dict[str, Any]] = asking.get("/v1/captures", job=job)
        mine = next((one for one in known if one["id"] == id), None)
        if mine is None:
            raise NotFound(f"job {job} has no capture {id}")
        if mine["state"] == "expired":
            raise NotFound(f"the capture {id} has expired: its files are removed")
        if mine["state"] in _ENDS:
            return mine
        time.sleep(_LOOK_S)
    raise CollectorError(f"the capture {id} is not complete after {timeout_s:g} s; it goes on")
