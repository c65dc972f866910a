"""The flight recorders of a running job: each process writes its own, asked through the agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pilotlight.errors import PilotlightError

FOLDER = "flight_recorder"


@dataclass(frozen=True)
class FlightRecorders:
    """`folder` is what `pilotlight hang` reads; None if nobody had one."""

    folder: Path | None
    ranks: tuple[int, ...]
    problems: tuple[str, ...]


def fetch_flight_recorders(
    ask: Callable[..., dict[str, Any]], pids: Sequence[int], folder: Path
) -> FlightRecorders:
    """`ask` is Client.ask. A process without torch.distributed is none of the problems."""
    ranks: list[int] = []
    problems: list[str] = []
    folder.mkdir(parents=True, exist_ok=True)
    for pid in pids:
        file = folder / f".pid{pid}"
        try:
            answer = ask("flight_recorder", pid=pid, file=str(file.absolute()))
            rank = answer.get("rank")
            if type(rank) is not int:
                file.unlink(missing_ok=True)
                continue
            file.rename(folder / f"flight_recorder_{rank}.pickle")
            ranks.append(rank)
        except (PilotlightError, OSError) as error:
            if "has no flight recorder" not in str(error) and "no thread of" not in str(error):
                problems.append(f"process {pid}: {error}")
    if not ranks:
        folder.rmdir()
        return FlightRecorders(None, (), tuple(problems))
    return FlightRecorders(folder, tuple(sorted(ranks)), tuple(problems))
