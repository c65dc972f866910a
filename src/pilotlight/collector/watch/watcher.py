"""The thread that looks at every job that has news, and does what has to follow."""

from __future__ import annotations

import logging
import queue
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence

from pilotlight.collector.capture import Capture
from pilotlight.collector.captures import CaptureDesk
from pilotlight.collector.config import Config
from pilotlight.collector.watch.alerts import Announcer
from pilotlight.collector.watch.history import regressions_of
from pilotlight.collector.watch.look import found_in
from pilotlight.collector.watch.nodes import device_errors, silent_nodes
from pilotlight.collector.watch.opened import Opened, Register, opened_from
from pilotlight.collector.watch.recent import MISSED_BATCHES, RecentAgent, RecentJob, take_in
from pilotlight.collector.watch.where import Locator
from pilotlight.errors import StoreError, UsageError
from pilotlight.insights.finding import Finding
from pilotlight.store.batch import Batch
from pilotlight.store.schema import TABLES
from pilotlight.store.store import Store

_SETTLE_S = 0.5
# A look at a thousand ranks takes a good part of a second: it rests so many times as long.
_REST_RATIO = 10.0
_LONGEST_REST_S = 4.0
_FORGET_NS = 600_000_000_000
_FORGET_AGENT_NS = 3_600_000_000_000
_WRITE_NS = 30_000_000_000
_HISTORY_NS = 120_000_000_000
_EXPIRE_S = 600.0
_QUEUED = 20_000
_SELDOM_S = 300.0
_MOST_UNWRITTEN = 10_000
_LOG = logging.getLogger("pilotlight.collector")
_TRIGGERS = ("hang", "slow_link", "regression", "irregular", "changed", "xid", "lost")


