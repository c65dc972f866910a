"""One capture on one node: asks, aligns, waits; never blocks. The agent calls `tick`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from pilotlight.capture import plan
from pilotlight.capture.agree import Proposal
from pilotlight.capture.explain import EXPLAIN_NS, explain
from pilotlight.capture.node import Node
from pilotlight.capture.plan import Candidate
from pilotlight.capture.request import (
    DONE,
    LEFT_OUT,
    TRACING,
    WAITING,
    CaptureRequest,
)
from pilotlight.capture.staging import LEAST_FREE_BYTES, Staging, free_bytes
from pilotlight.capture.target import KINETO, XSPACE, Target
from pilotlight.capture.xspace import XSpaces
from pilotlight.kineto.config import Span, Steps, file_of, trace_configuration
from pilotlight.kineto.daemon import Pending

_SECOND_NS = 1_000_000_000
_FACTS_NS = 3 * _SECOND_NS
_MEASURE_NS = 2 * _SECOND_NS
_FIRST_POLL_NS = 8 * _SECOND_NS
_MEASURE_AGAIN_NS = 400_000_000
_ENOUGH_STEPS = 4
_FOLLOW_NS = _SECOND_NS
_MARGIN_NS = _SECOND_NS
# Kineto's own loop looks once a second whether it is time, and warms up for one.
_BEFORE_SPAN_NS = 3 * _SECOND_NS
_KINETO_NOTICE_MS = 2200
_POLL_PATIENCE_NS = 13 * _SECOND_NS
_STUCK_NS = 10 * _SECOND_NS
_STUCK_STEPS = 8
_AGREE_PATIENCE_NS = 30 * _SECOND_NS

MEASURING, AGREEING, RUNNING = "measuring", "agreeing", "running"
EXPLAINING, OVER = "explaining", "over"


class NodeCapture:
    def __init__(
        self,
        number: str,
        request: CaptureRequest,
        candidates: Sequence[Candidate],
        uid: int,
        node: Node,
        now_ns: int,
    ) -> None:
        self.number = number
        self.request = request
        self.staging = Staging.make(uid)
        self.phase = MEASURING
        self.targets = [Target(candidate) for candidate in candidates]
        self.window: Steps | Span | None = None
        self.proposal: Proposal | None = None
        self._uid = uid
        self._node = node
        self._xspaces = XSpaces(node, request)
        self._began_ns = now_ns
        self._measuring_ns = now_ns
        self._followed_ns = now_ns
        self._agree_until_ns = 0
        self._handed_out_ns = now_ns
        self._explain_until_ns = 0
        self._lively_ns = now_ns
        for target in self.targets:
            self._ask_facts(target)

    @property
    def is_over(self) -> bool:
        return self.phase == OVER

    def tick(self, now_ns: int) -> None:
        for target in self.targets:
            if not target.has_ended and not self._node.is_alive(target.pid):
                target.fail("it died before its trace was complete")
        if self.phase == MEASURING and self._is_measured(now_ns):
            self._begin(now_ns)
        if self.phase == AGREEING:
            self._wait_for_decision(now_ns)
        if self.phase == RUNNING:
            self._follow(now_ns)
            if all(target.has_ended for target in self.targets):
                self.phase = EXPLAINING
                self._explain_until_ns = now_ns + EXPLAIN_NS
                explain(self.targets, self._still(), self._node, self.staging, self._uid)
        if self.phase == EXPLAINING and (
            now_ns >= self._explain_until_ns or not any(t.is_asked for t in self.targets)
        ):
            self.phase = OVER

    def decided(self, first_step: int | None, start_ns: int, now_ns: int) -> None:
        """The nodes have agreed: on a step, else on a time on this node's wall clock."""
        if self.phase != AGREEING:
            return
        self.phase = RUNNING
        for target in self.targets:
            steps = target.progress.last_steps if target.progress is not None else 0
            if first_step is not None and steps >= first_step:
                target.fail(f"the nodes agreed on step {first_step}: it has done {steps} already")
        asked = [target for target in self.targets if not target.has_ended]
        window = (
            self._span(asked, start_ns - time.time_ns())
            if first_step is None
            else Steps(first_step, self._calls())
        )
        self._hand_out(asked, window, now_ns)

    def cancel(self) -> None:
        """Nobody waits any more. What was handed out cannot be called back."""
        for target in self.targets:
            self._take_back(target)
            target.fail("nobody waited for it any more")
        self.phase = OVER

    def state(self) -> dict[str, object]:
        """For the client: JSON-able."""
        window = self.window
        return {
            "capture": self.number,
            "phase": self.phase,
            "proposal": self.proposal.to_json() if self.proposal is not None else None,
            "staging": str(self.staging.folder),
            "first_step": window.first if isinstance(window, Steps) else None,
            "steps": window.count if isinstance(window, Steps) else None,
            "wanted_steps": self.request.steps,
            "start_ns": window.start_ms * 1_000_000 if isinstance(window, Span) else None,
            "duration_ns": window.duration_ms * 1_000_000 if isinstance(window, Span) else None,
            "missing_ranks": plan.missing_ranks(
                [target.candidate for target in self.targets], self.request.ranks
            ),
            "processes": [asdict(target.answered()) for target in self.targets],
        }

    def _ask_facts(self, target: Target) -> None:
        if target.is_asked or not self._node.reaches(target.pid):
            return
        target.is_asked = True
        has_request = target.has_request(time.monotonic_ns())

        def answered(answer: Mapping[str, object]) -> None:
            target.is_asked = False
            if "error" not in answer:
                target.learn(dict(answer), time.monotonic_ns(), has_request)

        self._node.ask(target.pid, {"do": "facts"}, _FACTS_NS, answered)

    def _ask_again(self, now_ns: int) -> None:
        if now_ns - self._followed_ns >= _MEASURE_AGAIN_NS:
            self._followed_ns = now_ns
            for target in self.targets:
                self._ask_facts(target)

    def _is_measured(self, now_ns: int) -> bool:
        """Long enough to know how fast each one steps, or that it does not."""
        self._ask_again(now_ns)
        elapsed_ns = now_ns - self._began_ns
        if elapsed_ns < _FIRST_POLL_NS and any(map(self._polls_soon, self.targets)):
            # How fast it steps is measured after that: the first steps are slow.
            self._measuring_ns = now_ns
            for target in self.targets:
                target.progress = None
            return False
        if now_ns - self._measuring_ns >= _MEASURE_NS:
            return True
        ranks = [t for t in self.targets if t.candidate.said_role == plan.RANK] or self.targets
        return all(
            target.progress is not None
            and target.progress.last_steps - target.progress.first_steps >= _ENOUGH_STEPS
            for target in ranks
        )

    def _polls_soon(self, target: Target) -> bool:
        """It has just begun: Kineto polls for the first time some seconds after torch is there."""
        is_asking = bool(target.facts.get("asks_daemon"))
        return is_asking and not target.has_ended and self._node.poller(target.pid) is None

    def _begin(self, now_ns: int) -> None:
        self.phase = RUNNING
        for target in self.targets:
            target.candidate = plan.with_facts(target.candidate, target.facts)
            poller = self._node.poller(target.pid)
            if poller is not None and not target.candidate.ancestors:
                target.candidate = plan.with_ancestors(target.candidate, poller.ancestors)
        choices = plan.choose([t.candidate for t in self.targets], self.request.ranks)
        if self.request.pid is not None:
            choices = [plan.Choice(choice.candidate, choice.role, None) for choice in choices]
        for target, choice in zip(self.targets, choices, strict=True):
            target.role = choice.role
            if choice.reason is not None:
                target.state, target.reason = LEFT_OUT, choice.reason
            else:
                self._decide(target)
        asked = [target for target in self.targets if not target.has_ended]
        if asked:
            self._plan(asked, now_ns)

    def _decide(self, target: Target) -> None:
        """Which profiler of the process to ask, or why none can be."""
        has_torch, has_jax = "torch" in target.facts, "jax" in target.facts
        steps = target.progress.last_steps if target.progress else 0
        if target.facts.get("is_profiled"):
            target.fail("busy: a torch.profiler of its own is running; try again when it is done")
        elif not self._node.sees(target.pid, self.staging.folder):
            target.fail(
                f"it has another {self.staging.folder.parent} than the agent (a container):"
                " mount the same one in both"
            )
        elif has_jax and not steps:
            target.how = XSPACE
        elif self._node.poller(target.pid) is not None:
            target.how = KINETO
        elif has_torch and target.facts.get("asks_daemon"):
            target.fail("it has not asked for traces so far; if it has just begun, try again")
        elif has_torch and target.facts.get("waits_for_gpu"):
            target.fail(
                "it has not used its GPU so far, and torch asks for traces only from then on"
                " (asking earlier would initialise CUDA for it)"
            )
        elif has_torch:
            target.fail(
                f"its torch ({target.facts['torch']}) does not ask for traces: start it with"
                " `pilotlight run`, with torch 2.10 or newer (before, asking may abort the process)"
            )
        elif self._node.reaches(target.pid):
            target.fail("neither torch nor jax is loaded in it yet")
        else:
            target.fail(
                "no torch or jax in it can be asked: it has loaded neither, or was not started with"
                " `pilotlight run`"
            )

    def _plan(self, asked: list[Target], now_ns: int) -> None:
        seen_ns = [t.progress.step_ns() if t.progress is not None else None for t in asked]
        known_ns = [self._node.step_ns(target.pid) for target in asked]
        elapsed_ns = now_ns - self._measuring_ns
        for target, step_ns in zip(
            asked, plan.step_times(seen_ns, known_ns, elapsed_ns), strict=True
        ):
            target.step_ns = step_ns
        pollers = [self._node.poller(target.pid) for target in asked if target.how == KINETO]
        polls = [(p.polled_ns, p.period_ns) for p in pollers if p is not None]
        ready_ns = plan.ready_ns(polls, now_ns, _MARGIN_NS)
        progress = [
            (t.progress, t.step_ns)
            for t in asked
            if t.how == KINETO and t.progress is not None and t.progress.last_steps > 0
        ]
        # One that does not answer, though it has done steps, is asked for those of the others.
        silent = [
            t
            for t in asked
            if t.how == KINETO and t.progress is None and self._node.steps(t.pid) is not None
        ]
        counts = bool(progress) and len(progress) + len(silent) == len(asked)
        if self.request.agrees:
            # When the decision comes, a whole period may be left until the next poll.
            late = [(now_ns - period_ns, period_ns) for _, period_ns in polls]
            needs_ns = plan.ready_ns(late, now_ns, _MARGIN_NS) - now_ns if polls else 0
            self.proposal = Proposal(
                max(p.last_steps for p, _ in progress) if counts else None,
                min(target.step_ns for target in asked),
                needs_ns if counts or not polls else needs_ns + _BEFORE_SPAN_NS,
            )
            self.phase = AGREEING
            self._agree_until_ns = now_ns + _AGREE_PATIENCE_NS
            return
        window = (
            Steps(plan.first_step(progress, ready_ns), self._calls())
            if counts
            else self._span(asked, ready_ns - now_ns + _BEFORE_SPAN_NS if polls else 0)
        )
        self._hand_out(asked, window, now_ns)

    def _calls(self) -> int:
        """Kineto counts calls of optimizers, and a step may have several."""
        known = [
            (target.progress.last_steps, self._node.steps(target.pid) or 0)
            for target in self.targets
            if target.how == KINETO and target.progress is not None
        ]
        return plan.calls_of(self.request.steps, known)

    def _wait_for_decision(self, now_ns: int) -> None:
        self._ask_again(now_ns)
        if now_ns >= self._agree_until_ns:
            for target in self.targets:
                target.fail("the collector named no first step")
            self.phase = RUNNING

    def _hand_out(self, asked: list[Target], window: Steps | Span, now_ns: int) -> None:
        self.window = window
        self._handed_out_ns = now_ns
        for target in asked:
            target.advanced_ns = now_ns
            if target.how == KINETO:
                target.recorded_steps = self._node.steps(target.pid)
                self._hand(target, window)
            elif isinstance(window, Span):
                self._xspaces.ask(target, window, self.staging.folder)
            else:
                target.fail("it counts no steps, and the nodes agreed on one")

    def _span(self, asked: list[Target], until_ns: int) -> Span:
        """A time on the wall clock, as long as the steps last if that is known."""
        known_ns = [ns for target in asked if (ns := self._node.step_ns(target.pid)) is not None]
        # One more: a time begins in the midst of a step.
        steps_ns = max(known_ns, default=0) * (self.request.steps + 1)
        duration_ns = steps_ns or int(self.request.seconds * _SECOND_NS)
        duration_ns = min(duration_ns, int(self.request.patience_s / 2 * _SECOND_NS))
        start_ns = time.time_ns() + max(until_ns, _SECOND_NS // 2)
        return Span(start_ns // 1_000_000, max(1, duration_ns // 1_000_000))

    def _hand(self, target: Target, window: Steps | Span) -> None:
        poller = self._node.poller(target.pid)
        own_pid = poller.own_pid if poller else target.pid
        asked_for = self.staging.folder / f"{target.title}.json"
        target.file = Path(file_of(asked_for, own_pid))
        target.state = WAITING

        def write() -> str:
            now = _not_past(window)
            return trace_configuration(asked_for, now, self.request.options, self.number)

        def handed(_: int) -> None:
            target.state = TRACING
            target.handed_ns = time.monotonic_ns()
            target.advanced_ns = max(target.advanced_ns, target.handed_ns)

        if not self._node.hand(target.pid, Pending(write, handed)):
            target.fail("busy: another capture of it is under way; try again when it is done")

    def _take_back(self, target: Target) -> None:
        """Only what is ours: another capture's request may wait for the same process."""
        if target.state == WAITING:
            self._node.take_back(target.pid)

    def _follow(self, now_ns: int) -> None:
        is_late = now_ns - self._began_ns > self.request.patience_s * _SECOND_NS
        asks = now_ns - self._followed_ns >= _FOLLOW_NS
        if asks:
            self._followed_ns = now_ns
            self._look_for_life(now_ns)
        for target in self.targets:
            if target.has_ended:
                continue
            assert target.file is not None
            if self.staging.has(target.file, self._uid) and (
                target.how == KINETO or target.start_ns is not None
            ):
                target.state = DONE
                continue
            if asks or (target.steps_with_request is None and target.has_request(now_ns)):
                self._ask_facts(target)
            if target.how == XSPACE:
                self._xspaces.follow(target, self._peers(), now_ns)
            reason = self._why_not(target, now_ns)
            if reason is None and is_late:
                reason = f"no trace after {self.request.patience_s:g} s"
                reason += self._meanwhile(target, now_ns)
            if reason is not None:
                self._take_back(target)
                if target.how == XSPACE:
                    self._xspaces.tell_enough(target)
                target.fail(reason + self._disk())

    def _why_not(self, target: Target, now_ns: int) -> str | None:
        """A reason to wait no longer."""
        if target.file is not None and target.file.is_symlink():
            return "refused: it put a link where its trace should be"
        poller = self._node.poller(target.pid)
        if target.state == WAITING and now_ns - self._handed_out_ns > _POLL_PATIENCE_NS:
            silent_ns = now_ns - poller.polled_ns if poller else now_ns - self._handed_out_ns
            if silent_ns > _POLL_PATIENCE_NS:
                return f"it has not polled for {silent_ns / 1e9:.0f} s"
            if poller is not None and not poller.accepts:
                return "busy: a trace is running in it already"
        how = "it has done no step"
        if isinstance(self.window, Steps) and target.progress is not None:
            steps = target.progress.last_steps
        elif isinstance(self.window, Steps):
            steps = self._node.steps(target.pid) or 0
            how = "its GIL is held, or its threads are stopped, and it has done no step"
            if steps != target.recorded_steps:
                target.recorded_steps, target.advanced_ns = steps, now_ns
        elif target.how == XSPACE and target.recorded_last is not None and not target.is_enough:
            steps = target.recorded_last
        else:
            return None
        limit_ns = max(_STUCK_NS, _STUCK_STEPS * target.step_ns)
        if now_ns - max(target.advanced_ns, self._lively_ns) > limit_ns:
            still_ns = now_ns - target.advanced_ns
            return f"hung: {how} for {still_ns / 1e9:.0f} s (step {steps})"
        return None

    def _look_for_life(self, now_ns: int) -> None:
        """Phases of one of them end: it evaluates, say, and the others wait for it."""
        for target in self.targets:
            phases_ns = None if target.has_ended else self._node.phases_ns(target.pid)
            if phases_ns not in (None, target.phases_ns):
                target.phases_ns, self._lively_ns = phases_ns, now_ns

    def _meanwhile(self, target: Target, now_ns: int) -> str:
        still_ns = now_ns - target.advanced_ns
        if not isinstance(self.window, Steps) or still_ns < _STUCK_NS:
            return ""
        return (
            f": it has done no step for {still_ns / 1e9:.0f} s, but it goes on, or another"
            " that it may wait for (an evaluation, a checkpoint?); wait longer with --timeout"
        )

    def _still(self) -> list[Target]:
        """Traced by time, without a step meanwhile: it may hang, though its trace says nothing."""
        if not isinstance(self.window, Span):
            return []
        return [
            target
            for target in self.targets
            if target.state == DONE
            and self._node.is_alive(target.pid)
            and self._node.steps(target.pid) == target.recorded_steps
        ]

    def _peers(self) -> list[Target]:
        return [one for one in self.targets if one.how == XSPACE and not one.has_ended]

    def _disk(self) -> str:
        free = free_bytes(self.staging.folder)
        if free >= LEAST_FREE_BYTES:
            return ""
        return f"; {self.staging.folder} is full ({free >> 20} MiB free)"


def _not_past(window: Steps | Span) -> Steps | Span:
    """For a process that polls late: Kineto does not begin at a time that has passed."""
    if isinstance(window, Steps):
        return window
    earliest_ms = time.time_ns() // 1_000_000 + _KINETO_NOTICE_MS
    return Span(max(window.start_ms, earliest_ms), window.duration_ms)
