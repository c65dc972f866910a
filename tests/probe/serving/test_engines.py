"""Inference engines, on stand-ins with the call shapes and metrics of vLLM and SGLang."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import RunPilotlight

from pilotlight.probe.serving.batch import kind_of
from pilotlight.probe.serving.endpoint import port_of, values_of
from pilotlight.recording.recording import Recording

VLLM = {
    "vllm/__init__.py": "__version__ = '0.0.stand-in'\n",
    "vllm/v1/__init__.py": "",
    "vllm/v1/core/__init__.py": "",
    "vllm/v1/core/sched/__init__.py": "",
    "vllm/v1/engine/__init__.py": "",
    "vllm/v1/core/sched/scheduler.py": """
from types import SimpleNamespace
class Scheduler:
    def __init__(self):
        self.waiting, self.round = [1, 2, 3], 0
    def schedule(self):
        self.round += 1
        if self.round == 1:
            return SimpleNamespace(num_scheduled_tokens={"a": 100, "b": 50},
                                   scheduled_new_reqs=["a", "b"])
        if self.round == 2:
            return SimpleNamespace(num_scheduled_tokens={"a": 1, "b": 1, "c": 70},
                                   scheduled_new_reqs=["c"])
        return SimpleNamespace(num_scheduled_tokens={"a": 1, "b": 1, "c": 1}, scheduled_new_reqs=[])
""",
    "vllm/v1/engine/core.py": """
import time
from vllm.v1.core.sched.scheduler import Scheduler
class EngineCore:
    def __init__(self):
        self.scheduler = Scheduler()
    def step(self):
        self.scheduler.schedule()
        time.sleep(0.005)
        return {}, True
""",
    "serve.py": """
import http.server, sys, threading, time
TEXT = b'''# HELP vllm:num_requests_running x
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting{engine="0",model_name="m"} 7.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:other 1
'''
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(TEXT)
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.argv += ["--port", str(server.server_address[1])]
import pilotlight.probe.serving.endpoint as endpoint
endpoint._EVERY_S = 0.2
from vllm.v1.engine.core import EngineCore
engine = EngineCore()
for _ in range(10): assert engine.step() == ({}, True)
time.sleep(0.6)
""",
}
SGLANG = {
    "sglang/__init__.py": "",
    "sglang/srt/__init__.py": "",
    "sglang/srt/managers/__init__.py": "",
    "sglang/srt/managers/scheduler.py": """
class Scheduler:
    waiting_queue = [1]
    def run_batch(self, batch):
        return batch
""",
    "run.py": """
from types import SimpleNamespace
from sglang.srt.managers.scheduler import Scheduler
scheduler = Scheduler()
def batch(decode, idle=False):
    mode = SimpleNamespace(
        is_decode=lambda: decode, is_mixed=lambda: False, is_idle=lambda: idle)
    return SimpleNamespace(forward_mode=mode, reqs=[1, 2], extend_num_tokens=64)
for number in range(6):
    one = batch(number > 1)
    assert scheduler.run_batch(one) is one
    scheduler.run_batch(batch(False, idle=True))
""",
}


def recorded(cli: RunPilotlight, folder: Path, files: dict[str, str], program: str) -> Recording:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    place = folder / "recording"
    done = cli("run", "-q", "-o", str(place), "--", sys.executable, str(folder / program))
    assert done.returncode == 0, done.stderr
    return Recording.open(place)


def texts(recording: Recording, table: str) -> list[str]:
    rows = recording.detail(table)
    found = recording.names.find(rows["process"], rows["name"])
    return [recording.names.texts[int(number)] for number in found]


def values(recording: Recording, name: str) -> list[float]:
    rows = recording.detail("counters")
    named = zip(texts(recording, "counters"), rows["value"].tolist(), strict=True)
    return [value for text, value in named if text == name]


def test_an_engine_like_vllm_is_told_by_steps_batches_and_metrics(
    pilotlight_cli: RunPilotlight, tmp_path: Path
) -> None:
    recording = recorded(pilotlight_cli, tmp_path, VLLM, "serve.py")
    assert recording.detail("steps")["step"].tolist() == list(range(9))
    kinds = [text for text in texts(recording, "spans") if text in ("prefill", "decode")]
    assert (kinds.count("prefill"), kinds.count("decode")) == (1, 8)
    assert "prefill and decode" in texts(recording, "spans")
    assert values(recording, "serving.batch") == [2, *[3] * 9]
    assert values(recording, "serving.tokens")[:2] == [150, 72]
    assert set(values(recording, "serving.queue")) == {3}
    assert (values(recording, "serving.running")[0], values(recording, "serving.waiting")[0]) == (
        3,
        7,
    )
    assert values(recording, "serving.kv_ratio")[0] == 0.25


def test_a_scheduler_like_sglangs_is_told_by_its_batches(
    pilotlight_cli: RunPilotlight, tmp_path: Path
) -> None:
    recording = recorded(pilotlight_cli, tmp_path, SGLANG, "run.py")
    assert recording.detail("steps")["step"].tolist() == list(range(5))
    kinds = [text for text in texts(recording, "spans") if text in ("prefill", "decode")]
    assert (kinds.count("prefill"), kinds.count("decode")) == (2, 4)
    assert values(recording, "serving.tokens") == [64, 64, 2, 2, 2, 2]


@pytest.mark.parametrize(
    ("arguments", "port"),
    [
        (["vllm", "serve", "m"], 8000),
        (["vllm", "serve", "m", "--port", "9000"], 9000),
        (["api_server.py", "--port=9001"], 9001),
        (["api_server.py", "--port"], None),
        (["api_server.py", "--port", "x"], None),
        (["train.py", "--port", "9000"], None),
    ],
)
def test_the_port_is_a_servers_own(arguments: list[str], port: int | None) -> None:
    assert port_of(arguments, 8000) == port


def test_several_engines_are_added_up_and_their_cache_use_is_the_mean() -> None:
    text = 'sglang:num_queue_reqs{a="0"} 1\nsglang:num_queue_reqs{a="1"} 2 1700000000\n'
    text += 'sglang:token_usage 0.5\nsglang:token_usage{a="}"} 0.1\nsglang:token_usage NaN\n'
    assert values_of(text) == {"serving.waiting": 3.0, "serving.kv_ratio": 0.3}


@given(st.text())
def test_any_answer_of_a_server_is_survived(text: str) -> None:
    assert isinstance(values_of(f"vllm:num_requests_running{text}"), dict)


@pytest.mark.parametrize(
    ("tokens", "new", "kind"),
    [
        ([1, 1], 0, "decode"),
        ([5], 0, "decode"),
        ([9], 1, "prefill"),
        ([3], 1, "prefill"),
        ([1, 9], 1, "prefill and decode"),
        ([512], 0, "prefill"),
        ([512, 1], 0, "prefill and decode"),
    ],
)
def test_what_a_batch_is_follows_from_its_tokens(tokens: list[int], new: int, kind: str) -> None:
    assert kind_of(tokens, new) == kind
