"""Recordings of a real agent whose disk is full, small, or taken away."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from producer import Producer
from running import RunningAgent, until

from pilotlight.agent.clocks import Clocks
from pilotlight.agent.jobs import Jobs
from pilotlight.agent.recorder import Recorder, Taken
from pilotlight.agent.settings import Settings
from pilotlight.agent.sums import merge_sums
from pilotlight.agent.tables import Tables, packed, rows
from pilotlight.recording.manifest import AgentFacts, ClockPair, Manifest, read_manifest
from pilotlight.recording.recording import Recording
from pilotlight.recording.schema import GapReason
from pilotlight.report.report import report_of
from pilotlight.runtime import Runtime

SECOND = 1_000_000_000


def joined(agent: RunningAgent) -> Producer:
    producer = Producer()
    producer.connect(agent.place.probe_socket)
    producer.answer()
    return producer


def flush(agent: RunningAgent) -> None:
    with agent.client() as client:
        client.ask("flush", job="job")


def test_a_disk_that_takes_nothing_loses_counted_rows_and_never_stops_the_draining(
    agent: RunningAgent,
) -> None:
    producer = joined(agent)
    for number in range(100):
        producer.counter(number)
    flush(agent)
    resource.prlimit(agent.pid, resource.RLIMIT_FSIZE, (16, resource.RLIM_INFINITY))
    for number in range(100, 200):
        producer.counter(number)
    until(lambda: agent.status()["jobs"][0]["rows_dropped"] >= 100)
    until(lambda: producer.tail == producer.head)
    assert any("File too large" in error for error in agent.status()["jobs"][0]["errors"])
    resource.prlimit(
        agent.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    )
    for number in range(200, 300):
        producer.counter(number)
    flush(agent)
    recording = agent.recording()
    expected = [*range(100), *range(200, 300)]
    assert sorted(recording.detail("counters")["value"].tolist()) == expected
    gaps = recording.detail("gaps")
    assert gaps["reason"].tolist() == [GapReason.OVER_BUDGET]
    # Counters of the machine were dropped too, if a second ended meanwhile: counted, without a gap.
    assert gaps["count"].sum() == 100 <= recording.manifest.lost.rows_dropped
    assert recording.manifest.lost.write_errors
    assert recording.warnings == []
    producer.close()


def test_the_budget_drops_the_oldest_chunks_first_and_says_so(place: Runtime) -> None:
    agent = RunningAgent(place)
    agent.start("--budget", "1MB")
    producer = joined(agent)
    number = 0

    def is_dropping() -> bool:
        nonlocal number
        for _ in range(1000):
            producer.counter(float(int.from_bytes(os.urandom(6), "little")))
            number += 1
        return bool(agent.status()["jobs"][0]["chunks_dropped"] > 3)

    until(is_dropping, 60)
    flush(agent)
    status = agent.status()
    assert status["agent"]["disk_bytes"] <= 1 << 20
    recording = agent.recording()
    assert recording.manifest.lost.chunks_dropped == status["jobs"][0]["chunks_dropped"] > 3
    assert recording.manifest.first_chunk == int(recording.chunks[0].name) > 1
    assert 0 < recording.detail("counters").rows < number
    assert recording.warnings == []
    producer.close()
    agent.stop()


def test_losses_are_told_as_long_as_the_sums_that_lack_them(place: Runtime) -> None:
    agent = RunningAgent(place)
    agent.start("--budget", "1MB")
    producer = joined(agent)
    for lost in (3, 5):
        producer.put64(576, lost)
        producer.counter(lost)
        flush(agent)
    # Those of the first chunk are gone with it, these are in the last.
    until(lambda: _fills_chunks(agent, producer), 60)
    producer.put64(576, 12)
    producer.counter(12)
    flush(agent)
    recording = agent.recording()
    assert recording.detail("gaps")["count"].sum() == 7
    assert recording.gaps["count"].sum() == 12
    assert recording.gaps["reason"].tolist() == [GapReason.NO_RING] * recording.gaps.rows
    assert report_of(recording).losses.records_dropped == 12
    producer.close()
    agent.stop()


def _fills_chunks(agent: RunningAgent, producer: Producer) -> bool:
    for _ in range(1000):
        producer.counter(float(int.from_bytes(os.urandom(6), "little")))
    return bool(agent.status()["jobs"][0]["chunks_dropped"] > 3)


def test_a_folder_taken_away_comes_back_and_what_was_in_it_is_counted(
    agent: RunningAgent,
) -> None:
    producer = joined(agent)
    producer.counter(1)
    flush(agent)
    folder = agent.recordings()[0]
    shutil.rmtree(folder)
    until((folder / "manifest.json").exists)
    producer.counter(2)
    flush(agent)
    recording = agent.recording()
    assert recording.detail("counters")["value"].tolist() == [2]
    assert recording.manifest.lost.chunks_dropped == 1
    assert [process.start.process for process in recording.processes] == [0]
    producer.close()


def test_a_data_folder_that_cannot_be_made_refuses_the_job_and_goes_on(
    place: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PILOTLIGHT_DATA_DIR", "/proc/nowhere")
    agent = RunningAgent(place)
    agent.start_with(Settings())
    producer = Producer()
    producer.connect(agent.place.probe_socket)
    assert producer.link is not None and producer.link.recv(64) == b""
    problems = agent.status()["agent"]["problems"]
    assert any("/proc/nowhere" in problem for problem in problems)
    producer.close()
    agent.stop()


def manifest() -> Manifest:
    agent = AgentFacts(pid=1, version="1")
    return Manifest("job", "node", "boot", 0, (), agent, (ClockPair(0, 0),), 1 << 20)


def counters(first: int, count: int) -> Tables:
    rows = [(0, 1, 1, time_ns, 0) for time_ns in range(first, first + count)]
    total, columns = packed("marks", [(p, t, n, 1, time, v) for p, t, n, time, v in rows])
    return {"marks": (total, columns)}


def sums(count: int) -> Tables:
    return {"windows": packed("windows", [(0, 0, 1, 0, 7, count, count * 5, 5, 5)])}


def taken(first: int, count: int) -> Taken:
    return Taken(0, "s" * 32, counters(first, count), sums(count), {"rings": {"0": [first]}})


def recorder(folder: Path) -> Recorder:
    return Recorder(folder, manifest(), lambda: False)


def commit(one: Recorder, handed: Taken, now_ns: int = SECOND) -> None:
    one.begin_commit(now_ns, 1 << 20)
    one.commit([handed], now_ns)


def test_an_agent_killed_between_two_commits_leaves_sums_that_the_next_one_finds(
    tmp_path: Path,
) -> None:
    first = recorder(tmp_path)
    commit(first, taken(0, 3))
    first.write_windows(SECOND, 1 << 20)
    commit(first, taken(3, 4))
    second = recorder(tmp_path)
    assert second.take_over() == {"s" * 32: {"rings": {"0": [3]}}}
    commit(second, taken(7, 5), 2 * SECOND)
    second.close()
    second.write_manifest(manifest().agent, manifest().clocks)
    recording = Recording.open(tmp_path)
    assert sorted(recording.detail("marks")["time_ns"].tolist()) == list(range(12))
    assert int(recording.windows("windows")["count"].sum()) == 12
    assert not (tmp_path / "windows.spool").exists()


def test_sums_whose_detail_was_not_committed_are_not_taken_over(tmp_path: Path) -> None:
    """Killed between the spool and the journal: the ring still has these records."""
    first = recorder(tmp_path)
    commit(first, taken(0, 3))
    first.windows.add(2, [sums(100)])
    second = recorder(tmp_path)
    second.take_over()
    second.close()
    second.write_manifest(manifest().agent, manifest().clocks)
    assert int(Recording.open(tmp_path).windows("windows")["count"].sum()) == 3


def test_such_sums_are_not_found_either_when_the_next_agent_is_killed_before_it_has_any(
    tmp_path: Path,
) -> None:
    """Its commits have the same numbers, and the first of them may hold no sums at all."""
    first = recorder(tmp_path)
    commit(first, taken(0, 3))
    first.windows.add(2, [sums(100)])
    second = recorder(tmp_path)
    second.take_over()
    commit(second, replace(taken(3, 1), windows={}), 2 * SECOND)
    third = recorder(tmp_path)
    third.take_over()
    commit(third, taken(4, 5), 3 * SECOND)
    third.close()
    third.write_manifest(manifest().agent, manifest().clocks)
    assert int(Recording.open(tmp_path).windows("windows")["count"].sum()) == 8


def test_positions_too_long_for_one_line_are_split_over_commits(tmp_path: Path) -> None:
    one = recorder(tmp_path)
    one.begin_commit(SECOND, 1 << 20)
    long = {"rings": {"0": ["x" * 400_000]}}
    everybody = [Taken(at, f"{at:032x}", counters(at, 1), {}, long) for at in range(4)]
    one.commit(everybody, SECOND)
    one.close()
    one.write_manifest(manifest().agent, manifest().clocks)
    assert list(one.errors) == []
    assert Recording.open(tmp_path).detail("marks").rows == 4
    assert len(recorder(tmp_path).take_over()) == 4


def test_a_chunk_is_rotated_by_age_and_starts_with_everything(tmp_path: Path) -> None:
    one = recorder(tmp_path)
    assert one.begin_commit(0, 1 << 30) is True
    one.commit([taken(0, 1)], 0)
    assert one.begin_commit(29 * SECOND, 1 << 30) is False
    one.commit([taken(1, 1)], 29 * SECOND)
    assert one.begin_commit(30 * SECOND, 1 << 30) is True
    one.close()
    one.write_manifest(manifest().agent, manifest().clocks)
    assert read_manifest(tmp_path).last_chunk == 2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("may not mount")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_costs_the_oldest_chunks_and_the_budget_shrinks(
    place: Runtime, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PILOTLIGHT_DATA_DIR", str(small_disk))
    agent = RunningAgent(place)
    agent.start("--budget", "2MB")
    producer = joined(agent)

    def is_shrunk() -> bool:
        for _ in range(1000):
            producer.counter(float(int.from_bytes(os.urandom(6), "little")))
        return bool(agent.status()["agent"]["shrunk"])

    until(is_shrunk, 60)
    status = agent.status()
    assert status["agent"]["limit_bytes"] < status["agent"]["budget_bytes"]
    assert status["jobs"][0]["chunks_dropped"] > 0
    assert "detail: No space left on device" in status["jobs"][0]["errors"]
    until(lambda: producer.tail == producer.head)
    producer.counter(-1)
    flush(agent)
    recording = agent.recording()
    assert recording.detail("counters")["value"].tolist()[-1] == -1
    assert recording.detail("gaps")["count"].sum() == recording.manifest.lost.rows_dropped
    producer.close()
    agent.stop()


def test_a_job_that_ends_on_a_full_disk_keeps_its_sums_its_end_and_no_spool(
    small_disk: Path,
) -> None:
    """The disk is full of others' bytes: no chunk of detail is left to drop for room."""
    folder = small_disk / "recording"
    folder.mkdir()
    one = recorder(folder)
    one.begin_commit(0, 1 << 20)
    steps = [(0, 1, number, number * SECOND, SECOND) for number in range(2000)]
    one.commit([Taken(0, "s" * 32, {}, {"steps": packed("steps", steps)}, {})], SECOND)
    with (
        (small_disk / "others").open("wb", buffering=0) as others,
        pytest.raises(OSError, match="No space left"),
    ):
        while True:
            others.write(bytes(4096))
    one.close()
    one.manifest = replace(one.manifest, state="finished", exit_code=3)
    one.write_manifest(manifest().agent, manifest().clocks)
    names = {entry.name for entry in folder.iterdir()}
    assert names & {"windows.spool", "manifest.json.new"} == set()
    assert read_manifest(folder).exit_code == 3
    assert Recording.open(folder).windows("steps").rows == 2000
    held = [
        str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()
    ]
    assert not [path for path in held if path.startswith(str(folder))]


