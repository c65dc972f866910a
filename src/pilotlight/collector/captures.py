"""Captures: slices of the flight recorders of some ranks, asked for and kept for a while."""

from __future__ import annotations

import contextlib
import math
import secrets
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pilotlight.capture.agree import Proposal
from pilotlight.capture.told import RankTold
from pilotlight.collector.agreement import Decided
from pilotlight.collector.capture import Capture
from pilotlight.collector.config import Captures as Settings
from pilotlight.collector.shelf import ARCHIVE, Shelf
from pilotlight.errors import NotFound, StoreError, UsageError
from pilotlight.store.schema import TABLES
from pilotlight.store.store import Store

ANSWER_S = 120.0
_DAY_NS = 86_400 * 10**9
_USER_GAP_S = 5.0
_REMEMBERED = 256
_NO_BUDGET = "the captures that are kept have used up their disk budget"


class CaptureDesk:
    """Requests, limits and files. `ring(tenant, agent)` wakes an agent that waits for requests."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        ring: Callable[[str, str], None],
        on_stored: Callable[[Capture], None] = lambda capture: None,
    ) -> None:
        self._store = store
        self._settings = settings
        self._ring = ring
        self._on_stored = on_stored
        self.shelf = Shelf(store.place.captures)
        self._open: dict[str, Capture] = {}
        self._latest: deque[Capture] = deque(maxlen=_REMEMBERED)
        self._guard = threading.RLock()
        self._job_last_s: dict[tuple[str, str, str], float] = {}
        self._node_last_s: dict[tuple[str, str, str], float] = {}
        self.counts: Counter[str] = Counter()
        if store.place.server is None:
            self._give_up_before(time.time_ns())

    def ask(
        self,
        tenant: str,
        job: str,
        attempt: int,
        agents: Mapping[str, tuple[str, tuple[int, ...]]],
        seconds: float,
        reason: str,
        asked_by: str,
        finding: str = "",
        options: Mapping[str, object] | None = None,
        rate: str = "finding",
    ) -> Capture:
        """UsageError: a limit is reached, and which. `rate`: with which others of the job and of
        its nodes it shares one, so that what matters does not wait for what does not."""
        now_s, now_ns = time.monotonic(), time.time_ns()
        rate = "user" if reason == "user" else rate
        with self._guard:
            self._check_limits(tenant, job, agents, rate, now_s)
            capture = Capture(
                id=secrets.token_hex(8),
                tenant=tenant,
                job=job,
                attempt=attempt,
                reason=reason,
                asked_by=asked_by,
                finding=finding,
                agents=dict(agents),
                from_ns=now_ns - int(seconds * 1e9),
                to_ns=now_ns,
                requested_ns=now_ns,
                expires_ns=now_ns + int(self._settings.keep_days * _DAY_NS),
                options=dict(options or {}),
            )
            self._open[capture.id] = capture
            self._latest.append(capture)
            self._job_last_s[tenant, job, rate] = now_s
            for node, _ in agents.values():
                self._node_last_s[tenant, node, rate] = now_s
            self.counts["requested"] += 1
        self._store.insert_rows("captures", [capture.row(now_ns)])
        self.audit(tenant, asked_by, "capture", f"{job} {capture.id} {reason}")
        for agent in agents:
            self._ring(tenant, agent)
        return capture

    def covering(
        self, tenant: str, job: str, ranks: Sequence[int], since_ns: int
    ) -> Capture | None:
        """One of these ranks that was asked for since then, also one on its way."""
        with self._guard:
            for capture in reversed(self._latest):
                is_theirs = (capture.tenant, capture.job) == (tenant, job)
                is_new = capture.requested_ns >= since_ns and capture.state != "failed"
                if is_theirs and is_new and set(ranks) <= set(capture.ranks):
                    return capture
        return None

    def audit(self, tenant: str, who: str, action: str, what: str) -> None:
        row = {"tenant": tenant, "time_ns": time.time_ns(), "who": who}
        self._store.insert_rows("audit", [{**row, "action": action, "what": what[:1000]}])

    def pending(self, tenant: str, agent: str) -> list[dict[str, object]]:
        """What an agent has still to deliver; handed out once."""
        found: list[dict[str, object]] = []
        with self._guard:
            for capture in self._open.values():
                mine = capture.agents.get(agent)
                if capture.tenant != tenant or mine is None or agent in capture.handed:
                    continue
                capture.handed.add(agent)
                found.append(
                    {
                        "capture": capture.id,
                        "job": capture.job,
                        "ranks": list(mine[1]),
                        "from_ns": capture.from_ns,
                        "to_ns": capture.to_ns,
                        "limit_bytes": self._settings.each_bytes,
                        **capture.options,
                    }
                )
        return found

    def place_for(self, tenant: str, id: str, agent: str) -> tuple[Path, int]:
        """Where the detail of an agent is written to, and how much of it. NotFound: not asked.
        UsageError: the budget is used up, by others of the same capture maybe."""
        with self._guard:
            capture = self._asked(tenant, id, agent)
        left_bytes = self._settings.budget_bytes - self.shelf.used_bytes
        if left_bytes <= 0:
            self.counts["refused: budget"] += 1
            self.refused(tenant, id, agent, _NO_BUDGET)
            raise UsageError(_NO_BUDGET)
        return self.shelf.place_for(capture, agent), min(self._settings.each_bytes, left_bytes)

    def delivered(self, id: str, agent: str, size: int, facts: Mapping[str, object]) -> None:
        """The file is there; the capture is stored when the last one is."""
        with self._guard:
            capture = self._open.get(id)
            if capture is None:
                return
            capture.got[agent] = size
            self.shelf.note(capture, agent, facts)
        self._settle(capture)

    def told(self, tenant: str, id: str, agent: str, ranks: Sequence[RankTold]) -> None:
        """How far the ranks of an agent are, those that it was asked for. NotFound: not asked."""
        with self._guard:
            capture = self._asked(tenant, id, agent)
            asked = set(capture.agents[agent][1])
            capture.told[agent] = tuple(one for one in ranks if one.rank in asked)

    def refused(self, tenant: str, id: str, agent: str, why: str) -> None:
        """The agent has nothing to give, and says why."""
        with self._guard:
            capture = self._open.get(id)
            if capture is None or capture.tenant != tenant or agent not in capture.agents:
                return
            capture.problems[capture.title_of(agent)] = why[:200]
        self._settle(capture)

    def propose(self, tenant: str, id: str, agent: str, proposal: Proposal) -> None:
        """From which step on an agent could trace. NotFound: not asked."""
        with self._guard:
            self._asked(tenant, id, agent).agreement.propose(agent, proposal)

    def decided(self, tenant: str, id: str, agent: str) -> Decided | None:
        """What all agents of a capture do; None: some have not proposed. NotFound: not asked."""
        with self._guard:
            capture = self._asked(tenant, id, agent)
            answered = {*capture.got, *capture.problems}
            awaited = [
                one
                for one in capture.agents
                if one not in answered and capture.title_of(one) not in answered
            ]
            return capture.agreement.look(awaited)

    def _asked(self, tenant: str, id: str, agent: str) -> Capture:
        capture = self._open.get(id)
        if capture is None or capture.tenant != tenant or agent not in capture.agents:
            raise NotFound("no such capture is waited for")
        return capture

    def tick(self, now_ns: int) -> None:
        """Gives up on agents that do not answer; removes what has expired."""
        with self._guard:
            late = [
                capture
                for capture in self._open.values()
                if now_ns - capture.requested_ns > ANSWER_S * 1e9
            ]
        for capture in late:
            for agent in capture.agents:
                if agent not in capture.got:
                    capture.problems.setdefault(capture.title_of(agent), "did not answer in time")
            self._settle(capture)

    def waited_for(self, tenant: str, id: str) -> Capture | None:
        """One that is still on its way, as it stands now."""
        with self._guard:
            capture = self._open.get(id)
            if capture is None or capture.tenant != tenant:
                return None
            return replace(
                capture,
                handed=set(capture.handed),
                got=dict(capture.got),
                problems=dict(capture.problems),
                told=dict(capture.told),
            )

    def expire(self, now_ns: int) -> int:
        """Removes the files of captures whose time is over; returns how many."""
        self._give_up_before(now_ns - 2 * int(ANSWER_S * 1e9))
        rows = self._store.select(
            "SELECT tenant, job, id FROM captures FINAL WHERE expires_ns < {now:Int64} "
            "AND state != 'expired' AND state != 'requested'",
            {"now": now_ns},
        )
        for tenant, job, id in rows:
            self._remove(tenant, job, id, now_ns)
        return len(rows)

    def _give_up_before(self, time_ns: int) -> None:
        """On those that nobody waits for any more: the collector that asked was stopped. Another
        one of the same cluster may still wait for what was asked for later."""
        names = TABLES["captures"].column_names
        rows = self._store.select(
            f"SELECT {', '.join(names)} FROM captures FINAL "
            "WHERE state = 'requested' AND requested_ns < {time:Int64}",
            {"time": time_ns},
        )
        for row in rows:
            given = dict(zip(names, row, strict=True))
            if given["id"] in self._open:
                continue
            files = [one for one in self.shelf.files(given["id"]) if one[0].endswith(ARCHIVE)]
            self.counts["given up"] += 1
            given |= {
                "state": "partial" if files else "failed",
                "problem": "the collector was stopped before all of it had come",
                "files": len(files),
                "bytes": sum(size for _, size in files),
                "updated_ns": time.time_ns(),
            }
            self._store.insert_rows("captures", [given])

    def discard(self, tenant: str, id: str, who: str) -> None:
        """Removes the files of a capture before its time. UsageError: it is still on its way."""
        if self.waited_for(tenant, id) is not None:
            raise UsageError(f"the capture {id} is still on its way")
        rows = self._store.select(
            "SELECT job FROM captures FINAL WHERE tenant = {tenant:String} AND id = {id:String}",
            {"tenant": tenant, "id": id},
        )
        if not rows:
            raise NotFound(f"no capture {id[:40]}")
        self._remove(tenant, rows[0][0], id, time.time_ns())
        self.audit(tenant, who, "discard capture", f"{rows[0][0]} {id}")

    def _remove(self, tenant: str, job: str, id: str, now_ns: int) -> None:
        self.shelf.remove(id)
        found = self._store.select(
            "SELECT * FROM captures FINAL WHERE tenant = {t:String} AND job = {j:String} "
            "AND id = {i:String}",
            {"t": tenant, "j": job, "i": id},
        )
        row = dict(zip(TABLES["captures"].column_names, found[0], strict=True))
        self._store.insert_rows("captures", [{**row, "state": "expired", "updated_ns": now_ns}])

    def _check_limits(
        self,
        tenant: str,
        job: str,
        agents: Mapping[str, tuple[str, tuple[int, ...]]],
        rate: str,
        now_s: float,
    ) -> None:
        settings, is_user = self._settings, rate == "user"
        if not agents:
            raise UsageError(f"no agent of job {job} is known; is it running?")
        if len(self._open) >= settings.most_at_once:
            self.counts["refused: too many at once"] += 1
            raise UsageError(f"{len(self._open)} captures are under way, which is all it may")
        gap_s = _USER_GAP_S if is_user else settings.per_job_s
        last_s = self._job_last_s.get((tenant, job, rate))
        if last_s is not None and now_s - last_s < gap_s:
            self.counts["refused: job rate"] += 1
            raise UsageError(_too_soon(f"job {job}", now_s - last_s, gap_s))
        if not is_user:
            for node, _ in agents.values():
                node_s = self._node_last_s.get((tenant, node, rate))
                if node_s is not None and now_s - node_s < settings.per_node_s:
                    self.counts["refused: node rate"] += 1
                    age_s = now_s - node_s
                    raise UsageError(_too_soon(f"node {node}", age_s, settings.per_node_s))
        if self.shelf.used_bytes + len(agents) * (1 << 20) > settings.budget_bytes:
            self.counts["refused: budget"] += 1
            raise UsageError(_NO_BUDGET)

    def _settle(self, capture: Capture) -> None:
        with self._guard:
            answered = len(capture.got) + len(capture.problems)
            if answered < len(capture.agents) or capture.id not in self._open:
                return
            del self._open[capture.id]
            capture.state = (
                "stored"
                if capture.got and not capture.problems
                else ("partial" if capture.got else "failed")
            )
            self.counts[capture.state] += 1
        with contextlib.suppress(StoreError):
            self._store.insert_rows("captures", [capture.row(time.time_ns())])
        self._on_stored(capture)


def _too_soon(what: str, age_s: float, gap_s: float) -> str:
    return f"{what} was captured {age_s:.0f} s ago; try again in {math.ceil(gap_s - age_s)} s"
