"""Facts of a job, and what differs between two of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pilotlight.errors import NotFound
from pilotlight.store.queries import Reader, Span
from pilotlight.web import answers

LONGEST = 500

_ATTEMPTS = """
SELECT attempt, argMax(facts, updated_ns), argMax(command, updated_ns), max(world_size),
  uniqExact(node), min(started_ns)
FROM jobs WHERE tenant = {tenant:String} AND job = {job:String} GROUP BY attempt ORDER BY attempt
"""


def changes_of(reader: Reader, job: str) -> list[answers.AttemptChange]:
    """What each attempt of a job had otherwise than the one before it."""
    changes: list[answers.AttemptChange] = []
    before: Mapping[str, object] | None = None
    for attempt, _, facts in _attempts(reader, job):
        if before is not None:
            changes += [
                answers.AttemptChange(attempt, row.name, row.before, row.after)
                for row in differences(before, facts)
            ]
        before = facts
    return changes


def facts_in(reader: Reader, job: str, span: Span) -> dict[str, object]:
    """Those of the attempts that were under way in the span, or else of the first; what changed
    between them is told one after the other."""
    found = _attempts(reader, job)
    if not found:
        raise NotFound(f"no job {job[:60]!r}")
    # An attempt is under way until the next begins.
    ends_ns = [started_ns for _, started_ns, _ in found[1:]] + [span.to_ns]
    within = [
        facts
        for (_, started_ns, facts), end_ns in zip(found, ends_ns, strict=True)
        if started_ns < span.to_ns and end_ns > span.from_ns
    ] or [found[0][2]]
    names = dict.fromkeys(name for facts in within for name in facts)
    return {name: _one_after_the_other([facts.get(name, "") for facts in within]) for name in names}


def _one_after_the_other(values: list[object]) -> object:
    changed = [value for i, value in enumerate(values) if i == 0 or value != values[i - 1]]
    return changed[0] if len(changed) == 1 else ", then ".join(shown(value) for value in changed)


def _attempts(reader: Reader, job: str) -> list[tuple[int, int, dict[str, object]]]:
    """Number, begin and facts of each."""
    return [
        (
            int(attempt),
            int(started_ns),
            parsed(text) | {"command": command, "world size": world_size, "nodes": nodes},
        )
        for attempt, text, command, world_size, nodes, started_ns in reader.select(
            _ATTEMPTS, job=job
        )
    ]


def differences(
    before: Mapping[str, object], after: Mapping[str, object]
) -> list[answers.FactChange]:
    return [
        answers.FactChange(name, shown(before.get(name, "")), shown(after.get(name, "")))
        for name in sorted({**before, **after})
        if before.get(name) != after.get(name)
    ]


def shown(fact: object) -> str:
    return str(fact)[:LONGEST]


def parsed(text: str) -> dict[str, Any]:
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}
