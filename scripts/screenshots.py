"""Takes pictures of every page into docs/screens, from a simulated fleet and a simulated trace.

`--every FOLDER [PATTERN]`: of every page in every state, theme and width, to look at; only those
whose names match.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from pilotlight.analysis import Analysis, analyze
from pilotlight.collector.app import make_app
from pilotlight.insights.catalogue import diagnose
from pilotlight.insights.job import job_of
from pilotlight.simulate.fault import parse_fault
from pilotlight.simulate.job import JobShape
from pilotlight.simulate.run import simulate
from pilotlight.web.library import Library
from pilotlight.web.opened import OpenTrace
from pilotlight.web.viewer import bound_socket, viewer_app

ROOT = Path(__file__).resolve().parent.parent
SCREENS = ROOT / "docs" / "screens"
REAL = ROOT.parent / "shared" / "data" / "kineto" / "qwen_h100.json.gz"
MOST_BYTES = 300_000


def main() -> int:
    node, chromium = shutil.which("node"), shutil.which("chromium")
    if node is None or chromium is None:
        print("node and chromium are needed to take pictures: nothing done")
        return 0
    every = sys.argv[2:] if sys.argv[1:2] == ["--every"] else []
    folder_out = Path(every[0]) if every else SCREENS
    folder_out.mkdir(exist_ok=True)
    fleet = _module(ROOT / "scripts" / "showcase.py")
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="pilotlight-screens-"))
        collector = stack.enter_context(fleet.filled_collector(Path(folder) / "store"))
        addresses = [_served(make_app(collector)), _served(viewer_app(_library()))]
        if every:
            addresses.insert(1, stack.enter_context(_empty(Path(folder) / "empty")))
        script = "every_screen.mjs" if every else "screens.mjs"
        words = [node, str(ROOT / "ui" / "test" / script), *addresses, str(folder_out), *every[1:]]
        environment = {**os.environ, "PILOTLIGHT_CHROMIUM": chromium}
        subprocess.run(words, check=True, env=environment, timeout=3600)
    if every:
        return 0
    for picture in sorted(SCREENS.glob("*.png")):
        print(f"{picture.relative_to(ROOT)}  {picture.stat().st_size / 1000:.0f} kB")
    return int(any(p.stat().st_size > MOST_BYTES for p in SCREENS.glob("*.png")))


def _library() -> Library:
    shape = JobShape(ranks=8, steps=8, layers=8)
    job = job_of(simulate(shape, [parse_fault("storage:rank=5,x=1.4", shape)]))
    library = Library()
    library.keep(OpenTrace("0", "llama-8b-sft", Analysis(job, diagnose(job), ())))
    # The roofline needs shapes, which only real traces have.
    if REAL.exists():
        library.keep(OpenTrace("1", REAL.name, analyze(REAL)))
    return library


def _served(app: ASGIApp) -> str:
    bound = bound_socket(0)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False))
    threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True).start()
    return f"http://127.0.0.1:{bound.getsockname()[1]}/"


@contextmanager
def _empty(store: Path) -> Iterator[str]:
    """A collector that nobody has sent anything to; a process has one store."""
    words = [sys.executable, "-m", "pilotlight", "serve", "--json", "--port", "0", "--store"]
    with subprocess.Popen([*words, str(store)], stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        yield json.loads(serving.stdout.readline())["url"] + "/"
        serving.terminate()


def _module(path: Path):  # type: ignore[no-untyped-def]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


if __name__ == "__main__":
    sys.exit(main())
