"""The verbs as a user calls them, in this process."""

from __future__ import annotations

import argparse
import json
import pickle
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from pilotlight.analysis import analyze
from pilotlight.cli.analyze import Analyze
from pilotlight.cli.convert import Convert
from pilotlight.cli.diff import Diff
from pilotlight.cli.hang import Hang
from pilotlight.cli.simulate import Simulate
from pilotlight.cli.whatif import Whatif
from pilotlight.errors import UsageError
from pilotlight.simulate.fault import Fault
from pilotlight.simulate.job import JobShape
from pilotlight.simulate.run import simulate, step_us
from pilotlight.trace.kineto_writer import write_kineto

SHAPE = JobShape(ranks=4, steps=5, layers=3)


def run(verb: Any, *arguments: object) -> int:
    parser = argparse.ArgumentParser()
    verb.arguments(parser)
    code: int = verb.run(parser.parse_args([str(argument) for argument in arguments]))
    return code


@pytest.fixture
def job_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    folder.mkdir()
    for trace in simulate(SHAPE, (Fault("loader", factor=1.5),)):
        write_kineto(trace, folder / f"rank{trace.rank}.json.gz")
    return folder


def test_analyze_says_what_is_wrong_and_what_to_do(
    job_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(Analyze(), job_folder) == 0
    text = capsys.readouterr().out
    assert "1. The device waits for the data loader" in text
    assert "more loader workers" in text
    assert "Not checked" in text


def test_analyze_goes_on_after_a_bad_file_and_exits_with_2(
    job_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (job_folder / "rank9.json").write_text("nonsense")
    assert run(Analyze(), job_folder, "--json") == 2
    out, err = capsys.readouterr()
    assert len(json.loads(out)["ranks"]) == 4
    assert err.count("\n") == 1 and "rank9.json: byte 0: " in err


def test_analyze_writes_a_page_that_escapes_names(tmp_path: Path) -> None:
    event = {"ph": "X", "cat": "kernel", "name": "<script>", "pid": 0, "tid": 7, "ts": 1, "dur": 2}
    copy = {**event, "cat": "gpu_memcpy", "name": "Memcpy <b>", "ts": 10, "dur": 900}
    (tmp_path / "a.json").write_text(json.dumps([event, copy]))
    assert run(Analyze(), tmp_path / "a.json", "--html", tmp_path / "a.html") == 0
    page = (tmp_path / "a.html").read_text()
    assert "Memcpy \\u003cb\\u003e" in page and "Memcpy <b>" not in page


def test_diff_fails_on_a_step_that_grew(
    job_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clean = tmp_path / "clean"
    clean.mkdir()
    for trace in simulate(SHAPE):
        write_kineto(trace, clean / f"rank{trace.rank}.json.gz")
    assert run(Diff(), clean, job_folder, "--fail-if", "step_time>3%", "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["failed"] == ["step_time"]
    assert run(Diff(), job_folder, clean, "--fail-if", "step_time>3%") == 0


def test_whatif_prices_the_loader(job_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Whatif(), job_folder, "--remove", "loader", "--json") == 0
    assert 0.2 < json.loads(capsys.readouterr().out)["gain_ratio"] < 0.4


def test_whatif_gains_what_the_finding_of_analyze_says(
    job_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(Analyze(), job_folder, "--json") == 0
    finding = json.loads(capsys.readouterr().out)["findings"][0]
    assert run(Whatif(), job_folder, "--remove", "loader", "--json") == 0
    gain = json.loads(capsys.readouterr().out)["gain_ratio"]
    assert (finding["rule"], finding["gain_high_ratio"]) == ("A08", pytest.approx(gain))
    assert run(Whatif(), job_folder, "--remove", "loader") == 0
    told = capsys.readouterr().out
    assert (
        "(4 steps, without the first; 4 ranks, from the earliest begin to the latest end)" in told
    )


def test_whatif_says_what_the_trace_has_nothing_of(
    job_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(Whatif(), job_folder, "--remove", "gc", "--remove", "loader") == 0
    notes = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note")]
    assert notes == ["note        --remove gc: none of it in the trace"]


def test_whatif_takes_the_gpu_that_the_trace_does_not_name(
    job_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(Whatif(), job_folder, "--gpu", "V100-SXM2-32GB:H100-SXM", "--json") == 0
    faster = json.loads(capsys.readouterr().out)["gain_ratio"]
    assert run(Whatif(), job_folder, "--gpu", "H100-SXM:V100-SXM2-32GB", "--json") == 0
    assert json.loads(capsys.readouterr().out)["gain_ratio"] < 0 < faster


@pytest.mark.parametrize(
    "arguments", [[], ["--remove", "magic"], ["--gpu", "Abacus"], ["--gpu", "Abacus:H100-SXM"]]
)
def test_whatif_refuses_what_it_cannot_change(job_folder: Path, arguments: list[str]) -> None:
    with pytest.raises(UsageError):
        run(Whatif(), job_folder, *arguments)


def test_convert_writes_ranks_into_a_folder(job_folder: Path, tmp_path: Path) -> None:
    assert run(Convert(), job_folder, tmp_path / "out") == 0
    assert len(list((tmp_path / "out").iterdir())) == 4
    with pytest.raises(UsageError, match="need a folder"):
        run(Convert(), job_folder, tmp_path / "out.json")


def test_hang_exits_with_2_for_a_dump_that_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "_dump_0").write_bytes(pickle.dumps({1, 2}))
    assert run(Hang(), tmp_path) == 2
    assert "more than plain data" in capsys.readouterr().err


@pytest.mark.skipif(sys.version_info < (3, 11), reason="TOML needs Python 3.11")
def test_simulate_writes_the_ranks_and_tells_the_truth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.toml").write_text("ranks = 3\nsteps = 3\nlayers = 3\n")
    arguments = [tmp_path / "job.toml", "-o", tmp_path / "out", "--fault", "slow_gpu:rank=1,x=1.5"]
    assert run(Simulate(), *arguments, "--json") == 0
    truth = json.loads(capsys.readouterr().out)
    assert truth["step_us"] > 1.2 * truth["step_without_faults_us"]
    assert len(list((tmp_path / "out").glob("rank*.json.gz"))) == 3
    assert "slow rank 1 1.5" in (tmp_path / "out" / "job.schedule").read_text()


@pytest.mark.parametrize("columns", [60, 80, 160])
def test_a_narrow_terminal_cuts_names_and_never_numbers(
    job_folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    columns: int,
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert run(Diff(), job_folder, job_folder) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    rows = [line for line in lines if "nvjet" in line or "step_time" in line]
    assert rows and all(re.search(r"\d ms +\d+\.\d+ ms +[+-]\d+\.\d %", row) for row in rows)


def test_findings_fit_a_narrow_terminal_and_tell_times_from_the_begin_of_the_trace(
    job_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert run(Analyze(), job_folder) == 0
    lines = capsys.readouterr().out.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("1. "))
    shown = lines[first + 1 : lines.index("", first)]
    assert max(map(len, shown)) <= 60
    assert {line[:3] for line in shown} == {"   "}
    times = re.findall(
        r"rank \d, (\d+\.\d{3}) ms into its trace", " ".join(" ".join(shown).split())
    )
    traced_ms = SHAPE.steps * step_us(simulate(SHAPE, (Fault("loader", factor=1.5),))) / 1000
    assert times and all(float(text) < 2 * traced_ms for text in times)


def test_a_trace_without_steps_is_said_to_be_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2000}
    (tmp_path / "a.json").write_text(json.dumps([event]))
    assert run(Analyze(), tmp_path / "a.json") == 0
    assert "no steps in the trace: all of it, 2.00 ms, is one" in capsys.readouterr().out
    assert run(Diff(), tmp_path / "a.json", tmp_path / "a.json") == 0
    assert "a side has no steps" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["out.sqlite", "out.xplane.pb", "out.gz", "out.db"])
def test_convert_does_not_make_a_folder_of_a_name_of_another_format(
    job_folder: Path, tmp_path: Path, name: str
) -> None:
    with pytest.raises(UsageError, match=r"is not written; a name that ends with .*\.pftrace"):
        run(Convert(), job_folder, tmp_path / name)
    assert not (tmp_path / name).exists()
    assert run(Convert(), job_folder, tmp_path / name, "--to", "perfetto") == 0
    assert (tmp_path / name).is_file()


def test_a_cause_of_all_ranks_is_said_to_be_one(
    job_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(Analyze(), job_folder, "--json") == 0
    loader = json.loads(capsys.readouterr().out)["findings"][0]
    assert "3 other ranks have it too" in loader["evidence"]


def test_hang_says_that_no_file_is_a_dump(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rank0.json").write_text('{"traceEvents": []}')
    assert run(Hang(), tmp_path) == 2
    out, err = capsys.readouterr()
    assert out == "No dump could be read.\n"
    assert "rank0.json: not a flight-recorder dump: it has no 'entries'" in err


def test_a_gpu_that_the_traces_do_not_name_can_be_told(tmp_path: Path) -> None:
    kernel = {"ph": "X", "cat": "kernel", "name": "ampere_sgemm_128x64_tn", "pid": 0, "tid": 7}
    for name in ("", "Tesla V100-SXM2-16GB"):
        told = {"deviceProperties": [{"id": 0, "name": name}]} if name else {}
        path = tmp_path / "trace.json"
        path.write_text(json.dumps({**told, "traceEvents": [{**kernel, "ts": 0, "dur": 900}]}))
        missing = {row.rule: row.missing for row in analyze(path).diagnosis.not_checked}
        assert ("--gpu NAME" in missing.get("A14", "")) == (not name)
        (finding,) = [f for f in analyze(path, gpu="A100-40-SXM").diagnosis.findings
                      if f.rule == "A14"]  # fmt: skip
        assert finding.evidence[1].startswith("V100-SXM2" if name else "A100-40-SXM")
    with pytest.raises(UsageError, match="which GPU"):
        analyze(path, gpu="Abacus")
