"""Which versions of torch are made to ask the agent for traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilotlight.probe.tracing import ask_for_traces, is_safe


def torch_of(folder: Path, version: str) -> str:
    (folder / "version.py").write_text(f"debug = False\n__version__ = '{version}'\n")
    return str(folder / "__init__.py")


@pytest.mark.parametrize(
    ("version", "safe"),
    [
        ("2.13.0+cpu", True),
        ("2.10.0", True),
        ("2.10.1+cu130", True),
        ("3.0.0a0+git123", True),
        ("2.10.0.dev20250901", False),
        ("2.10.0a0+nv25.10", False),
        ("2.9.1", False),
        ("2.8.0+cu128", False),
        ("1.13.1", False),
        ("", False),
        ("unknown", False),
    ],
)
def test_only_versions_without_the_race_ask(version: str, safe: bool) -> None:
    assert is_safe(version) is safe


def test_a_new_torch_is_told_where_to_ask_and_to_keep_quiet(tmp_path: Path) -> None:
    environment = {"PILOTLIGHT_KINETO_DIR": "/run/k"}
    ask_for_traces(environment, torch_of(tmp_path, "2.13.0"))
    assert environment["KINETO_USE_DAEMON"] == "1"
    assert environment["KINETO_IPC_SOCKET_DIR"] == "/run/k"
    assert environment["KINETO_LOG_LEVEL"] == "4"


def test_a_level_that_the_user_chose_stays(tmp_path: Path) -> None:
    environment = {"PILOTLIGHT_KINETO_DIR": "/run/k", "KINETO_LOG_LEVEL": "0"}
    ask_for_traces(environment, torch_of(tmp_path, "2.13.0"))
    assert environment["KINETO_LOG_LEVEL"] == "0"


def test_an_older_torch_below_a_newer_one_does_not_ask(tmp_path: Path) -> None:
    environment = {"PILOTLIGHT_KINETO_DIR": "/run/k"}
    ask_for_traces(environment, torch_of(tmp_path, "2.13.0"))
    ask_for_traces(environment, torch_of(tmp_path, "2.8.0+cu128"))
    assert "KINETO_USE_DAEMON" not in environment
    assert "KINETO_IPC_SOCKET_DIR" not in environment


def test_a_daemon_of_the_users_is_left_alone(tmp_path: Path) -> None:
    environment = {"KINETO_USE_DAEMON": "1"}
    ask_for_traces(environment, torch_of(tmp_path, "2.8.0"))
    assert environment == {"KINETO_USE_DAEMON": "1"}


def test_a_torch_without_a_version_does_not_ask(tmp_path: Path) -> None:
    environment = {"PILOTLIGHT_KINETO_DIR": "/run/k"}
    ask_for_traces(environment, str(tmp_path / "__init__.py"))
    assert "KINETO_USE_DAEMON" not in environment
