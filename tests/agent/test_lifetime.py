"""From the lock to the last trace: one agent a folder, and nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from producer import Producer
from running import RunningAgent, until

from pilotlight.agent.lock import AgentLock
from pilotlight.agent.settings import Settings
from pilotlight.agent.spawn import ensure_agent
from pilotlight.client import Client
from pilotlight.errors import AgentError
from pilotlight.recording.manifest import read_manifest
from pilotlight.runtime import Runtime, agent_pid, prepare


def test_a_second_agent_says_who_runs_and_fails(agent: RunningAgent) -> None:
    second = subprocess.run(
        [sys.executable, "-m", "pilotlight", "agent"], capture_output=True, text=True
    )
    assert second.returncode == 1
    assert second.stderr == f"pilotlight agent: an agent is already running (pid {agent.pid})\n"
    assert agent.status()["agent"]["pid"] == agent.pid


def test_an_automatic_agent_ends_itself_and_leaves_nothing(place: Runtime) -> None:
    client = ensure_agent()
    pid = client.ask("status")["agent"]["pid"]
    client.ask("record", job="job", folder=None, command=[])
    client.ask("finish", job="job", exit_code=0)
    client.close()
    until(lambda: not place.folder.exists(), 15)
    until(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid)


def test_an_automatic_agent_stays_while_a_client_or_a_probe_is_there(place: Runtime) -> None:
    with ensure_agent() as client:
        producer = Producer()
        producer.connect(place.probe_socket)
        producer.answer()
        since = time.monotonic()
        # Longer than an idle agent lives.
        until(lambda: time.monotonic() - since > 6.5)
        assert client.ask("status")["processes"]
        pid = client.ask("status")["agent"]["pid"]
    os.kill(pid, 15)
    until(lambda: os.waitpid(pid, os.WNOHANG)[0] == pid)
    producer.close()


def test_two_that_start_an_agent_at_once_get_the_same(place: Runtime) -> None:
    clients: list[Client] = []
    threads = [threading.Thread(target=lambda: clients.append(ensure_agent())) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pids = {client.ask("status")["agent"]["pid"] for client in clients}
    assert len(clients) == 6 and len(pids) == 1
    for client in clients:
        client.close()
    until(lambda: not place.folder.exists(), 15)


def test_an_agent_that_cannot_start_is_an_error_with_its_last_line(
    place: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pilotlight.agent.spawn._WAIT_S", 60.0)
    prepare(place)
    place.client_socket.mkdir()
    (place.client_socket / "x").touch()
    with pytest.raises(AgentError, match=r"no agent could be started: .*client\.sock"):
        ensure_agent()


def test_the_lock_of_a_killed_agent_is_free(place: Runtime) -> None:
    prepare(place)
    place.lock.write_text("1\n")
    assert agent_pid(place) is None
    with AgentLock(place):
        assert place.lock.read_text() == f"{os.getpid()}\n"
        assert agent_pid(place) == os.getpid()
        with pytest.raises(AgentError, match=rf"already running \(pid {os.getpid()}\)"):
            AgentLock(place)
    assert not place.lock.exists()


def test_a_runtime_folder_that_others_can_write_is_not_used(place: Runtime) -> None:
    place.folder.mkdir(parents=True)
    place.folder.chmod(0o777)
    with pytest.raises(AgentError, match="others may write there"):
        prepare(place)


def test_a_runtime_folder_that_is_a_link_is_not_used(place: Runtime, tmp_path: Path) -> None:
    place.folder.parent.mkdir(parents=True, exist_ok=True)
    place.folder.symlink_to(tmp_path)
    with pytest.raises(AgentError, match="not a folder of this user"):
        prepare(place)


def test_a_path_too_long_for_a_socket_says_so(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match="too long"):
        prepare(Runtime(tmp_path / ("x" * 120)))


def test_a_job_without_anybody_is_closed_a_while_after_its_last_process(
    agent: RunningAgent,
) -> None:
    child = os.fork()
    if child == 0:
        producer = Producer()
        producer.connect(agent.place.probe_socket)
        producer.answer()
        os._exit(0)
    os.waitpid(child, 0)
    until(lambda: agent.status()["jobs"])
    until(lambda: not agent.status()["jobs"], 15)
    assert agent.recording().manifest.state == "finished"


def test_a_job_whose_runner_was_killed_is_closed(agent: RunningAgent) -> None:
    code = (
        "from pilotlight.client import Client\n"
        "Client().ask('record', job='job', folder=None, command=[]); print(flush=True); input()"
    )
    runner = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert runner.stdout is not None
    runner.stdout.readline()
    assert agent.status()["jobs"]
    runner.kill()
    runner.communicate()
    until(lambda: not agent.status()["jobs"], 15)
    assert agent.recording().manifest.state == "finished"


def test_detail_kept_in_memory_is_on_disk_when_the_job_ends(place: Runtime) -> None:
    agent = RunningAgent(place)
    agent.start("--memory")
    with agent.client() as client:
        folder = Path(client.ask("record", job="job", folder=None, command=[])["folder"])
        child = os.fork()
        if child == 0:
            producer = Producer()
            producer.connect(agent.place.probe_socket)
            producer.answer()
            producer.counter(5)
            os._exit(0)
        os.waitpid(child, 0)
        in_memory = (folder / "detail").resolve()
        assert in_memory.is_relative_to("/dev/shm")
        client.ask("finish", job="job", exit_code=0, timeout_s=20)
    assert not (folder / "detail").is_symlink() and not in_memory.exists()
    assert agent.recording().detail("counters")["value"].tolist() == [5]
    assert agent.stop() == ""


def test_what_the_agent_cost_is_counted_from_the_opening_of_each_recording(
    agent: RunningAgent,
) -> None:
    with agent.client() as client:
        client.ask("record", job="first", folder=None, command=["sleep"])
        time.sleep(0.5)
        client.ask("record", job="second", folder=None, command=["sleep"])
        folders = {one["job"]: Path(one["folder"]) for one in client.ask("status")["jobs"]}
        for job in folders:
            client.ask("finish", job=job, exit_code=0, signal=None)
    first, second = (read_manifest(folders[job]).agent for job in ("first", "second"))
    assert first.wall_ns >= 500_000_000 > second.wall_ns > 0
    # In a test the agent is a thread of a process that has used much more.
    assert 0 < second.cpu_ns <= first.cpu_ns < time.process_time_ns() - second.cpu_ns


def test_a_job_whose_last_process_is_killed_for_memory_says_so(
    place: Runtime, tmp_path: Path
) -> None:
    """It is over at once: nothing reads its control group another time."""
    group = tmp_path / "sys/fs/cgroup/jobs/a"
    group.mkdir(parents=True)
    (group / "memory.events").write_text("oom_kill 0\n")
    known = tmp_path / f"proc/{os.getpid()}/cgroup"
    known.parent.mkdir(parents=True)
    known.write_text("0::/jobs/a\n")
    running = RunningAgent(place)
    elsewhere = f"service.Kills = lambda: Kills(Path({str(tmp_path)!r}))"
    never = "service.Service._read_devices = lambda self, now_ns: None"
    imports = (
        "from pilotlight.agent import service; from pilotlight.agent.counters.kills import Kills"
    )
    running.start_with(Settings(), f"{imports}\n{elsewhere}\n{never}")
    with running.client() as client:
        client.ask("record", job="job", folder=None, command=[])
        producer = Producer()
        producer.connect(place.probe_socket)
        until(lambda: running.status()["processes"])
        (group / "memory.events").write_text("oom_kill 1\n")
        producer.exit()
        producer.close()
        client.ask("finish", job="job", exit_code=137, signal=9)
    until(running.is_finished)
    running.stop()
    events = running.recording().windows("device_events")
    assert [events.texts[name][0] for name in ("device", "name")] == ["cgroup jobs/a", "oom_kill"]
