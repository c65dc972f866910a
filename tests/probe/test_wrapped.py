"""What adapters put around functions is safe at any time."""

from __future__ import annotations

import subprocess
import sys

_ALL = """
from pilotlight import _probe
assert not _probe.status()["started"]
assert not _probe.enter_phase(0)
_probe.leave_phase(0)
makers = [
    lambda f: _probe.phase_call(f, print, 0), lambda f: _probe.phase_call(f, print, 2),
    lambda f: _probe.optimizer_call(f, print), lambda f: _probe.step_call(f, print),
    lambda f: _probe.function_call(f, print), lambda f: _probe.method_call(f, print),
    lambda f: _probe.enter_call(f, print), lambda f: _probe.exit_call(f, print),
    lambda f: _probe.label_call(f, print, bool),
    lambda f: _probe.module_call(f, print, bool, bool, bool),
]
print([make(len)("four") for make in makers])
"""


def test_every_wrapper_passes_the_call_on_where_no_probe_was_started() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ALL], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{[4] * 10}\n"