def test_sums_of_times_that_make_no_sense_stop_at_the_greatest_number() -> None:
    most = (1 << 63) - 1
    part = {"windows": packed("windows", [(0, 0, 1, 0, 7, 1, most, 5, most)])}
    (merged,) = merge_sums([part, part])
    (row,) = rows("windows", merged["windows"][1])
    assert (row["count"], row["total_ns"], row["max_ns"]) == (2, most, most)


def test_sums_that_are_given_up_leave_the_spool_too(tmp_path: Path) -> None:
    one = recorder(tmp_path)
    sizes = []
    for number in range(5):
        commit(one, taken(number, 1), number * SECOND)
        one.write_windows((number + 20) * SECOND, -1)
        sizes.append((tmp_path / "windows.spool").stat().st_size)
    assert one.windows.rows_dropped > 0 and max(sizes) == sizes[-1] == 0


def test_detail_of_unattended_jobs_is_dropped_before_nobody_counts_it(tmp_path: Path) -> None:
    facts = AgentFacts(pid=1, version="1")
    jobs = Jobs(Settings(), tmp_path / "jobs.json", Clocks(ClockPair(0, 0)), facts)
    for number in range(66):
        job = jobs.record(f"job{number}", tmp_path / str(number), (), SECOND)
        commit(job.recorder, taken(0, 3))
        jobs.close(job, facts)
    kept = [bool(list((tmp_path / str(n) / "detail").glob("*"))) for n in range(66)]
    assert kept == [False] * 2 + [True] * 64
    assert read_manifest(tmp_path / "0").lost.chunks_dropped == 1
