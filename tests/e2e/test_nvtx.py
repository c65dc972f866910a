"""NVTX ranges of C and Python programs, by the injection library, up to the recording."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pilotlight.recording.schema import SpanKind
from pilotlight.report.provider_losses import provider_losses_of

from .programs import LIBRARIES, compiled, nvidia_headers, record, rows

LIBRARY = str(LIBRARIES / "libpilotlight_nvtx.so")
INJECTED = {"NVTX_INJECTION64_PATH": LIBRARY}


@pytest.fixture(scope="module")
def program() -> Path:
    return compiled("nvtx/program.c", f"-I{nvidia_headers('nvtx3/nvToolsExt.h')}")


def test_our_idea_of_nvtx_is_that_of_nvidias_headers() -> None:
    compiled("nvtx/layout.cpp", "-std=c++17", f"-I{nvidia_headers('nvtx3/nvToolsExt.h')}")


def test_every_kind_of_call_of_a_c_program_is_recorded(world: Path, program: Path) -> None:
    recording, said = record(world, [str(program)], {})
    assert said == "depths 0 1 1 -1\n"
    spans = {str(row["name"]): row for row in rows(recording, "spans")}
    assert {row["kind"] for row in spans.values()} == {SpanKind.NVTX}
    assert {row["flags"] for row in spans.values()} == {0}
    assert spans.keys() == {
        *("outer", "inner é 漢", "one/load [io]", "one/crossing", "two/crossed", "started"),
        *("one/started in one", "(no name)", "x" * 1024),
    }
    assert int(str(spans["inner é 漢"]["duration_ns"])) >= 2_000_000
    marks = {str(row["name"]): row["value"] for row in rows(recording, "marks") if row["kind"] == 1}
    assert marks == {"a mark": 2, "plain mark": 0, "(no name)": 0}
    counters = {str(row["name"]): row["value"] for row in rows(recording, "counters")}
    assert counters == {"one/load [io]": -42.0, "a mark": 2.5}
    assert "the main one" in recording.names.texts


def test_ranges_of_two_domains_need_not_nest(world: Path, program: Path) -> None:
    recording, _ = record(world, [str(program)], {})
    spans = {str(row["name"]): row for row in rows(recording, "spans")}
    first, second = (
        (int(str(row["start_ns"])), int(str(row["start_ns"])) + int(str(row["duration_ns"])))
        for row in (spans["one/crossing"], spans["two/crossed"])
    )
    assert first[0] < second[0] < first[1] < second[1]


def test_a_range_may_end_on_another_thread(world: Path, program: Path) -> None:
    recording, _ = record(world, [str(program)], {})
    spans = {str(row["name"]): row for row in rows(recording, "spans")}
    assert spans["started"]["thread"] != spans["outer"]["thread"]


def test_a_python_program_needs_no_change(world: Path) -> None:
    pytest.importorskip("nvtx")
    code = """
import nvtx, threading
@nvtx.annotate("decorated", domain="train", category="compute")
def f(): pass
f(); f()
with nvtx.annotate("forward", payload=7): pass
nvtx.push_range("pushed"); nvtx.pop_range()
nvtx.end_range(nvtx.start_range("started"))
nvtx.mark("marked")
domain = nvtx.get_domain("fast")
attributes = domain.get_event_attributes(message="loop")
for _ in range(1000):
    domain.push_range(attributes); domain.pop_range()
def work():
    with nvtx.annotate("in a thread"): pass
thread = threading.Thread(target=work); thread.start(); thread.join()
"""
    recording, _ = record(world, [sys.executable, "-c", code], {})
    spans = [row for row in rows(recording, "spans") if row["kind"] == SpanKind.NVTX]
    count = {name: sum(row["name"] == name for row in spans) for name in {r["name"] for r in spans}}
    assert count.pop("fast/loop") == 1000 and count.pop("train/decorated [compute]") == 2
    assert count == dict.fromkeys(("forward", "pushed", "started", "in a thread"), 1)
    assert [row["name"] for row in rows(recording, "marks") if row["kind"] == 1] == ["marked"]
    assert len(recording.processes) == 1


def test_a_program_ends_with_the_last_of_its_threads_not_of_ours(
    world: Path, program: Path
) -> None:
    recording, _ = record(world, [str(program), "leave"], {})
    assert "after main" in {row["name"] for row in rows(recording, "spans")}


def test_too_many_names_and_ranges_are_counted_and_hurt_nobody(world: Path, program: Path) -> None:
    recording, _ = record(world, [str(program), "many", "100000"], {})
    lost = [row["value"] for row in rows(recording, "counters") if row["name"] == "nvtx/lost"]
    # The domain has a handle too; 300 ranges in a stack of 256; 5000 started, of which 4096 fit.
    names = 100_000 + 1 - (1 << 16)
    assert lost[-1] == names + (300 - 256) + (5000 - 4096)
    (shown,) = provider_losses_of(recording)
    assert shown.losses == {"nvtx/lost": lost[-1]}
    spans = [row for row in rows(recording, "spans") if row["name"] == "deep"]
    assert len(spans) == 256 and {row["flags"] for row in spans} == {0}


def test_a_tool_that_was_there_first_gets_its_own_handles(world: Path, program: Path) -> None:
    tool = compiled("nvtx/tool.c", "-shared", "-fPIC", f"-I{nvidia_headers('nvtx3/nvToolsExt.h')}")
    chained = {"NVTX_INJECTION64_PATH": str(tool)}
    recording, said = record(world, [str(program)], chained)
    assert said.splitlines() == [
        "depths 0 1 1 -1",
        "tool create one",
        "tool register load",
        "tool push registered load",
        "tool start started",
        "tool end 123456",
        "tool end 0",
        "tool resource",
        "tool lock",
    ]
    assert "one/load [io]" in {row["name"] for row in rows(recording, "spans")}


def test_without_an_agent_the_program_runs_all_the_same(program: Path, world: Path) -> None:
    environment = {**os.environ, **INJECTED, "PILOTLIGHT_RUNTIME_DIR": str(world / "nowhere")}
    ended = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=30)
    assert (ended.returncode, ended.stdout) == (0, "depths 0 1 1 -1\n")
