"""The files of captures: an archive a node and what says how they belong together."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pilotlight.capture.agree import RankSteps, are_equal
from pilotlight.capture.told import RankTold
from pilotlight.collector.capture import Capture
from pilotlight.errors import FormatError, NotFound

ARCHIVE = ".tar.zst"
NODES_FILE = "nodes.json"
_PLAIN = re.compile(r"[^A-Za-z0-9_.-]")


class Shelf:
    """A folder a capture. Names come from agents: only plain characters reach the disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def place_for(self, capture: Capture, agent: str) -> Path:
        """Where the archive of an agent goes."""
        node = _PLAIN.sub("_", capture.title_of(agent))
        folder = self._folder / capture.id
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder / f"{node}{ARCHIVE}"

    def told(self, id: str) -> dict[str, list[RankTold]]:
        """By node what was told of its ranks; nothing where steps were not traced."""
        path = self._folder / _PLAIN.sub("_", id) / NODES_FILE
        found: dict[str, list[RankTold]] = {}
        try:
            for node, content in json.loads(path.read_text())["nodes"].items():
                found[node] = [RankTold.from_json(one) for one in content.get("told", [])]
        except (OSError, ValueError, LookupError, TypeError, AttributeError, FormatError):
            return found
        return found

    def remove(self, id: str) -> None:
        shutil.rmtree(self._folder / _PLAIN.sub("_", id), ignore_errors=True)

    def files(self, id: str) -> list[tuple[str, int]]:
        folder = self._folder / _PLAIN.sub("_", id)
        with contextlib.suppress(OSError):
            return sorted((one.name, one.stat().st_size) for one in folder.iterdir())
        return []

    def file(self, id: str, name: str) -> Path:
        """NotFound: there is none of that name."""
        path = self._folder / _PLAIN.sub("_", id) / _PLAIN.sub("_", name)
        if _PLAIN.search(id) or _PLAIN.search(name) or name.startswith("."):
            raise NotFound("no such file")
        if not path.is_file():
            raise NotFound(f"the capture {id} has no file {name}")
        return path

    @property
    def used_bytes(self) -> int:
        total = 0
        with contextlib.suppress(OSError):
            for folder in self._folder.iterdir():
                total += sum(one.stat().st_size for one in folder.iterdir())
        return total

    def note(self, capture: Capture, agent: str, facts: Mapping[str, object]) -> None:
        """What a reader needs to put the nodes on one time line."""
        path = self._folder / capture.id / NODES_FILE
        try:
            content = json.loads(path.read_text())
        except (OSError, ValueError):
            content = {"capture": capture.id, "job": capture.job, "nodes": {}}
        content["from_ns"], content["to_ns"] = capture.from_ns, capture.to_ns
        content["nodes"][capture.title_of(agent)] = {
            "ranks": list(capture.agents[agent][1]),
            "told": [told.to_json() for told in capture.told.get(agent, ())],
            **facts,
        }
        decided = capture.agreement.decided
        if "steps" in capture.options:
            content["first_step"] = decided.first_step if decided is not None else None
            is_by_time = decided is not None and decided.first_step is None
            content["same_steps"] = None if is_by_time else _same_steps(content["nodes"].values())
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps(content, indent=1))
        beside.replace(path)


def _same_steps(nodes: Iterable[Mapping[str, Any]]) -> bool | None:
    return are_equal(
        [
            (
                [RankSteps.from_json(one) for one in node["steps"]],
                node["offset_ns"],
                node["uncertainty_ns"],
            )
            for node in nodes
        ]
    )
