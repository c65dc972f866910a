"""How far a capture has come, node by node, and why one of them has nothing to show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import structs

from pilotlight.capture.told import RankTold
from pilotlight.collector.capture import Capture
from pilotlight.collector.captures import CaptureDesk
from pilotlight.errors import NotFound
from pilotlight.store import queries
from pilotlight.store.queries import CaptureRow, Reader
from pilotlight.web import answers

ARCHIVE = ".tar.zst"
GIVEN_UP_NS = 180_000_000_000
FORGOTTEN = "the collector was started anew before it answered"

_RANKS = """
SELECT node, groupUniqArray(rank) FROM ranks WHERE tenant = {tenant:String} AND job = {job:String}
  AND attempt = {attempt:Int32} AND rank >= 0 GROUP BY node
"""


def capture_detail(reader: Reader, desk: CaptureDesk, id: str) -> answers.CaptureDetail:
    row = next((row for row in queries.captures(reader, limit=5000) if row.id == id), None)
    if row is None:
        raise NotFound(f"no capture {id[:60]!r}")
    waited_for = desk.waited_for(reader.tenant, id)
    if waited_for is not None:
        nodes = open_nodes(waited_for)
    else:
        asked = {
            str(node): sorted(set(ranks) & set(row.ranks) if row.ranks else ranks)
            for node, ranks in reader.select(_RANKS, job=row.job, attempt=row.attempt)
        }
        sizes = {name.removesuffix(ARCHIVE): size for name, size in desk.shelf.files(id)}
        if is_settling(row, reader.now_ns):
            return answers.CaptureDetail(
                reader.now_ns, row, True, settling_nodes(row, asked, sizes)
            )
        told = desk.shelf.told(id)
        nodes = [
            structs.replace(node, told=ranks_of(told, node.node))
            for node in settled_nodes(row, asked, sizes)
        ]
    return answers.CaptureDetail(reader.now_ns, row, waited_for is not None, nodes)


def ranks_of(told: Mapping[str, Sequence[RankTold]], node: str) -> list[answers.CapturedRank]:
    """Of all agents of a node: two of one machine are kept as `NODE-AGENT`."""
    mine = [one for name, ranks in told.items() if _is_of(name, node) for one in ranks]
    return [answers.CapturedRank(one.rank, one.state, one.why) for one in mine]


def _is_of(name: str, node: str) -> bool:
    return name == node or name.startswith(f"{node}-")


def is_settling(row: CaptureRow, now_ns: int) -> bool:
    """The desk forgets a capture a moment before its row says how it ended; one that it forgot
    long ago was lost with the collector that was asked."""
    return row.state == "requested" and now_ns - row.requested_ns < GIVEN_UP_NS


def settling_nodes(
    row: CaptureRow, ranks: Mapping[str, list[int]], sizes: Mapping[str, int]
) -> list[answers.CapturedNode]:
    return [
        answers.CapturedNode(
            node,
            ranks.get(node, []),
            "stored" if sizes.get(node) else "asked",
            "",
            sizes.get(node, 0),
            [],
        )
        for node in row.nodes
    ]


def open_nodes(capture: Capture) -> list[answers.CapturedNode]:
    made = []
    for agent, (node, ranks) in sorted(capture.agents.items(), key=lambda item: item[1]):
        why = capture.problems.get(node, "")
        state = "asked" if agent in capture.handed else "waiting"
        state = "stored" if agent in capture.got else "failed" if why else state
        size = capture.got.get(agent, 0)
        told = ranks_of({node: capture.told.get(agent, ())}, node)
        made.append(answers.CapturedNode(node, list(ranks), state, why, size, told))
    return made


def settled_nodes(
    row: CaptureRow, ranks: Mapping[str, list[int]], sizes: Mapping[str, int]
) -> list[answers.CapturedNode]:
    problems = problems_of(row)
    made = []
    for node in row.nodes:
        why = problems.get(node, "")
        state = "failed" if why else "stored"
        if row.state == "expired":
            state = "expired"
        elif row.state == "requested":
            state, why = "failed", FORGOTTEN
        mine = ranks.get(node, [])
        made.append(answers.CapturedNode(node, mine, state, why, sizes.get(node, 0), []))
    return made


def problems_of(row: CaptureRow) -> dict[str, str]:
    """By node; the row has them as `node: why; node: why`, and a reason may hold both signs."""
    found: dict[str, str] = {}
    places = sorted(
        (place, node)
        for node in row.nodes
        if (place := f"; {row.problem}".find(f"; {node}: ")) >= 0
    )
    for number, (place, node) in enumerate(places):
        begin = place + len(node) + 2
        end = places[number + 1][0] - 2 if number + 1 < len(places) else len(row.problem)
        found[node] = row.problem[begin:end]
    return found
