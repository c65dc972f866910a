"""Where those are that have no trace, or did no step in it; and what they wait for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pilotlight.capture.node import Node
from pilotlight.capture.request import FAILED, LEFT_OUT
from pilotlight.capture.staging import Staging
from pilotlight.capture.target import Target

EXPLAIN_NS = 5_000_000_000
_MOST_STACKS = 64


def explain(
    targets: Sequence[Target], still: Sequence[Target], node: Node, staging: Staging, uid: int
) -> None:
    """`still`: those that were traced and did no step meanwhile. Flight recorders come later: a
    target `is_asked` until then."""
    failed = [t for t in targets if t.state == FAILED and node.is_alive(t.pid)]
    for target in [*failed, *still][:_MOST_STACKS]:
        if not (target.reason or "").startswith("busy"):
            _read_stacks(target, node, staging)
    if still or any("hung" in (target.reason or "") for target in failed):
        for target in targets:
            if target.state != LEFT_OUT:
                _ask_flight_recorder(target, node, staging, uid)


def _read_stacks(target: Target, node: Node, staging: Staging) -> None:
    file = staging.folder / f"stacks_{target.title}.json"
    try:
        found = {"pid": target.pid, "threads": node.stacks(target.pid)}
        file.write_text(json.dumps(found))
    except (OSError, ValueError) as error:
        if target.reason is not None:
            target.reason += f"; its stacks cannot be read: {error}"
    else:
        target.stacks = file


def _ask_flight_recorder(target: Target, node: Node, staging: Staging, uid: int) -> None:
    if target.candidate.rank is None or not node.reaches(target.pid):
        return
    target.is_asked = True
    file = staging.folder / f"flight_recorder_{target.candidate.rank}.pickle"

    def answered(answer: Mapping[str, object]) -> None:
        target.is_asked = False
        if "error" not in answer and staging.has(file, uid):
            target.flight_recorder = file

    node.ask(target.pid, {"do": "flight_recorder", "file": str(file)}, EXPLAIN_NS, answered)
