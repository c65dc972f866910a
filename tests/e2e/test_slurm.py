"""Under a real Slurm: two nodes of one machine, with daemons of the test's own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.conftest import Job, end_agent, wait_until

from pilotlight.recording.places import recordings_root
from pilotlight.runtime import Runtime, agent_pid

if any(shutil.which(daemon) is None for daemon in ("slurmctld", "slurmd")):
    pytest.skip("needs Slurm's daemons", allow_module_level=True)
if os.geteuid() != 0:
    pytest.skip("slurmd starts tasks of others, and so wants to be root", allow_module_level=True)

Program = Callable[[str], str]
RUN = f"{sys.executable} -m pilotlight run"
REPO = Path(__file__).parents[2]
CONFIGURATION = """
ClusterName=pilotlight
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdSpoolDir={folder}/spool.%n
StateSaveLocation={folder}
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
TaskProlog={folder}/prolog.sh
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1,batch_sched_delay=0
SlurmdParameters=config_overrides
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=20
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=4
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=4
PartitionName=all Nodes=n1,n2 Default=YES State=UP
"""
STEPPING = """
import sys, time, pilotlight
for i in range(int(sys.argv[1])):
    pilotlight.step(i)
    time.sleep(0.02)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Path]:
    """The folder with its configuration; SLURM_CONF leads there."""
    with tempfile.TemporaryDirectory(prefix="pl-slurm-") as name:
        folder = Path(name)
        for node in ("n1", "n2"):
            (folder / f"spool.{node}").mkdir()
        (folder / "prolog.sh").write_text("#!/bin/sh\n")
        (folder / "prolog.sh").chmod(0o755)
        configuration = folder / "slurm.conf"
        configuration.write_text(
            CONFIGURATION.format(host=socket.gethostname(), folder=folder, ports=free_ports(3))
        )
        os.environ["SLURM_CONF"] = str(configuration)
        daemons: list[subprocess.Popen[bytes]] = []
        try:
            for words in (["slurmctld"], ["slurmd", "-N", "n1"], ["slurmd", "-N", "n2"]):
                daemons.append(
                    subprocess.Popen(
                        [*words, "-D"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                    )
                )
            wait_until(lambda: said("sinfo", "-h", "-o", "%t %D") == "idle 2\n", "the nodes")
            yield folder
        finally:
            for daemon in reversed(daemons):
                daemon.terminate()
            for daemon in daemons:
                daemon.wait(30)
            del os.environ["SLURM_CONF"]


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


def said(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, timeout=60).stdout


def srun(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(["srun", *words], stderr=subprocess.PIPE, text=True)


@pytest.mark.usefixtures("cluster")
def test_tasks_on_a_node_share_an_agent_and_a_recording_and_have_their_numbers(
    world: Path, program: Program
) -> None:
    folder = world / "step"
    step = srun(
        "-N2", "-n3", *RUN.split(), "-o", str(folder), "--", sys.executable, program(STEPPING), "40"
    )
    errors = step.communicate(timeout=60)[1]
    assert (step.returncode, errors.count("recorded 3 processes")) == (0, 1)
    job = Job(0, "", "", folder)
    who = sorted((one["identity"] for one in job.processes), key=lambda one: int(one["rank"]))
    assert [one["rank"] for one in who] == [0, 1, 2]
    assert {one["local_rank"] for one in who} == {0, 1}
    assert {(one["world_size"], one["launcher"], one["role"]) for one in who} == {
        (3, "slurm", "rank")
    }
    assert job.recording.manifest.job.startswith("slurm-")
    assert job.recording.detail("steps").rows == 3 * 39
    end_agent(world / "run")


@pytest.mark.usefixtures("cluster")
def test_a_cancelled_step_leaves_nothing_behind_and_a_whole_recording(
    world: Path, program: Program
) -> None:
    folder = world / "cancelled"
    path = program(STEPPING)
    step = srun(
        "-n2", "-J", "long", *RUN.split(), "-o", str(folder), "--", sys.executable, path, "100000"
    )
    told = folder / "processes.jsonl"
    wait_until(
        lambda: told.exists() and len(Job(0, "", "", folder).processes) == 2, "both tasks run"
    )
    said("scancel", "-n", "long")
    step.communicate(timeout=60)
    assert step.returncode != 0
    job = Job(0, "", "", folder)
    manifest = job.recording.manifest
    assert (manifest.state, manifest.signal) == ("finished", signal.SIGTERM)
    assert job.recording.detail("gaps").rows == 0
    commands = [file.read_bytes() for file in Path("/proc").glob("[0-9]*/cmdline") if file.exists()]
    assert not [command for command in commands if path.encode() in command]
    end_agent(world / "run")


@pytest.mark.usefixtures("cluster")
def test_what_a_batch_script_runs_is_no_rank_and_its_exit_code_is_the_jobs(
    world: Path, tmp_path: Path, program: Program
) -> None:
    folder, script = world / "batch", tmp_path / "job.sh"
    failing = program("import sys; sys.exit(7)")
    script.write_text(f"#!/bin/sh\nexec {RUN} -o {folder} -- {sys.executable} {failing}\n")
    out = str(tmp_path / "out")
    number = said("sbatch", "--parsable", "-n", "2", "-o", out, str(script)).strip()
    wait_until(lambda: "JobState=FAILED" in said("scontrol", "show", "job", number), "its end")
    assert "ExitCode=7:0" in said("scontrol", "show", "job", number)
    (only,) = Job(0, "", "", folder).processes
    identity = only["identity"]
    assert (identity["launcher"], identity["role"], identity["rank"]) == ("slurm", "main", None)
    end_agent(world / "run")


def test_the_prolog_brings_tasks_to_the_nodes_agent(
    cluster: Path, world: Path, program: Program
) -> None:
    text = (REPO / "deploy/slurm/prolog.sh").read_text()
    here = text.replace("/run/pilotlight/probe.sock", str(Runtime(world / "run").probe_socket))
    (cluster / "prolog.sh").write_text(here)
    agent = subprocess.Popen([sys.executable, "-m", "pilotlight", "agent"])
    wait_until(lambda: agent_pid(Runtime(world / "run")) == agent.pid, "the agent listens")
    step = srun("-n2", "-J", "train 7b", sys.executable, program(STEPPING), "40")
    assert (step.communicate(timeout=60)[1], step.returncode) == ("", 0)
    end_agent(world / "run")
    agent.wait(20)
    (folder,) = recordings_root().iterdir()
    assert folder.name.startswith("train_7b-")
    assert sorted(one["identity"]["rank"] for one in Job(0, "", "", folder).processes) == [0, 1]
