"""What all tests share: nothing of theirs touches the user's own agent or recordings."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Examples are the same in every run of a commit and may take as long as a loaded machine makes
# them; what explores is `make fuzz`.
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")

RunPilotlight = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(autouse=True)
def _own_world(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A runtime and a data folder of the test's own; short, since socket paths are."""
    for name in [name for name in os.environ if name.startswith("PILOTLIGHT")]:
        monkeypatch.delenv(name)
    with tempfile.TemporaryDirectory(prefix="pl-", ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("PILOTLIGHT_RUNTIME_DIR", f"{folder}/run")
        monkeypatch.setenv("PILOTLIGHT_DATA_DIR", f"{folder}/data")
        yield Path(folder)


@pytest.fixture
def world(_own_world: Path) -> Path:
    """The folder with `run` and `data` in it."""
    return _own_world


@pytest.fixture
def pilotlight_cli() -> RunPilotlight:
    """Runs the real command line in a process of its own."""

    def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
        settings: dict[str, object] = {"capture_output": True, "text": True, "timeout": 120}
        settings.update(options)
        return subprocess.run([sys.executable, "-m", "pilotlight", *arguments], **settings)  # type: ignore[call-overload, no-any-return]

    return run
