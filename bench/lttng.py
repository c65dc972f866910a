"""An LTTng session of our own, for the time of a measurement."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

SESSION = "pilotlight-bench"
PATIENCE_SECONDS = 10


@contextmanager
def session(event: str) -> Iterator[dict[str, str] | None]:
    """Records `event` into a snapshot buffer that overwrites itself, LTTng's cheapest mode.

    Gives the environment to run the traced program in; None where LTTng is not installed.
    """
    if shutil.which("lttng") is None or shutil.which("lttng-sessiond") is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "LTTNG_HOME": home}
        # As root the daemon's place is the same for all; one that runs already is used as it is.
        daemon = None if _answers(environment) else _start_daemon(environment)
        try:
            for command in (
                ["create", SESSION, "--snapshot"],
                ["enable-channel", "-u", "-s", SESSION, "--overwrite", "--subbuf-size=1M",
                 "--num-subbuf=4", "channel"],
                ["enable-event", "-u", "-s", SESSION, "-c", "channel", event],
                ["start", SESSION],
            ):  # fmt: skip
                subprocess.run(
                    ["lttng", *command], env=environment, check=True, capture_output=True
                )
            yield environment
        finally:
            subprocess.run(["lttng", "destroy", SESSION], env=environment, capture_output=True)
            if daemon is not None:
                daemon.terminate()
                daemon.wait()


def _answers(environment: dict[str, str]) -> bool:
    listing = ["lttng", "--no-sessiond", "list"]
    return subprocess.run(listing, env=environment, capture_output=True).returncode == 0


def _start_daemon(environment: dict[str, str]) -> subprocess.Popen[bytes]:
    daemon = subprocess.Popen(
        ["lttng-sessiond", "--no-kernel"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + PATIENCE_SECONDS
    while not _answers(environment):
        if daemon.poll() is not None or time.monotonic() > until:
            daemon.terminate()
            raise SystemExit("lttng-sessiond does not start")
        time.sleep(0.05)
    return daemon
