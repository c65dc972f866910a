"""The daemon on real sockets: answers, hands out once, refuses, counts."""

from __future__ import annotations

import array
import os
import socket
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from polling_client import PollingClient

from pilotlight.errors import AgentError
from pilotlight.kineto.daemon import Daemon, Pending
from pilotlight.kineto.endpoint import (
    LONGEST_FOLDER_BYTES,
    FolderEndpoint,
    kineto_environment,
    remove_stale_clients,
)


@pytest.fixture
def endpoint(world: Path) -> Iterator[FolderEndpoint]:
    opened = FolderEndpoint.open_own(world / "kineto")
    yield opened
    opened.close()


@pytest.fixture
def client(endpoint: FolderEndpoint) -> Iterator[PollingClient]:
    made = PollingClient(endpoint.folder)
    yield made
    made.close()


def polled(daemon: Daemon, endpoint: FolderEndpoint, client: PollingClient) -> str:
    client.send()
    daemon.receive(endpoint.listener)
    return client.receive()


def test_a_poll_gets_nothing_and_makes_the_process_known(
    endpoint: FolderEndpoint, client: PollingClient
) -> None:
    daemon = Daemon()
    client.pids = [999_999, 5, 4]
    assert polled(daemon, endpoint, client) == ""
    (poller,) = daemon.pollers.values()
    # The kernel says who it is, not the message.
    assert (poller.pid, poller.uid) == (os.getpid(), os.getuid())
    assert (poller.own_pid, poller.ancestors) == (999_999, (5, 4))


def test_a_client_that_missed_an_answer_is_not_one_behind_for_ever(
    endpoint: FolderEndpoint, client: PollingClient
) -> None:
    daemon = Daemon()
    assert polled(daemon, endpoint, client) == ""
    client.send()
    daemon.receive(endpoint.listener)  # too late: the client has stopped waiting
    time.sleep(0.3)
    assert polled(daemon, endpoint, client) == ""  # the old answer
    with pytest.raises(TimeoutError):
        client.receive()
    daemon.hand(os.getpid(), Pending(lambda: "A=1\n", lambda _: None))
    time.sleep(0.3)
    assert polled(daemon, endpoint, client) == "A=1\n"


def test_a_client_that_reads_nothing_keeps_no_other_from_its_answers(
    endpoint: FolderEndpoint, client: PollingClient
) -> None:
    daemon, hung = Daemon(), PollingClient(endpoint.folder)
    for _ in range(2):
        hung.send()
        daemon.receive(endpoint.listener)
    answers = []
    for _ in range(4):
        time.sleep(0.25)
        client.send()
        daemon.receive(endpoint.listener)
        try:
            answers.append(client.receive())
        except TimeoutError:
            answers.append("none")
    hung.close()
    assert answers.count("none") <= 1 and answers[-2:] == ["", ""]


def test_500_clients_that_poll_at_once_and_read_later_all_get_their_answers(
    endpoint: FolderEndpoint,
) -> None:
    daemon, clients = Daemon(), [PollingClient(endpoint.folder) for _ in range(500)]
    for client in clients:
        client.send()
        daemon.receive(endpoint.listener)
    answers = [client.receive() for client in clients]
    for client in clients:
        client.close()
    assert answers == [""] * 500 and daemon.unsent == 0


def test_a_configuration_is_handed_out_once(
    endpoint: FolderEndpoint, client: PollingClient
) -> None:
    daemon, handed = Daemon(), []
    assert daemon.hand(os.getpid(), Pending(lambda: "A=1\n", handed.append))
    assert not daemon.hand(os.getpid(), Pending(lambda: "B=1\n", handed.append))
    assert polled(daemon, endpoint, client) == "A=1\n"
    assert polled(daemon, endpoint, client) == ""
    assert handed == [os.getpid()]


def test_a_busy_process_gets_nothing_until_it_is_idle(
    endpoint: FolderEndpoint, client: PollingClient
) -> None:
    daemon = Daemon()
    daemon.hand(os.getpid(), Pending(lambda: "A=1\n", lambda _: None))
    for busy in (0, 1):
        client.wanted = busy
        assert polled(daemon, endpoint, client) == ""
    client.wanted = 3
    assert polled(daemon, endpoint, client) == "A=1\n"


def test_what_was_taken_back_is_not_handed_out(
    endpoint: FolderEndpoint, client: PollingClient
) -> None:
    daemon = Daemon()
    daemon.hand(os.getpid(), Pending(lambda: "A=1\n", lambda _: None))
    assert daemon.take_back(os.getpid())
    assert polled(daemon, endpoint, client) == ""
    assert not daemon.take_back(os.getpid())


def test_hostile_datagrams_are_counted_and_the_next_poll_is_answered(
    endpoint: FolderEndpoint, client: PollingClient
) -> None:
    daemon = Daemon()
    for bad in (
        b"",
        b"x" * 39,
        os.urandom(200),
        struct.pack("<Q32s", 1 << 60, b"req"),
        bytes(9999),
    ):
        client.send_raw(bad)
    daemon.receive(endpoint.listener)
    assert sum(daemon.refused.values()) == 5
    assert polled(daemon, endpoint, client) == ""


