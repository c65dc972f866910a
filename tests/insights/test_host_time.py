"""Traces without device activity: how the hosts spent their time."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pilotlight.analysis import analyze
from pilotlight.cli.analyze import Analyze
from pilotlight.cli.diff import Diff
from pilotlight.cli.main import main
from pilotlight.errors import UsageError


def event(name: str, start: float, length: float, category: str = "cpu_op") -> dict[str, Any]:
    where = {"ph": "X", "cat": category, "pid": 1, "tid": 1}
    return {**where, "name": name, "ts": start, "dur": length}


def host_trace(path: Path, steps: int = 4, loader_us: float = 500.0) -> Path:
    """Steps of 1,000 µs: a loader, a product within a linear layer, and Python."""
    events = []
    for step in range(steps):
        at = 1000.0 * step
        events += [
            event(f"ProfilerStep#{step}", at, 1000, "user_annotation"),
            event("enumerate(DataLoader)#_Single.__next__", at, loader_us, "user_annotation"),
            event("aten::linear", at + 600, 300),
            event("aten::addmm", at + 650, 200),
        ]
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def test_the_time_of_a_host_is_divided_without_a_rest(tmp_path: Path) -> None:
    (row,) = analyze(host_trace(tmp_path / "trace.json")).table("hosts")
    assert row["window_ns"] == 4_000_000 and row["steps"] == 4 and row["step_ns"] == 1e6
    assert row["parts_ns"]["loader"] == 2_000_000
    assert row["operators_ns"] == 1_200_000
    assert row["rest_ns"] == 800_000


def test_operators_have_their_own_time_apart_from_what_they_call(tmp_path: Path) -> None:
    rows = analyze(host_trace(tmp_path / "trace.json")).table("host_operators")
    own = {row["operator"]: (row["count"], row["total_ns"], row["self_ns"]) for row in rows}
    assert own == {
        "aten::addmm": (4, 800_000, 800_000),
        "aten::linear": (4, 1_200_000, 400_000),
    }


def test_a_trace_without_operators_shows_its_spans(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As tracers of Python functions write them: 300 µs, of which 200 in another function."""
    path = tmp_path / "trace.json"
    events = [event("train (a.py:1)", 0, 300, "FEE"), event("load (a.py:9)", 50, 200, "FEE")]
    path.write_text(json.dumps({"traceEvents": events}))
    rows = analyze(path).table("host_operators")
    assert [(row["operator"], row["self_ns"]) for row in rows] == [
        ("load (a.py:9)", 200_000),
        ("train (a.py:1)", 100_000),
    ]
    assert main(["analyze", str(path)]) == 0
    assert "spans by their own time" in capsys.readouterr().out


def test_a_loader_is_found_in_few_steps(tmp_path: Path) -> None:
    found = analyze(host_trace(tmp_path / "trace.json")).diagnosis
    assert [finding.cause for finding in found.findings] == ["loader"]
    quick = analyze(host_trace(tmp_path / "quick.json", loader_us=5.0)).diagnosis
    assert quick.findings == ()


def test_rules_about_devices_say_that_there_is_none(tmp_path: Path) -> None:
    found = analyze(host_trace(tmp_path / "trace.json")).diagnosis
    missing = {row.rule: row.missing for row in found.not_checked}
    assert missing["A01"] == missing["A13"] == "no device activity in the traces"
    assert "A08" not in missing


def shown(capsys: pytest.CaptureFixture[str], *paths: Path) -> str:
    verb = Analyze()
    parser = argparse.ArgumentParser()
    verb.arguments(parser)
    verb.run(parser.parse_args([str(path) for path in paths]))
    return capsys.readouterr().out


def test_the_terminal_shows_hosts_and_groups_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(capsys, host_trace(tmp_path / "trace.json"))
    assert "aten::addmm" in text and "50.0 %" in text
    assert text.count("no device activity in the traces") == 1


def test_nothing_is_listed_as_not_checked_if_no_file_could_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "trace.json").write_text("{}")
    text = shown(capsys, tmp_path / "trace.json")
    assert text.strip() == "No trace could be read."


