"""Captures of many ranks, some of which misbehave: a real agent, the real protocols, no torch."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from capture_jobs import agent_pid, left_at_last, left_in_tmp

from pilotlight.client import Client
from pilotlight.runtime import runtime

RANKS_PROGRAM = Path(__file__).with_name("ranks.py")
StartRanks = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def ranks(world: Path) -> Iterator[StartRanks]:
    """Starts an agent and simulated ranks; ends all of them."""
    started: list[subprocess.Popen[str]] = []

    def start(count: int, *faults: str) -> subprocess.Popen[str]:
        place = (str(runtime().kineto_folder), str(runtime().errand_socket))
        for words in (
            [sys.executable, "-m", "pilotlight", "agent", "--json"],
            [sys.executable, str(RANKS_PROGRAM), *place, str(count), *faults],
        ):
            process = subprocess.Popen(
                words, stdout=subprocess.PIPE, text=True, start_new_session=True
            )
            assert process.stdout is not None
            assert process.stdout.readline()
            started.append(process)
        return started[-1]

    yield start
    for process in reversed(started):
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=20)


def capture(folder: Path, *options: str) -> tuple[int, dict[str, Any], str]:
    verb = [sys.executable, "-m", "pilotlight", "capture", "slurm-77", "--json"]
    ended = subprocess.run(
        [*verb, "-o", str(folder), *options], capture_output=True, text=True, timeout=100
    )
    return ended.returncode, json.loads(ended.stdout or "{}"), ended.stderr


def reasons(result: dict[str, Any]) -> dict[int, str]:
    return {
        p["answered"]["rank"]: p["answered"]["reason"]
        for p in result["processes"]
        if p["answered"]["state"] == "failed"
    }


def test_of_64_ranks_each_gives_its_trace_or_a_reason(ranks: StartRanks, world: Path) -> None:
    faults = {3: "die", 9: "busy", 17: "silent", 33: "hang", 40: "profiled", 50: "cut", 60: "link"}
    ranks(64, *(f"{rank}={fault}" for rank, fault in faults.items()))
    agent = agent_pid()
    # Until all have polled, and the silent one has stopped to.
    with Client() as client:
        wait_for(lambda: client.ask("status")["agent"]["kineto"]["pollers"] >= 64)
    code, result, said = capture(world / "capture", "--timeout", "30")
    assert code == 1, said
    found = reasons(result)
    assert "died" in found[3]
    assert "busy" in found[9]
    assert "has not polled" in found[17]
    assert "hung" in found[33]
    assert "torch.profiler of its own" in found[40]
    assert "link" in found[60]
    assert set(found) == {3, 9, 17, 33, 40, 60}
    assert any("rank50" in text for text in result["problems"])
    good = [p for p in result["processes"] if p["answered"]["state"] == "done"]
    assert len(good) == 58
    first = result["first_step"]
    for process in good:
        if process["answered"]["rank"] != 50:
            assert [s["number"] for s in process["steps"]] == [first, first + 1, first + 2]
    assert sorted(path.name for path in (world / "capture").glob("rank*")) == sorted(
        p["file"] for p in good
    )
    assert left_at_last(agent) == []


def test_a_client_that_goes_takes_its_capture_with_it(ranks: StartRanks, world: Path) -> None:
    ranks(2, "0=busy", "1=busy")
    agent = agent_pid()
    with Client() as client:
        wait_for(lambda: client.ask("status")["agent"]["kineto"]["pollers"] >= 2)
    with Client() as client:
        client.ask("capture", job="slurm-77")
        assert len(left_in_tmp(agent)) == 1
    with Client() as client:
        wait_for(lambda: client.ask("status")["agent"]["kineto"]["captures"] == 0)
    assert left_at_last(agent) == []


def test_a_second_capture_of_a_rank_that_is_being_captured_is_told_so(
    ranks: StartRanks, world: Path
) -> None:
    ranks(2)
    with Client() as client:
        wait_for(lambda: client.ask("status")["agent"]["kineto"]["pollers"] >= 2)
        client.ask("capture", job="slurm-77", steps=600)
        while not all(p["state"] == "asked" for p in client.next_line()["processes"]):
            pass
        code, result, said = capture(world / "capture")
    assert code == 1, said
    assert all("another capture of it is under way" in text for text in reasons(result).values())
    assert len(reasons(result)) == 2


def test_others_who_ask_for_the_same_ranks_do_not_disturb_a_capture(
    ranks: StartRanks, world: Path
) -> None:
    ranks(2)
    with Client() as first:
        wait_for(lambda: first.ask("status")["agent"]["kineto"]["pollers"] >= 2)
        first.ask("capture", job="slurm-77", steps=300)
        while first.next_line()["first_step"] is None:
            pass
        with Client() as goes_away:
            goes_away.ask("capture", job="slurm-77")
        code, result, said = capture(world / "capture")
        assert code == 1, said
        assert all("try again" in text for text in reasons(result).values()), result
        while (state := first.next_line())["phase"] != "over":
            pass
    assert [(p["state"], p["reason"]) for p in state["processes"]] == [("done", None)] * 2


@pytest.mark.skipif(os.geteuid() != 0, reason="a name space of its own needs root")
def test_a_process_with_another_tmp_is_told_so(ranks: StartRanks, world: Path) -> None:
    """As in a container that shares only the runtime folder."""
    ranks(0)
    place = f"{runtime().kineto_folder} {runtime().errand_socket}"
    script = f"""
        mount --bind /tmp /mnt && mount -t tmpfs tmpfs /tmp && ln -s /mnt/* /tmp/
        exec {sys.executable} {RANKS_PROGRAM} {place} 1
    """
    inside = subprocess.Popen(
        ["unshare", "-m", "sh", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert inside.stdout is not None and inside.stderr is not None
        if not inside.stdout.readline():
            pytest.skip(f"no mount name space: {inside.stderr.read().strip()}")
        with Client() as client:
            wait_for(lambda: client.ask("status")["agent"]["kineto"]["pollers"] >= 1)
        code, result, said = capture(world / "capture")
    finally:
        os.killpg(inside.pid, signal.SIGTERM)
        inside.communicate()
    assert code == 1, said
    assert "mount the same one" in reasons(result)[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="a small file system needs root")
def test_what_does_not_fit_on_the_disk_stays_where_it_is_and_is_named(
    ranks: StartRanks, world: Path
) -> None:
    small = world / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=20k", "tmpfs", str(small)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"no small file system: {mounted.stderr!r}")
    try:
        (small / "filler").write_bytes(bytes(12 << 10))
        ranks(16)
        with Client() as client:
            wait_for(lambda: client.ask("status")["agent"]["kineto"]["pollers"] >= 16)
        code, result, said = capture(small / "capture")
    finally:
        subprocess.run(["umount", str(small)], check=True)
    assert code == 1
    text = " ".join(result.get("problems", [])) + said
    assert "No space left on device" in text
    named = re.search(r"is still (?:at|in) (/tmp/pilotlight-capture-[0-9]+-\w+)", text)
    assert named is not None, text
    kept = Path(named[1])
    assert list(kept.glob("rank*.json"))
    for file in kept.iterdir():
        file.unlink()
    kept.rmdir()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--steps", "0"), "1 to 1000 steps"),
        (("--ranks", "x"), "not ranks"),
        (("--timeout", "0"), "waited for"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_in_one_line(
    world: Path, options: tuple[str, ...], words: str
) -> None:
    code, _, said = capture(world / "capture", *options)
    assert code == 2
    assert words in said and said.count("\n") == 1
    assert not (world / "capture").exists()


def test_a_job_that_is_not_there_is_not_found(ranks: StartRanks, world: Path) -> None:
    ranks(1)
    verb = [sys.executable, "-m", "pilotlight", "capture"]
    for target in ("no-such-job", "999999"):
        ended = subprocess.run(
            [*verb, target, "-o", str(world / "capture")], capture_output=True, text=True
        )
        assert ended.returncode == 3
        assert ended.stderr.count("\n") == 1
        assert not (world / "capture").exists()


def wait_for(condition: Callable[[], bool], seconds: float = 20) -> None:
    import time

    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
