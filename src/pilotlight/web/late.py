"""How often a rank is the one that the others wait for."""

from __future__ import annotations

from pilotlight.ship.wire import WAIT_KNOWN
from pilotlight.store.queries import Reader
from pilotlight.store.queries.reader import bounded

STEPS = 100
RECENT_NS = 180_000_000_000
NOTICED_RATIO = 0.01

# Who waits least came last; a rank is late where the others waited for it for more than noise.
_LATE = f"""
SELECT countIf(mine = least AND most - mine > {NOTICED_RATIO} * longest), count() FROM (
  SELECT step, minIf(wait_ns, rank = {{rank:Int32}}) AS mine, min(wait_ns) AS least,
    max(wait_ns) AS most, max(duration_ns) AS longest
  FROM steps WHERE tenant = {{tenant:String}} AND job = {{job:String}}
    AND attempt = {{attempt:Int32}} AND rank >= 0 AND step > {{after:Int64}}
    AND bitAnd(known, {WAIT_KNOWN}) > 0 AND {bounded("steps", "start_ns")}
  GROUP BY step HAVING countIf(rank = {{rank:Int32}}) > 0 AND count() > 1)
"""


def late_ratio(
    reader: Reader, job: str, attempt: int, rank: int, last_step: int, last_ns: int
) -> float | None:
    """Of the latest steps; None where waiting is not known."""
    late, steps = reader.select(
        _LATE,
        job=job,
        attempt=attempt,
        rank=rank,
        after=last_step - STEPS,
        from_ns=last_ns - RECENT_NS,
        to_ns=last_ns + RECENT_NS,
    )[0]
    return int(late) / int(steps) if steps else None
