"""SIGTERM and SIGINT as something that a selector can wait for."""

from __future__ import annotations

import signal
import socket


class Signals:
    """`fileno` becomes readable when the agent is told to go."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._theirs.setblocking(False)
        signal.set_wakeup_fd(self._theirs.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: None)
        # The terminal of whoever started us is not our business.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def fileno(self) -> int:
        return self._ours.fileno()

    def close(self) -> None:
        signal.set_wakeup_fd(-1)
        self._ours.close()
        self._theirs.close()
