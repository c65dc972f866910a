"""A simulated job opened for the page, a server for a browser, and journeys through it."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import uvicorn
from starlette.types import ASGIApp

from pilotlight.analysis import Analysis
from pilotlight.insights.catalogue import diagnose
from pilotlight.insights.job import job_of
from pilotlight.simulate.fault import parse_fault
from pilotlight.simulate.job import JobShape
from pilotlight.simulate.run import simulate
from pilotlight.trace.trace import Trace
from pilotlight.web.opened import OpenTrace
from pilotlight.web.viewer import bound_socket

UI = Path(__file__).parents[2] / "ui"
SHARED = Path(__file__).parents[2].parent / "shared" / "data"
EVIL = "</script><img src=x onerror=\"globalThis.broken=document.title='broken'\">\u2028<!--${1}"

for _name, _file in (
    ("example", Path(__file__).parents[1] / "recording" / "example.py"),
    ("archived", Path(__file__).parent / "archived.py"),
    ("fleet", Path(__file__).parent / "fleet.py"),
):
    _spec = importlib.util.spec_from_file_location(_name, _file)
    assert _spec is not None and _spec.loader is not None
    if _name not in sys.modules and (_name != "fleet" or importlib.util.find_spec("chdb")):
        sys.modules[_name] = importlib.util.module_from_spec(_spec)
        _spec.loader.exec_module(sys.modules[_name])


def opened(traces: tuple[Trace, ...], title: str = "job") -> OpenTrace:
    job = job_of(traces)
    return OpenTrace("0", title, Analysis(job, diagnose(job), ()))


@pytest.fixture(scope="session")
def traces() -> tuple[Trace, ...]:
    shape = JobShape(ranks=4, steps=6, layers=4)
    return simulate(shape, [parse_fault("storage:rank=2,x=1.6", shape)])


@pytest.fixture
def job(traces: tuple[Trace, ...]) -> OpenTrace:
    return opened(traces)


@pytest.fixture
def evil_job(traces: tuple[Trace, ...]) -> OpenTrace:
    """The same with names that would do harm if anything took them for markup."""
    renamed = tuple(
        replace(trace, names=tuple(f"{name} {EVIL}" for name in trace.names)) for trace in traces
    )
    return opened(renamed, EVIL)


@pytest.fixture
def serve() -> Callable[[ASGIApp], AbstractContextManager[str]]:
    return _served


@pytest.fixture
def shared_data() -> Path:
    if not SHARED.is_dir():
        pytest.skip("the folder of real traces, ../shared/data, is absent")
    return SHARED


@contextmanager
def _served(app: ASGIApp) -> Iterator[str]:
    """The address of the app, on a thread of this process."""
    bound = bound_socket(0)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(10)


Journey = Callable[..., None]
LONGEST_S = 300.0


@pytest.fixture(scope="session")
def browser() -> Iterator[subprocess.Popen[str]]:
    """One Chromium for all journeys: starting it takes longer than most of them."""
    node, chromium = shutil.which("node"), shutil.which("chromium")
    if node is None or chromium is None:
        pytest.skip("node or chromium is not installed")
    if not (UI / "node_modules" / "playwright-core").is_dir():
        pytest.skip("ui/node_modules is absent: npm ci in ui/")
    words = [node, str(UI / "test" / "journeys.mjs")]
    environment = {**os.environ, "PILOTLIGHT_CHROMIUM": chromium}
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def journey(browser: subprocess.Popen[str]) -> Journey:
    """Runs a script of ui/test in Chromium; its assertions are the test's. `on_told` hears what
    the script says on its way."""

    def run(
        name: str, address: str, *options: str, on_told: Callable[[str], None] | None = None
    ) -> None:
        assert browser.stdin is not None and browser.stdout is not None
        question = {"name": name, "address": address, "options": options}
        print(json.dumps(question), file=browser.stdin, flush=True)
        watch = threading.Timer(LONGEST_S, browser.kill)
        watch.start()
        try:
            while line := browser.stdout.readline():
                answer = json.loads(line)
                if "faults" in answer:
                    assert not answer["faults"], "\n".join(answer["faults"])
                    return
                if on_told is not None:
                    on_told(answer["told"])
        finally:
            watch.cancel()
        pytest.fail(f"the browser ended, or took longer than {LONGEST_S:.0f} s")

    return run
