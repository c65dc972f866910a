from __future__ import annotations

import ast
import io
import json
import pickle
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import RunPilotlight

from pilotlight.cli import terminal
from pilotlight.cli.main import main
from pilotlight.printable import one_line, printable

HOSTILE = "evil\x1b]0;owned\x07\x1b[2J\x9b31m[/bold][red]:smile:\u202e\r\n1. forged finding"
SOURCE = Path(terminal.__file__).parents[1]


def _is_harmful(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") and character not in "\n\t"


@given(st.text(st.characters(codec=None)))
def test_text_made_printable_has_no_control_and_can_be_encoded(text: str) -> None:
    shown = printable(text)
    assert not any(map(_is_harmful, shown))
    shown.encode("utf-8")
    assert "\n" not in one_line(text)


def test_harmless_text_stays_as_it_is() -> None:
    assert printable("aten::mm [3, 4] ü 漢 👍\n") == "aten::mm [3, 4] ü 漢 👍\n"


def test_harmful_characters_are_shown_as_a_program_would_write_them() -> None:
    assert printable("\x1b[2J\u202e\udc80") == r"\x1b[2J\u202e\udc80"


def test_a_console_passes_neither_sequences_nor_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    from rich.table import Table

    table = Table(HOSTILE)
    table.add_row(HOSTILE)
    drawn = terminal.console(file_columns=400)
    drawn.print(table)
    drawn.print(HOSTILE)
    assert not any(map(_is_harmful, out.getvalue()))
    assert "[/bold][red]:smile:" in out.getvalue()


def test_what_is_printed_within_a_verb_is_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.printable_streams():
        print(HOSTILE)
        print(HOSTILE, file=sys.stderr)
    out, err = capsys.readouterr()
    assert not any(map(_is_harmful, out + err))


def test_an_output_that_is_full_is_told_in_one_line(pilotlight_cli: RunPilotlight) -> None:
    with Path("/dev/full").open("w") as full:
        done = pilotlight_cli("doctor", capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (1, "pilotlight doctor: No space left on device\n")


def test_only_one_place_makes_consoles() -> None:
    """Others would let sequences in names through, and lose what looks like markup."""
    makers = {
        file.relative_to(SOURCE).as_posix()
        for file in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("Console", "PrintableConsole")
    }
    assert makers == {"cli/terminal.py"}


def _event(name: str, start: int, duration: int, category: str, **more: Any) -> dict[str, Any]:
    lane = {"pid": 0, "tid": HOSTILE}
    return {"ph": "X", "name": name, "cat": category, "ts": start, "dur": duration, **lane, **more}


@pytest.fixture
def hostile_trace(tmp_path: Path) -> Path:
    """A rank whose every name is hostile, slow enough for findings."""
    events = []
    for step in range(6):
        begin = step * 10_000
        events.append(_event(f"ProfilerStep#{step}", begin, 10_000, "user_annotation"))
        for place in range(40):
            at, number = begin + place * 200, 1 + step * 40 + place
            call = {"args": {"correlation": number, "grid": [64, 1, 1], "block": [128, 1, 1]}}
            events.append(_event("cudaLaunchKernel", at, 5, "cuda_runtime", **call))
            events.append(_event(f"gemm_{HOSTILE}", at + 20, 30 + place, "kernel", **call))
    events.append({"ph": "X", "name": HOSTILE, "ts": 5, "dur": -1, "pid": 0, "tid": 0})
    file = tmp_path / "hostile\x1b[2J.json"
    file.write_text(json.dumps({"traceEvents": events, "deviceProperties": [{"name": HOSTILE}]}))
    return file


@pytest.fixture
def hostile_dumps(tmp_path: Path) -> Path:
    folder = tmp_path / "dumps"
    folder.mkdir()
    for rank in range(2):
        entry = {
            "record_id": 0, "pg_id": 0, "process_group": ("0", HOSTILE), "collective_seq_id": 1,
            "p2p_seq_id": 0, "op_id": 1, "profiling_name": HOSTILE, "state": "scheduled",
            "input_sizes": [[4]], "output_sizes": [[4]], "input_dtypes": ["Float"],
            "output_dtypes": ["Float"],
            "frames": [{"name": HOSTILE, "filename": HOSTILE, "line": 1}],
        }  # fmt: skip
        dump = {
            "version": "2.9", "entries": [entry] * (1 - rank),
            "pg_config": {"0": {"name": "0", "desc": HOSTILE, "ranks": "[0, 1]"}},
            "pg_status": {"0": {"last_enqueued_collective": 1 - rank,
                                "last_started_collective": 1 - rank,
                                "last_completed_collective": 0}},
        }  # fmt: skip
        (folder / f"_dump_{rank}").write_bytes(pickle.dumps(dump))
    return folder


@pytest.mark.parametrize("verb", ["analyze", "diff", "whatif", "roofline", "convert", "hang"])
def test_no_verb_obeys_the_names_in_its_input(
    verb: str,
    hostile_trace: Path,
    hostile_dumps: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    trace = str(hostile_trace)
    arguments = {
        "analyze": [trace],
        "diff": [trace, trace],
        "whatif": [trace, "--kernel", "gemm=0.5x"],
        "roofline": [trace, "--gpu", "H100-SXM"],
        "convert": [trace, str(tmp_path / "out.json")],
        "hang": [str(hostile_dumps)],
    }[verb]
    code = main([verb, *arguments])
    out, err = capsys.readouterr()
    assert code in (0, 2), err
    assert out and not any(map(_is_harmful, out + err))
    assert not any(line.startswith("1. forged") for line in (out + err).splitlines())
