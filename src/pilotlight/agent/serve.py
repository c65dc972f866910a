"""Runs an agent from its lock to its last trace."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from pilotlight.agent.lock import AgentLock
from pilotlight.agent.settings import Settings
from pilotlight.errors import NativeMissing
from pilotlight.runtime import Runtime, prepare


def serve(settings: Settings, place: Runtime, announce: Callable[[], None]) -> None:
    """Returns when the agent was told to go or ended itself; `announce` is called when it listens.

    AgentError: another agent runs, or the runtime folder cannot be used.
    """
    try:
        from pilotlight.agent.service import Service
    except ImportError as error:
        raise NativeMissing(
            f"the native part cannot be loaded ({error}); install pilotlight for this Python"
        ) from None
    prepare(place)
    with AgentLock(place):
        service = Service(settings, place)
        announce()
        service.run()
    if settings.memory_folder is not None:
        # Of use to others only while something lies in it.
        with contextlib.suppress(OSError):
            settings.memory_folder.rmdir()
    if settings.ends_itself:
        with contextlib.suppress(OSError):
            _remove_folder(place)


def _remove_folder(place: Runtime) -> None:
    """Leaves nothing behind, unless a job goes on or somebody put something else there."""
    if not place.jobs.exists():
        place.log.unlink(missing_ok=True)
        if not any(place.folder.iterdir()):
            place.folder.rmdir()