def test_descriptors_that_somebody_sends_do_not_stay_open(
    endpoint: FolderEndpoint, client: PollingClient
) -> None:
    daemon = Daemon()
    before = len([*Path("/proc/self/fd").iterdir()])
    rights = array.array("i", [0, 1, 2])
    client.socket.sendmsg(
        [b"x"],
        [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)],
        0,
        str(endpoint.folder / "dynolog"),
    )
    daemon.receive(endpoint.listener)
    assert len([*Path("/proc/self/fd").iterdir()]) == before


def test_a_client_that_is_gone_costs_a_count(
    endpoint: FolderEndpoint, client: PollingClient
) -> None:
    daemon = Daemon()
    client.send()
    client.close()
    daemon.receive(endpoint.listener)
    assert daemon.unsent == 1


def test_silent_processes_are_forgotten(endpoint: FolderEndpoint, client: PollingClient) -> None:
    daemon = Daemon()
    polled(daemon, endpoint, client)
    (poller,) = daemon.pollers.values()
    daemon.tick(poller.polled_ns + 59_000_000_000)
    assert daemon.pollers
    daemon.tick(poller.polled_ns + 61_000_000_000)
    assert not daemon.pollers


def test_old_versions_get_their_count(endpoint: FolderEndpoint, client: PollingClient) -> None:
    daemon = Daemon()
    hello = struct.pack("<Q32siiq", 16, b"ctxt", 0, os.getpid(), 3)
    for expected in (1, 2):
        client.send_raw(hello)
        daemon.receive(endpoint.listener)
        assert struct.unpack("<i", client.receive().encode("latin1")) == (expected,)


def test_the_name_of_a_killed_daemon_leads_nowhere(world: Path) -> None:
    """A client that finds a dead socket keeps its process from exiting for ten seconds."""
    folder = world / "kineto"
    code = (
        "import sys, time; from pathlib import Path\n"
        "from pilotlight.kineto.endpoint import FolderEndpoint\n"
        "e = FolderEndpoint.open_own(Path(sys.argv[1])); print('there', flush=True); time.sleep(60)"
    )
    daemon = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert daemon.stdout is not None and daemon.stdout.readline() == "there\n"
    made = PollingClient(folder)
    made.send()
    daemon.kill()
    daemon.communicate()
    with pytest.raises(FileNotFoundError):
        made.send()
    made.close()
    again = FolderEndpoint.open_own(folder)
    again.close()


def test_a_shared_folder_serves_other_users_and_containers(world: Path) -> None:
    shared = FolderEndpoint.open_shared(world / "kineto")
    made = PollingClient(shared.folder)
    assert polled(Daemon(), shared, made) == ""
    assert not (shared.folder / "dynolog").is_symlink()
    assert stat.S_IMODE(shared.folder.stat().st_mode) == 0o1777
    made.close()
    shared.close()
    assert not shared.folder.exists()


def test_sockets_of_clients_that_are_gone_are_removed(
    endpoint: FolderEndpoint, client: PollingClient
) -> None:
    gone = PollingClient(endpoint.folder)
    gone.close()
    assert remove_stale_clients(endpoint.folder) == 1
    assert [path.name[:10] for path in endpoint.folder.glob("dynoconfig*")] == ["dynoconfig"]
    client.send()


def test_a_folder_too_long_for_the_clients_is_refused(world: Path) -> None:
    with pytest.raises(AgentError, match="too long"):
        FolderEndpoint.open_own(world / ("x" * LONGEST_FOLDER_BYTES))


def test_a_job_with_a_daemon_of_its_own_keeps_it(world: Path) -> None:
    assert kineto_environment({"KINETO_USE_DAEMON": "1"}, world) == {}
    assert kineto_environment({"KINETO_IPC_SOCKET_DIR": "/x"}, world) == {}
    assert kineto_environment({}, world) == {"PILOTLIGHT_KINETO_DIR": str(world)}


@pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace of its own needs root")
def test_the_owner_of_the_abstract_name_is_named() -> None:
    """In a network namespace of its own: the name is one for the whole machine."""
    code = (
        "import os, socket, sys\n"
        "from pilotlight.kineto.endpoint import open_abstract\n"
        "first = open_abstract()\n"
        "try: open_abstract()\n"
        "except Exception as error: print(type(error).__name__, error)\n"
        "first.close(); open_abstract(); print('free again')\n"
        "print(os.getpid())"
    )
    ended = subprocess.run(
        ["unshare", "-n", sys.executable, "-c", code], capture_output=True, text=True
    )
    if "unshare" in ended.stderr:
        pytest.skip(f"no network namespace: {ended.stderr.strip()}")
    said = ended.stdout.splitlines()
    assert said[0].startswith(f"AgentError the abstract socket dynolog: process {said[2]} (")
    assert said[1] == "free again"
