"""What `pilotlight doctor` says of this node, asked now and then by a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence

from pilotlight.runtime import runtime

FIRST_NS = 20_000_000_000
"""An agent that lives for a short job only does not pay for it."""
AGAIN_NS = 3_600_000_000_000
_LONGEST_S = 120
_MOST_CHECKS = 64
_LONGEST_TEXT = 500
_STATES = ("ok", "limited", "broken")

Check = dict[str, str]


class Checkup:
    """Checks open drivers, which may take long or memory: never in the agent itself."""

    def __init__(self, now_ns: int, words: Sequence[str] = ()) -> None:
        self._words = tuple(words) or (sys.executable, "-m", "pilotlight", "doctor", "--json")
        self._due_ns = now_ns + FIRST_NS
        self._thread: threading.Thread | None = None
        self._doctor: subprocess.Popen[bytes] | None = None
        self._found: list[Check] | None = None

    def tick(self, now_ns: int) -> None:
        if now_ns < self._due_ns or (self._thread is not None and self._thread.is_alive()):
            return
        self._due_ns = now_ns + AGAIN_NS
        self._thread = threading.Thread(target=self._ask, name="checkup", daemon=True)
        self._thread.start()

    def take(self) -> list[Check] | None:
        """What is new, once."""
        found, self._found = self._found, None
        return found

    def _ask(self) -> None:
        env = {**os.environ, "PILOTLIGHT": "0", "PILOTLIGHT_RUNTIME_DIR": str(runtime().folder)}
        words = ["nice", *self._words]
        null, pipe = subprocess.DEVNULL, subprocess.PIPE
        try:
            with subprocess.Popen(words, env=env, stdin=null, stdout=pipe, stderr=null) as doctor:
                self._doctor = doctor
                try:
                    output, _ = doctor.communicate(timeout=_LONGEST_S)
                finally:
                    doctor.kill()
            self._found = checks_of(output)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            fix = "on that node: pilotlight doctor"
            self._found = [_check("doctor", "limited", f"it did not answer: {error}", fix)]

    def close(self) -> None:
        """The doctor does not outlive the agent that asked it."""
        if self._doctor is not None:
            self._doctor.kill()


def checks_of(output: bytes) -> list[Check]:
    """ValueError: this is not what the doctor prints."""
    content = json.loads(output)
    rows = content.get("checks") if isinstance(content, dict) else None
    if not isinstance(rows, list):
        raise ValueError("no list of checks")
    found = []
    for row in rows[:_MOST_CHECKS]:
        if not isinstance(row, dict) or row.get("state") not in _STATES:
            raise ValueError("a check without a state")
        words = (str(row.get(key, "")) for key in ("what", "state", "detail", "fix"))
        found.append(_check(*words))
    # The environment is that of the agent, which never records itself: it says nothing of jobs.
    return [check for check in found if check["what"] != "environment"]


def _check(what: str, state: str, detail: str, fix: str) -> Check:
    cut = _LONGEST_TEXT
    return {"what": what[:200], "state": state, "detail": detail[:cut], "fix": fix[:cut]}
