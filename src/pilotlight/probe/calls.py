"""The calls that a program may make; see pilotlight.__doc__."""

from __future__ import annotations

from pilotlight._probe import counter, step

__all__ = ["counter", "start", "step"]


def start() -> None:
    """Starts the probe in this process. Never raises; if it fails, `pilotlight doctor` says why."""
    from pilotlight.probe.activate import activate

    activate()
