"""When the XSpace of a process has all the steps that were asked for."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from pilotlight.capture.plan import Candidate
from pilotlight.capture.request import CaptureRequest
from pilotlight.capture.target import XSPACE, Target
from pilotlight.capture.xspace import XSpaces
from pilotlight.kineto.config import Span

SECOND_NS = 1_000_000_000


class Stepping:
    """The agent, as far as it is asked: how many steps were read, and what it passes on."""

    def __init__(self) -> None:
        self.read = 100
        self.asked: list[str] = []

    def steps(self, pid: int) -> int:
        return self.read

    def ask(self, pid: int, errand: dict[str, Any], *_: Any) -> None:
        self.asked.append(errand["do"])


def test_steps_from_before_the_session_began_are_not_counted(tmp_path: Path) -> None:
    node: Any = Stepping()
    xspaces = XSpaces(node, CaptureRequest(job=None, pid=7, steps=3))
    target = Target(Candidate(7, None, None, "main"), how=XSPACE)
    xspaces.ask(target, Span(time.time_ns() // 1_000_000 - 1, 100), tmp_path)
    now_ns = SECOND_NS
    xspaces.follow(target, [target], now_ns)
    node.read = 110  # done while the process got round to its session
    xspaces.follow(target, [target], now_ns)
    assert node.asked == ["xspace"]
    (tmp_path / "pid7.xplane.pb.part").touch()
    xspaces.follow(target, [target], now_ns)
    node.read = 120  # done before it began, and read since
    xspaces.follow(target, [target], now_ns + SECOND_NS)
    node.read = 123
    xspaces.follow(target, [target], now_ns + SECOND_NS)
    assert node.asked == ["xspace"]
    node.read = 124
    xspaces.follow(target, [target], now_ns + SECOND_NS)
    assert node.asked == ["xspace", "xspace_enough"]
