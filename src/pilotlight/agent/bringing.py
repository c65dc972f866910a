"""A part of the flight recorder on its way to the collector: sliced, packed, sent, removed."""

from __future__ import annotations

import shutil
import tarfile
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from pathlib import Path

from pilotlight.agent.slice import copy_last
from pilotlight.agent.tracing import DETAIL, add_traces
from pilotlight.capture.agree import RankSteps
from pilotlight.capture.request import MOST_STEPS
from pilotlight.errors import PilotlightError
from pilotlight.recording.zstd import ZstdCompressor
from pilotlight.ship.requests import Request, Requests

_PIECE_BYTES = 1 << 20
_LEVEL = 3
_LONGEST_S = 600.0


def bring(
    folder: Path,
    request: Request,
    offset_ns: int,
    into: Path,
    requests: Requests,
    here: Collection[object],
) -> None:
    """Slices now, while the chunks are there; the rest goes on beside the agent's loop. `here` are
    the ranks of the job on this node, None for a process that has none."""
    capture = str(request.get("capture", ""))[:64]
    from_ns = request.get("from_ns")
    limit = request.get("limit_bytes")
    if not capture.isalnum() or type(from_ns) is not int or type(limit) is not int:
        return
    # `from_ns` is on the collector's clock.
    last_s = (time.time_ns() + offset_ns - from_ns) / 1e9
    place = into / f"capture-{capture}"
    try:
        copy_last(folder, place, int(min(max(last_s, 1.0), _LONGEST_S) * 1e9))
    except (PilotlightError, OSError) as error:
        refuse(request, str(error), requests)
        return
    steps = request.get("steps")
    job, ranks = str(request.get("job", "")), request.get("ranks")
    detail = request.get("detail")

    def finish() -> None:
        traced: list[RankSteps] = []
        if type(steps) is int and 1 <= steps <= MOST_STEPS and isinstance(ranks, list):
            wanted = [rank for rank in ranks if type(rank) is int]
            is_all = all(rank is None or rank in wanted for rank in here)
            only = () if is_all else wanted
            more = [name for name in DETAIL if isinstance(detail, list) and name in detail]
            traced = add_traces(
                place,
                job,
                only,
                steps,
                more,
                lambda proposal: requests.agree(capture, proposal),
                lambda told: requests.tell(capture, told),
            )
        _send(place, capture, limit, requests, traced)

    _in_background(finish)


def _send(
    place: Path, capture: str, limit_bytes: int, requests: Requests, traced: list[RankSteps]
) -> None:
    archive = place.with_suffix(".tar.zst")
    try:
        size = pack(place, archive)
        if size > limit_bytes:
            requests.refuse(capture, f"{size} bytes are more than the {limit_bytes} asked for")
        else:
            for attempt in range(3):
                if requests.deliver(capture, archive, [asdict(one) for one in traced]):
                    break
                time.sleep(2.0**attempt)
    except OSError as error:
        requests.refuse(capture, f"{error.strerror or error}")
    finally:
        shutil.rmtree(place, ignore_errors=True)
        archive.unlink(missing_ok=True)


def pack(folder: Path, archive: Path) -> int:
    """A tar archive under zstd; its size."""
    plain = archive.with_suffix("")
    try:
        with tarfile.open(plain, "w") as tar:
            tar.add(folder, arcname=folder.name)
        compressor = ZstdCompressor(level=_LEVEL)
        with plain.open("rb") as source, archive.open("wb") as target:
            while piece := source.read(_PIECE_BYTES):
                target.write(compressor.compress(piece))
            target.write(compressor.flush())
    finally:
        plain.unlink(missing_ok=True)
    return archive.stat().st_size


def refuse(request: Mapping[str, object], why: str, requests: Requests) -> None:
    """Says so to a collector that may take its time."""
    capture = str(request.get("capture", ""))[:64]
    _in_background(lambda: requests.refuse(capture, why))


def _in_background(work: Callable[[], object]) -> None:
    threading.Thread(target=work, name="capture", daemon=True).start()
