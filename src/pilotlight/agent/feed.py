"""What was just committed, as messages for those who subscribed to it."""

from __future__ import annotations

from collections.abc import Sequence

from pilotlight.agent.clients import Clients
from pilotlight.agent.process import Process
from pilotlight.agent.recorder import Taken
from pilotlight.agent.tables import Tables, rows
from pilotlight.recording.schema import WindowKind

_NAMED = (WindowKind.RANGE, WindowKind.ACTIVITY, WindowKind.COLLECTIVE)


def publish_taken(clients: Clients, job: str, taken: Sequence[tuple[Process, Taken]]) -> None:
    """Only what somebody wants is turned into rows."""
    for kind in ("steps", "spans", "windows"):
        if not clients.wants(kind, job):
            continue
        for process, handed in taken:
            tables = handed.windows if kind == "windows" else handed.detail
            if kind in tables:
                clients.publish(kind, job, _named(kind, tables, process))


def _named(kind: str, tables: Tables, process: Process) -> list[dict[str, object]]:
    """Rows with the texts that their ids stand for."""
    found = rows(kind, tables[kind][1])
    names = process.functions
    for row in found:
        row["pid"] = process.pid
        row["rank"] = process.identity.get("rank")
        if names is None:
            continue
        if kind == "spans":
            row["text"] = names.name(_int(row["name"]))
        elif kind == "windows" and row["kind"] in _NAMED:
            row["text"] = names.name(_int(row["id"]))
        elif kind == "windows" and row["kind"] == WindowKind.SAMPLE:
            row["text"] = names.function(_int(row["id"]))
    return found


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value
