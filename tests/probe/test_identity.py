from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotlight.probe.identity import (
    LONGEST_JSON,
    Identity,
    container_of,
    identify,
    shared_job,
    to_json,
)
from pilotlight.probe.scrub import without_secrets


def identity(env: Mapping[str, str], forked: bool = False, pid: int = 100) -> Identity:
    return identify(env, ["python", "train.py"], pid, 1, "", forked, "0.0")


def test_torchrun_names_the_rank_and_the_job() -> None:
    env = {
        "TORCHELASTIC_RUN_ID": "llama",
        "RANK": "5",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "8",
        "TORCHELASTIC_RESTART_COUNT": "2",
    }
    found = identity(env)
    assert (found.launcher, found.job, found.role) == ("torchrun", "torchrun-llama", "rank")
    assert (found.rank, found.local_rank, found.world_size, found.attempt) == (5, 1, 8, 2)


def test_torchruns_default_run_id_names_no_job() -> None:
    assert identity({"TORCHELASTIC_RUN_ID": "none", "RANK": "0"}).job is None


def test_a_worker_of_ray_starts_before_its_job() -> None:
    found = identity({"RAY_JOB_ID": "ffffffff"})
    assert (found.launcher, found.job) == ("ray", None)
    assert identity({"RAY_JOB_ID": "02000000"}).job == "ray-02000000"


def test_torchrun_inside_slurm_takes_ranks_from_torchrun_and_the_job_from_slurm() -> None:
    env = {
        "SLURM_JOB_ID": "77",
        "SLURM_PROCID": "1",
        "RANK": "9",
        "WORLD_SIZE": "16",
        "TORCHELASTIC_RUN_ID": "none",
    }
    found = identity(env)
    assert (found.rank, found.job) == (9, "slurm-77")


@pytest.mark.parametrize(
    ("env", "launcher", "rank", "size"),
    [
        (
            {"SLURM_JOB_ID": "3", "SLURM_STEP_ID": "0", "SLURM_PROCID": "2", "SLURM_NTASKS": "4"},
            "slurm",
            2,
            4,
        ),
        ({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8"}, "mpi", 3, 8),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, "mpi", 1, 2),
        ({"KUBERNETES_SERVICE_HOST": "x", "JOB_COMPLETION_INDEX": "6"}, "kubernetes", 6, None),
    ],
)
def test_other_launchers_are_known(
    env: dict[str, str], launcher: str, rank: int, size: int | None
) -> None:
    found = identity(env)
    assert (found.launcher, found.rank, found.world_size) == (launcher, rank, size)


TASK = {
    "SLURM_JOB_ID": "12",
    "SLURM_STEP_ID": "3",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_NTASKS": "2",
}
BATCH_SCRIPT = {
    name: TASK[name] for name in TASK if name not in ("SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS")
}


def test_what_a_batch_script_runs_itself_is_none_of_the_tasks_that_it_asked_for() -> None:
    found = identity(BATCH_SCRIPT)
    assert (found.job, found.launcher, found.role) == ("slurm-12", "slurm", "main")
    assert (found.rank, found.local_rank, found.world_size) == (None, None, None)


@pytest.mark.parametrize(
    "command",
    [
        ["python", "/venv/bin/torchrun", "--nnodes", "2", "train.py"],
        ["python", "-u", "-m", "torch.distributed.run", "train.py"],
        ["python", "/venv/bin/accelerate", "launch", "train.py"],
    ],
)
def test_what_starts_the_ranks_of_a_node_is_none_of_them(command: list[str]) -> None:
    found = identify(TASK, command, 100, 1, "", False, "0.0")
    assert (found.job, found.role, found.rank, found.world_size) == ("slurm-12", "main", None, None)
    assert identify(TASK, ["python", "train.py"], 100, 1, "", False, "0.0").rank == 0


def test_tasks_that_run_a_command_each_have_one_job() -> None:
    assert shared_job(TASK) == "slurm-12.3"
    mpi = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}
    assert shared_job({**mpi, "OMPI_MCA_ess_base_jobid": "77"}) == "mpi-77"
    assert shared_job(mpi) is None


def test_a_task_alone_a_batch_script_and_a_shell_name_each_of_their_commands() -> None:
    assert shared_job({**TASK, "SLURM_STEP_NUM_TASKS": "1"}) is None
    assert shared_job(BATCH_SCRIPT) is None
    assert shared_job({}) is None


def test_a_process_without_a_launcher_has_no_rank() -> None:
    found = identity({})
    assert (found.role, found.rank, found.launcher, found.job) == ("main", None, None, None)


def test_a_loader_process_of_a_rank_is_not_that_rank() -> None:
    env = {"RANK": "3", "PILOTLIGHT_RANK_OF": "3@99", "PILOTLIGHT_JOB_PID": "99"}
    assert identity(env, pid=100).role == "child"


def test_a_rank_that_replaced_itself_by_exec_is_still_the_rank() -> None:
    env = {"RANK": "3", "PILOTLIGHT_RANK_OF": "3@100", "PILOTLIGHT_JOB_PID": "100"}
    assert identity(env, pid=100).role == "rank"


def test_a_forked_rank_is_a_child() -> None:
    assert identity({"RANK": "3"}, forked=True).role == "child"


def test_a_launcher_that_is_itself_a_rank_does_not_hide_the_ranks_it_starts() -> None:
    env = {"RANK": "4", "PILOTLIGHT_RANK_OF": "0@99", "PILOTLIGHT_JOB_PID": "99"}
    assert identity(env).role == "rank"


@pytest.mark.parametrize("text", ["", "-1", "x", "9" * 40, "١"])
def test_a_rank_that_is_no_number_is_left_out(text: str) -> None:
    assert identity({"TORCHELASTIC_RUN_ID": "j", "RANK": text}).rank is None


def test_the_container_is_found_in_both_cgroup_layouts() -> None:
    name = "ab12" * 16
    assert container_of(f"5:cpu:/docker/{name}\n") == name[:12]
    assert container_of(f"0::/system.slice/cri-containerd-{name}.scope\n") == name[:12]
    assert container_of("0::/user.slice/session-1.scope\n") is None


@given(st.text(max_size=50), st.lists(st.text(max_size=20), max_size=5))
def test_the_json_is_json_whatever_the_names_are(job: str, command: list[str]) -> None:
    env = {"PILOTLIGHT_JOB": job} if job else {}
    found = identify(env, command, 1, 0, "", False, "0")
    decoded = json.loads(to_json(found))
    assert decoded["job"] == (job or None)
    assert decoded["command"] == without_secrets(command)


def test_a_command_that_would_not_fit_into_the_segment_is_left_out() -> None:
    found = identify({}, ["\x01" * 300] * 24, 1, 0, "", False, "0")
    encoded = to_json(found)
    assert len(encoded) <= LONGEST_JSON
    assert json.loads(encoded)["command"] == ["..."]
