"""What batches said that no collector took: the next ones tell that it is missing."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence

from pilotlight.agent.header import Described, loss
from pilotlight.ship.envelope import Value
from pilotlight.ship.outbox import Said

NOT_TAKEN = "rows that no collector took"
_MOST = 4096
"""Of a batch; one with more is refused."""


def rows_by_job(
    places: Sequence[Mapping[str, object]], tables: Mapping[str, Sequence[Sequence[Value]]]
) -> dict[str, int]:
    """How many rows of a batch are of each job; names are of none."""
    counts = Counter(
        int(row[0]) for name, rows in tables.items() if name != "names" for row in rows
    )
    found: Counter[str] = Counter()
    for place, count in counts.items():
        found[str(places[place]["job"])] += count
    return dict(found)


def with_unsaid(losses: Sequence[Described], unsaid: deque[Said], time_ns: int) -> list[Described]:
    """Each loss of a job once, with those that went down with lost batches; empties `unsaid`."""
    told = list(losses)
    while unsaid:
        said = unsaid.popleft()
        told += [dict(one) for one in said.losses]
        told += [loss(job, NOT_TAKEN, rows, time_ns) for job, rows in said.rows.items() if rows]
    found: dict[tuple[object, object], Described] = {}
    for one in told:
        known = found.setdefault((one["job"], one["what"]), {**one, "count": 0})
        known["count"] = _number(known["count"]) + _number(one["count"])
        known["time_ns"] = max(_number(known["time_ns"]), _number(one["time_ns"]))
    return list(found.values())[:_MOST]


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value
