"""XSpaces of JAX processes: begun at one time, ended when all have the steps."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from pilotlight.capture.node import Node
from pilotlight.capture.request import TRACING, CaptureRequest
from pilotlight.capture.target import Target
from pilotlight.kineto.config import Span

_SECOND_NS = 1_000_000_000
_ENOUGH_PATIENCE_NS = 3 * _SECOND_NS
# Until the steps that were done before a session began have been read from the ring.
_READ_NS = 300_000_000


class XSpaces:
    """Of one capture on one node."""

    def __init__(self, node: Node, request: CaptureRequest) -> None:
        self._node = node
        self._request = request
        self._start_ns = 0

    def ask(self, target: Target, window: Span, folder: Path) -> None:
        target.file = folder / f"{target.title}.xplane.pb"
        target.state, target.handed_ns = TRACING, time.monotonic_ns()
        self._start_ns = window.start_ms * 1_000_000
        duration_ns = window.duration_ms * 1_000_000
        if self._node.steps(target.pid) is not None:
            # It is told when to end; this is only so that it ends if nobody does.
            duration_ns = int(self._request.patience_s * _SECOND_NS)
        wait_ns = self._start_ns - time.time_ns() + duration_ns

        def answered(answer: Mapping[str, object]) -> None:
            start_ns = answer.get("start_ns")
            target.start_ns = start_ns if type(start_ns) is int else None
            if "error" in answer:
                target.fail(f"its profiler said: {answer['error']}")

        errand = {
            "do": "xspace",
            "file": str(target.file),
            "start_ns": self._start_ns,
            "duration_ns": duration_ns,
            "stacks": self._request.options.stacks,
        }
        patience_ns = int(self._request.patience_s * _SECOND_NS)
        self._node.ask(target.pid, errand, wait_ns + patience_ns, answered)

    def follow(self, target: Target, peers: Sequence[Target], now_ns: int) -> None:
        """Ends it when all have done the steps that were asked for, and the one they were in
        before."""
        if target.is_enough or time.time_ns() < self._start_ns:
            return
        for peer in peers:
            if peer.recorded_steps is None and _has_begun(peer, now_ns):
                peer.recorded_steps = self._node.steps(peer.pid)
        steps = self._node.steps(target.pid)
        if steps != target.recorded_last:
            target.recorded_last, target.advanced_ns = steps, now_ns
        if all(self._has_enough(peer) for peer in peers):
            self.tell_enough(target)

    def tell_enough(self, target: Target) -> None:
        target.is_enough = True
        errand = {"do": "xspace_enough", "file": str(target.file)}
        self._node.ask(target.pid, errand, _ENOUGH_PATIENCE_NS, lambda _: None)

    def _has_enough(self, target: Target) -> bool:
        steps = self._node.steps(target.pid)
        if steps is None or target.recorded_steps is None:
            return False
        return steps - target.recorded_steps > self._request.steps


def _has_begun(target: Target, now_ns: int) -> bool:
    """A busy process begins its session late; steps until then are in no trace."""
    if target.begun_ns is None and Path(f"{target.file}.part").exists():
        target.begun_ns = now_ns
    return target.begun_ns is not None and now_ns - target.begun_ns >= _READ_NS
