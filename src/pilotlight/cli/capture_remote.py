"""`pilotlight capture JOB --collector URL`: detail of a job on other machines, by its collector."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from pilotlight.asking import Asking
from pilotlight.errors import CollectorError

_LOOK_S = 1.0
_ENDS = ("stored", "partial", "failed")


def capture_by_collector(
    args: argparse.Namespace, ranks: tuple[int, ...], seconds: float, folder: Path
) -> int:
    """The last seconds of the flight recorders, an archive a node; 1 if some are missing."""
    asking = Asking(args)
    asked = asking.post(
        "/v1/captures", {"job": args.target, "ranks": list(ranks), "seconds": seconds}
    )
    capture = _wait(asking, args.target, asked["id"], args.timeout)
    files = asking.get("/v1/captures/files", id=capture["id"])
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        asking.download(
            "/v1/captures/file",
            folder / Path(file["name"]).name,
            id=capture["id"],
            name=file["name"],
        )
    if args.json:
        print(json.dumps({"folder": str(folder), **capture}))
    else:
        nodes = f"{len(capture['ranks'])} ranks on {len(capture['nodes'])} nodes"
        print(f"{capture['state']}: {nodes}, {capture['bytes']:,} bytes: {folder}")
        if capture["problem"]:
            print(capture["problem"])
        print("each archive is a recording: tar --zstd -xf NODE.tar.zst, then pilotlight report")
    return 0 if capture["state"] == "stored" else 1


def _wait(asking: Asking, job: str, id: str, timeout_s: float) -> dict[str, Any]:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        for one in asking.get("/v1/captures", job=job):
            if one["id"] == id and one["state"] in _ENDS:
                found: dict[str, Any] = one
                return found
        time.sleep(_LOOK_S)
    raise CollectorError(f"the capture {id} is not complete after {timeout_s:g} s; it goes on")
