"""A collector as a process of its own, and a client for it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")


class RunningCollector:
    """Starts, kills and asks a collector on a port of its own choice."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.url = ""
        self.process: subprocess.Popen[str] | None = None

    def start(self, *arguments: str, port: int = 0) -> None:
        words = [sys.executable, "-m", "pilotlight", "serve", "--json", "--store", str(self.store)]
        self.process = subprocess.Popen(
            [*words, "--port", str(port), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PILOTLIGHT": "0"},
        )
        assert self.process.stdout is not None
        # The engine may have something to say first, for example of a machine without cgroups.
        said: list[str] = []
        for line in iter(self.process.stdout.readline, ""):
            said.append(line)
            if line.startswith("{"):
                break
        assert said and line.startswith("{"), "".join(said)
        self.url = json.loads(line)["url"]

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def stop(self) -> int:
        assert self.process is not None and self.process.stdout is not None
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self.process.stdout.close()
        return code

    def get(self, path: str, token: str = "") -> Any:
        return json.loads(self.ask("GET", path, None, token)[1])

    def ask(
        self, method: str, path: str, body: bytes | None = None, token: str = ""
    ) -> tuple[int, bytes]:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(self.url + path, body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return int(answer.status), answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()


def until(condition: Callable[[], Any], timeout_s: float = 30.0) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (result := condition()):
        assert time.monotonic() < deadline, "never became true"
        time.sleep(0.05)
    return result


@contextmanager
def program(*words: str) -> Iterator[None]:
    running = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        running.kill()
        running.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def get(url: str) -> Any:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.loads(answer.read())
    except OSError:
        return None


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningCollector]:
    collector = RunningCollector(tmp_path / "store")
    collector.start()
    yield collector
    if collector.process is not None and collector.process.poll() is None:
        collector.stop()