class Watcher:
    """Takes batches as they are acknowledged; nothing that it does delays them."""

    def __init__(
        self, store: Store, config: Config, desk: CaptureDesk, announcer: Announcer
    ) -> None:
        self._store = store
        self._config = config
        self._desk = desk
        self._announcer = announcer
        self._jobs: dict[tuple[str, str], RecentJob] = {}
        self._agents: dict[tuple[str, str], RecentAgent] = {}
        self._guard = threading.Lock()
        self._incoming: queue.Queue[Batch | None] = queue.Queue(_QUEUED)
        self._register = Register()
        self._written: dict[str, tuple[int, str]] = {}
        self._unwritten: dict[str, Opened] = {}  # what the store did not take, by finding
        self._asked: set[str] = set()
        self._sharing: dict[str, set[str]] = {}  # by capture the findings that it is of too
        self._history_ns: dict[tuple[str, str], int] = {}
        self._regressions: dict[tuple[str, str], tuple[Finding, ...]] = {}
        self.counts: Counter[str] = Counter()
        self._locator = Locator(store, self.counts)
        self._latest: dict[tuple[str, str], tuple[Finding, ...]] = {}
        self._expire_due_s = 0.0
        self.looked_ns = 0
        self._recall()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def take(self, batch: Batch) -> None:
        try:
            self._incoming.put_nowait(batch)
        except queue.Full:
            self.counts["batches not looked at"] += 1

    def agents_of(
        self, tenant: str, job: str, ranks: Sequence[int] | None
    ) -> tuple[int, dict[str, tuple[str, tuple[int, ...]]]]:
        """The attempt, and by agent the node and the chosen ranks; None: all."""
        wanted = None if ranks is None else frozenset(ranks)
        with self._guard:
            found = self._jobs.get((tenant, job))
            if found is None:
                return 0, {}
            chosen: dict[str, tuple[str, tuple[int, ...]]] = {}
            for rank, one in sorted(found.ranks.items()):
                if (wanted is None or rank in wanted) and not one.ended_ns:
                    node, before = chosen.get(one.agent, (one.node, ()))
                    chosen[one.agent] = (node, (*before, rank))
            return found.attempt, chosen

    def open_findings(self) -> list[Opened]:
        return list(self._register.open.values())

    def jobs(self) -> list[RecentJob]:
        with self._guard:
            return list(self._jobs.values())

    def agents(self) -> list[RecentAgent]:
        with self._guard:
            return list(self._agents.values())

    def patience_ns(self, tenant: str) -> int:
        """How long the agents of a tenant may be silent: some of them send seldom."""
        every_s = [one.facts.batch_s for one in self.agents() if one.tenant == tenant]
        return int(MISSED_BATCHES * 1e9 * min(max(every_s, default=0.0), _SELDOM_S))

    def stored(self, capture: Capture) -> None:
        """A capture is complete: its findings say so."""
        findings = {capture.finding, *self._sharing.pop(capture.id, ())}
        if capture.state == "failed":
            return
        for id in filter(None, findings):
            changed = self._register.captured(id, capture.id, time.time_ns())
            if changed is not None:
                self._write([changed])

    def close(self) -> None:
        self._incoming.put(None)
        self._thread.join(10)

    def _run(self) -> None:
        due_s = time.monotonic() + self._config.watch.every_s
        rested_s = 0.0
        while True:
            try:
                batch = self._incoming.get(timeout=max(0.0, due_s - time.monotonic()))
                if batch is None:
                    return
                self._take_in(batch)
                # What comes together is looked at together.
                due_s = max(rested_s, min(due_s, time.monotonic() + _SETTLE_S))
            except queue.Empty:
                due_s = time.monotonic() + self._config.watch.every_s
                began_s = time.thread_time()
                try:
                    self._look(time.time_ns())
                except Exception as error:
                    self._count_fault(error)
                spent_s = time.thread_time() - began_s
                rested_s = time.monotonic() + min(_LONGEST_REST_S, _REST_RATIO * spent_s)

    def _take_in(self, batch: Batch) -> None:
        with self._guard:
            header = batch.header
            self._agents[batch.tenant, header.agent] = RecentAgent(
                tenant=batch.tenant,
                agent=header.agent,
                node=header.node,
                facts=header.facts,
                offset_ns=batch.clock.offset_ns,
                heard_ns=batch.received_ns,
            )
            try:
                take_in(self._jobs, batch)
            except Exception as error:
                self._count_fault(error)

    def _count_fault(self, error: Exception) -> None:
        self.counts[f"fault: {error!r:.100}"] += 1
        _LOG.error("watching over jobs: %r", error, exc_info=error)

    def _look(self, now_ns: int) -> None:
        self.looked_ns = now_ns
        if self._unwritten:
            self._write(())
        self._desk.tick(now_ns)
        if time.monotonic() >= self._expire_due_s:
            self._expire_due_s = time.monotonic() + _EXPIRE_S
            self._desk.expire(now_ns)
        for key, job in [(key, job) for key, job in self._jobs.items()]:
            try:
                self._look_at(key, job, now_ns)
            except Exception as error:  # of one job, which must not hide all others
                self._count_fault(error)
        self._close_orphans(now_ns)
        with self._guard:
            heard = self._agents.items()
            self._agents = {key: a for key, a in heard if now_ns - a.heard_ns <= _FORGET_AGENT_NS}

    def _look_at(self, key: tuple[str, str], job: RecentJob, now_ns: int) -> None:
        if job.is_over or now_ns - job.heard_ns > _FORGET_NS:
            with self._guard:
                del self._jobs[key]
            self._latest.pop(key, None)
            self._regressions.pop(key, None)
            self._history_ns.pop(key, None)
            self._locator.forget(*key)
            # What it died of may have come with its end.
            self._follow(job, self._register.update(job, device_errors(job), now_ns), now_ns)
            self._follow(job, self._register.close_all(job, now_ns), now_ns)
            return
        try:
            found = self._diagnose(job, now_ns)
            self._follow(job, self._register.update(job, found, now_ns), now_ns)
            self._trigger_slow_steps(job)
        finally:
            with self._guard:
                job.looked()

    def _close_orphans(self, now_ns: int) -> None:
        """What was open when the last collector went, of jobs that went meanwhile. Another
        collector on the same store may have them."""
        for one in self._register.orphans(self._jobs, now_ns - _FORGET_NS):
            try:
                rows = self._store.select(
                    "SELECT max(updated_ns) FROM findings WHERE tenant = {tenant:String} "
                    "AND job = {job:String} AND id = {id:String}",
                    {"tenant": one.key[0], "job": one.key[1], "id": one.id},
                )
            except StoreError:
                self.counts["history not read"] += 1
                return
            if rows[0][0] > one.updated_ns:
                self._register.forget(one)
                continue
            closed = self._register.close(one, now_ns)
            self._write([closed])
            self._announcer.tell(closed)
            self.counts["closed"] += 1

    def _diagnose(self, job: RecentJob, now_ns: int) -> list[Finding]:
        silent = silent_nodes(job, now_ns)
        found = [*silent, *device_errors(job)]
        key = (job.tenant, job.job)
        if not job.has_news and not silent:
            # Nothing has changed, and a hang would be news.
            return [*found, *self._latest.get(key, ())]
        looked_at = found_in(job, None if silent else job.told_ns)
        located = [self._locator.located(job, one) for one in looked_at]
        self._latest[key] = (*located, *self._regressed(job, now_ns))
        return [*found, *self._latest[key]]

    def _regressed(self, job: RecentJob, now_ns: int) -> tuple[Finding, ...]:
        key = (job.tenant, job.job)
        if now_ns - self._history_ns.get(key, 0) >= _HISTORY_NS:
            self._history_ns[key] = now_ns
            try:
                self._regressions[key] = regressions_of(self._store, job)
            except StoreError:
                self.counts["history not read"] += 1
        return self._regressions.get(key, ())

    def _follow(self, job: RecentJob, changed: Sequence[Opened], now_ns: int) -> None:
        due = []
        for one in changed:
            if one.opened_ns == now_ns:
                self.counts["opened"] += 1
            if one.is_open:
                self._trigger(job, one)
            else:
                self.counts["closed"] += 1
                self._asked.discard(one.id)
            written_ns, title = self._written.get(one.id, (0, ""))
            # What a look at half of the news made of it is put right at once.
            says_else = title != one.finding.title
            if says_else or not one.is_open or now_ns - written_ns > _WRITE_NS:
                due.append(one)
            self._announcer.tell(one)
        self._write(due)

    def _write(self, findings: Sequence[Opened]) -> None:
        """What the store does not take now, it gets at a later look."""
        for one in findings:
            self._unwritten[one.id] = one
            self._written[one.id] = one.updated_ns, one.finding.title
            if not one.is_open:
                self._written.pop(one.id, None)
        due = dict(self._unwritten)
        try:
            self._store.insert_rows("findings", [one.row() for one in due.values()])
        except StoreError:
            self.counts["findings not written"] += len(findings)
            for id in list(due)[:-_MOST_UNWRITTEN]:
                self._unwritten.pop(id, None)
            return
        for id, one in due.items():
            if self._unwritten.get(id) is one:
                del self._unwritten[id]

    def _trigger(self, job: RecentJob, one: Opened) -> None:
        """Once for each finding; one that has to wait for others is asked for as long as it is
        open."""
        cause = one.finding.cause
        is_wanted = cause in _TRIGGERS or one.finding.rank is not None
        if not self._config.captures.automatic or not is_wanted:
            return
        if one.capture or one.id in self._asked:
            return
        is_of_a_rank = one.finding.rank is not None
        rate = "critical" if one.severity == "critical" else "rank" if is_of_a_rank else "finding"
        if self._share(job, one) or self._capture(job, one.ranks, cause, one.id, rate):
            self._asked.add(one.id)
        elif one.updated_ns == one.opened_ns:
            self.counts["triggers held back"] += 1

    def _share(self, job: RecentJob, one: Opened) -> bool:
        """What shows the same ranks in the same seconds is captured once: a slow device that turns
        out to be throttled is another finding of the same."""
        since_ns = one.opened_ns - int(1e9 * self._config.captures.seconds)
        capture = self._desk.covering(job.tenant, job.job, one.ranks, since_ns)
        if capture is None:
            return False
        self._sharing.setdefault(capture.id, set()).add(one.id)
        if capture.state != "requested":
            self.stored(capture)
        return True

    def _trigger_slow_steps(self, job: RecentJob) -> None:
        slow = job.slow_ranks(self._config.watch.slow_step) if job.has_news else []
        if slow and self._config.captures.automatic:
            is_asked = self._capture(job, slow[:4], "slow step", "", "slow step")
            self.counts["triggers held back"] += not is_asked

    def _capture(
        self, job: RecentJob, concerned: Sequence[int], reason: str, finding: str, rate: str
    ) -> bool:
        """Of the ranks concerned and a few others to compare them with; False: not now."""
        settings = self._config.captures
        others = [rank for rank in job.ranks if rank not in concerned]
        healthy = random.sample(others, min(settings.healthy, len(others)))
        attempt, agents = self.agents_of(job.tenant, job.job, [*concerned, *healthy])
        try:
            self._desk.ask(
                job.tenant,
                job.job,
                attempt,
                agents,
                settings.seconds,
                reason,
                "trigger",
                finding,
                rate=rate,
            )
        except (UsageError, StoreError):
            return False
        return True

    def _recall(self) -> None:
        """What was open when the last collector went."""
        names = TABLES["findings"].column_names
        for row in self._store.select(
            f"SELECT {', '.join(names)} FROM findings FINAL WHERE state = 'open'"
        ):
            one = opened_from(dict(zip(names, row, strict=True)))
            self._register.open[one.key] = one
            self._announcer.recall(one)