def test_the_first_line_says_what_holds_the_hosts_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["analyze", str(host_trace(tmp_path / "trace.json"))]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("Step 1.00 ms, no device activity: the job waits for its data loader")
    assert main(["analyze", str(host_trace(tmp_path / "other.json", loader_us=1.0))]) == 0
    assert "only the host can be looked at" in capsys.readouterr().out.splitlines()[0]


def test_what_python_does_between_operators_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = []
    for step in range(4):
        at = 1000.0 * step
        sent = f"<built-in method send of _socket.socket object at 0x7f0{step}>"
        events += [
            event(f"ProfilerStep#{step}", at, 1000, "user_annotation"),
            event("train.py(7): main", at, 1000, "python_function"),
            event("<built-in function sleep>", at, 400, "python_function"),
            event(sent, at + 400, 100, "python_function"),
            event("<built-in method linear>", at + 600, 310, "python_function"),
            event("aten::linear", at + 600, 300),
        ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    rows = analyze(path).table("host_functions")
    assert [(row["function"], row["count"], row["self_ns"]) for row in rows] == [
        ("<built-in function sleep> in train.py(7): main", 4, 1_600_000),
        ("train.py(7): main", 4, 760_000),
        ("<built-in method send> in train.py(7): main", 4, 400_000),
        ("<built-in method linear> in train.py(7): main", 4, 40_000),
    ]
    assert main(["analyze", str(path)]) == 0
    assert "40.0 %  <built-in function sleep> in train.py(7): main" in capsys.readouterr().out


def compared(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    verb = Diff()
    parser = argparse.ArgumentParser()
    verb.arguments(parser)
    code = verb.run(parser.parse_args([*map(str, arguments), "--json"]))
    return code, json.loads(capsys.readouterr().out)


def test_two_hosts_are_compared_by_their_parts_and_operators(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = host_trace(tmp_path / "before.json", steps=6)
    after = host_trace(tmp_path / "after.json", steps=6, loader_us=100.0)
    code, found = compared(capsys, before, after, "--fail-if", "step_time>3%")
    assert code == 0
    parts = {row["what"]: (row["before_ns"], row["after_ns"]) for row in found["parts"]}
    assert parts["step_time"] == (1e6, 1e6)
    assert parts["loader"] == (500_000, 100_000)
    assert parts["operators"] == (300_000, 300_000)
    assert parts["Python and waiting"] == (200_000, 600_000)
    operators = {row["what"]: row["before_ns"] for row in found["operators"]}
    assert operators == {"aten::addmm": 200_000, "aten::linear": 100_000}


def jittered_trace(path: Path, seed: int, addmm_us: float) -> Path:
    """Steps of 1,000 µs with an operator of about a length and nine that vary more."""
    random = np.random.default_rng(seed)
    events = []
    for step in range(12):
        at = 1000.0 * step
        events += [
            event(f"ProfilerStep#{step}", at, 1000, "user_annotation"),
            event("aten::addmm", at, addmm_us + float(random.uniform(0, 5))),
        ]
        for place in range(9):
            length = float(random.uniform(5, 50))
            events.append(event(f"aten::other{place}", at + 400 + 60 * place, length))
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def test_operators_that_differ_by_chance_are_said_to_in_one_run_of_twenty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def really_changed(seed: int, after_us: float) -> list[str]:
        before = jittered_trace(tmp_path / "before.json", seed, 200)
        after = jittered_trace(tmp_path / "after.json", seed + 1, after_us)
        _, found = compared(capsys, before, after)
        return [row["what"] for row in found["operators"] if not row["is_noise"]]

    assert sum(bool(really_changed(seed, 200)) for seed in range(0, 40, 2)) <= 3
    assert "aten::addmm" in really_changed(40, 250)


def test_a_limit_on_devices_cannot_be_checked_without_them(tmp_path: Path) -> None:
    trace = host_trace(tmp_path / "trace.json")
    verb = Diff()
    parser = argparse.ArgumentParser()
    verb.arguments(parser)
    with pytest.raises(UsageError, match="not without device activity"):
        verb.run(parser.parse_args([str(trace), str(trace), "--fail-if", "idle>3%"]))
