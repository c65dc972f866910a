"""The captures of a collector as traces of the page."""

from __future__ import annotations

import json
import tempfile
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

from starlette.requests import Request

from pilotlight.analysis import Analysis, analyze
from pilotlight.capture.manifest import MANIFEST_FILE, CaptureManifest
from pilotlight.capture.request import FAILED
from pilotlight.capture.told import told_at_last
from pilotlight.collector.answer import reader_of
from pilotlight.errors import FormatError, NotFound
from pilotlight.store import queries
from pilotlight.trace.problem import Problem
from pilotlight.trace.recorded import is_recording
from pilotlight.web import answers
from pilotlight.web.archive import unpack
from pilotlight.web.library import Library
from pilotlight.web.opened import OpenTrace
from pilotlight.web.stalled import kernel_stalls

TENANTS_KEPT = 16
NAMES_LISTED = 500
ARCHIVE = ".tar.zst"
_LIBRARIES: OrderedDict[str, Library] = OrderedDict()


def captured_names(request: Request) -> list[answers.TraceName]:
    """Captures of which something has arrived and is still kept, the newest first."""
    reader = reader_of(request)
    return [
        answers.TraceName(row.id, f"{row.job}, {row.reason}", row.requested_ns)
        for row in queries.captures(reader, limit=NAMES_LISTED)
        if row.state != "expired" and row.files > 0
    ]


def captured_library(request: Request) -> Library:
    """What the one who asks may open: captures of the own tenant that have arrived."""
    reader = reader_of(request)
    collector = request.app.state.collector
    key = f"{collector.store.place.folder}\0{reader.tenant}"
    library = _LIBRARIES.setdefault(key, Library())
    _LIBRARIES.move_to_end(key)
    while len(_LIBRARIES) > TENANTS_KEPT:
        _LIBRARIES.popitem(last=False)
    wanted = request.path_params.get("id")
    if wanted is not None and not library.has(wanted):
        row = next((row for row in queries.captures(reader) if row.id == wanted), None)
        names = [name for name, _ in collector.desk.shelf.files(wanted)] if row is not None else []
        archives = [name for name in names if name.endswith(ARCHIVE)]
        if row is None or not archives:
            raise NotFound(f"no capture {wanted[:60]!r} has arrived here")
        paths = [collector.desk.shelf.file(wanted, name) for name in archives]
        title = f"{row.job}, {row.reason}"
        library.add(wanted, title, lambda: OpenTrace(wanted, title, *read_capture(paths)))
    return library


def read_capture(archives: list[Path]) -> tuple[Analysis, list[answers.KernelStalls]]:
    """All nodes' parts as the ranks of one job, and why kernels stall where that was sampled. The
    files are needed no more then."""
    with tempfile.TemporaryDirectory(prefix="pilotlight-capture-") as folder:
        found: list[Path] = []
        recordings: list[Path] = []
        missing: list[Problem] = []
        for number, archive in enumerate(sorted(archives)):
            place = Path(folder) / str(number)
            place.mkdir()
            unpack(archive, place)
            files = place / "files"
            # A full trace of a rank says more than the recording of the same rank.
            traces = sorted(files.rglob("*.json.gz"))
            mine = [each for each in sorted(files.rglob("*")) if is_recording(each)]
            recordings += mine
            missing += _not_traced(files)
            found += traces or mine
        if not found:
            raise NotFound("the capture has no recording and no trace in it")
        analysis = analyze(found)
        if not analysis.job.traces and recordings:
            # Traces that hold nothing: what the flight recorders had is more.
            problems, analysis = analysis.problems, analyze(recordings)
            analysis = replace(analysis, problems=(*problems, *analysis.problems))
        # Where it was unpacked is nobody's business.
        told = [
            replace(one, source=one.source.rpartition("/files/")[2]) for one in analysis.problems
        ]
        return (
            replace(analysis, problems=(*missing, *told)),
            kernel_stalls(recordings),
        )


def _not_traced(files: Path) -> list[Problem]:
    """Ranks that were asked for their steps and gave none, and why."""
    problems: list[Problem] = []
    for path in sorted(files.rglob(MANIFEST_FILE)):
        try:
            manifest = CaptureManifest.from_json(json.loads(path.read_text()))
        except (OSError, ValueError, FormatError) as error:
            problems.append(Problem(MANIFEST_FILE, "", f"what the ranks said: {error}"))
            continue
        problems += [
            Problem(f"rank {one.rank}", "", f"its steps were not traced: {one.why}")
            for one in told_at_last(manifest)
            if one.state == FAILED
        ]
    return problems
