"""The errors that pilotlight raises on purpose.

PilotlightError            anything below; the command line prints it as one line
├── UsageError             the call makes no sense; exit code 2
├── FormatError            a file, segment or message is not what it should be; exit code 2
├── NotFound               no such recording, job or process; exit code 3
├── AgentError             no agent, or it refused
├── StoreError             the collector's store cannot be opened or refused
├── CollectorError         no collector, or it refused
└── NativeMissing          the compiled part is absent or does not fit this Python
"""

from __future__ import annotations


class PilotlightError(Exception):
    """A message for people: what happened and what to do."""

    exit_code = 1


class UsageError(PilotlightError):
    exit_code = 2


class FormatError(PilotlightError):
    exit_code = 2


class NotFound(PilotlightError):
    exit_code = 3


class AgentError(PilotlightError):
    pass


class StoreError(PilotlightError):
    pass


class CollectorError(PilotlightError):
    pass


class NativeMissing(PilotlightError):
    pass
