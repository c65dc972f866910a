"""Who this process is: job, rank and place, from what its launcher put in the environment."""

import os
import sys

from pilotlight.probe.scrub import without_secrets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Plain classes: importing `dataclasses` or `typing` would triple what activation costs a job.


class Launcher:
    """Where a launcher says what; the first name that is set counts."""

    def __init__(
        self,
        name: str,
        sign: tuple[str, ...],
        job: tuple[str, ...],
        rank: tuple[str, ...],
        local_rank: tuple[str, ...],
        world_size: tuple[str, ...],
        attempt: tuple[str, ...],
        step: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.sign = sign
        self.job = job
        # Only a process of such a step is one of the ranks that the numbers count.
        self.step = step
        self.numbers = {
            "rank": rank,
            "local_rank": local_rank,
            "world_size": world_size,
            "attempt": attempt,
        }


# Innermost first: torchrun inside Slurm knows the ranks better than Slurm does.
LAUNCHERS = (
    Launcher(
        "torchrun",
        ("TORCHELASTIC_RUN_ID", "RANK"),
        ("TORCHELASTIC_RUN_ID",),
        ("RANK",),
        ("LOCAL_RANK",),
        ("WORLD_SIZE",),
        ("TORCHELASTIC_RESTART_COUNT",),
    ),
    Launcher(
        "mpi",
        ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK"),
        ("OMPI_MCA_ess_base_jobid", "PMI_JOBID", "PMIX_NAMESPACE"),
        ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK"),
        ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"),
        (),
    ),
    Launcher(
        "slurm",
        ("SLURM_JOB_ID",),
        ("SLURM_JOB_ID",),
        ("SLURM_PROCID",),
        ("SLURM_LOCALID",),
        ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
        ("SLURM_RESTART_COUNT",),
        ("SLURM_STEP_ID",),
    ),
    Launcher(
        "ray", ("RAY_JOB_ID",), ("RAY_JOB_ID",), ("RANK",), ("LOCAL_RANK",), ("WORLD_SIZE",), ()
    ),
    Launcher(
        "kubernetes",
        ("KUBERNETES_SERVICE_HOST",),
        ("JOB_NAME", "POD_NAME", "HOSTNAME"),
        ("JOB_COMPLETION_INDEX",),
        (),
        (),
        (),
    ),
)

# What a scheduler starts once a node to start the ranks there: its own number is no rank's.
_STARTS_RANKS = (
    "torchrun",
    "torch.distributed.run",
    "torch.distributed.launch",
    "accelerate",
    "accelerate.commands.launch",
    "deepspeed",
    "deepspeed.launcher.runner",
    "deepspeed.launcher.launch",
    "composer",
    "horovodrun",
)

# kIdentityBytes in native/ring/layout.h.
LONGEST_JSON = 8192

# What torchrun says where it was given no id, and Ray to a worker that waits for its first job.
_NO_JOB = ("none", "ffffffff", "")


class Identity:
    """What a probe says of its process; the attributes are the keys of the JSON."""

    def __init__(
        self,
        job: str | None,
        role: str,
        rank: int | None,
        local_rank: int | None,
        world_size: int | None,
        attempt: int | None,
        launcher: str | None,
        node: str,
        container: str | None,
        parent_pid: int,
        python: str,
        version: str,
        command: list[str],
    ) -> None:
        self.job = job
        # rank, child (of a rank or of another process of the job), or main
        self.role = role
        self.rank = rank
        self.local_rank = local_rank
        self.world_size = world_size
        self.attempt = attempt
        self.launcher = launcher
        self.node = node
        self.container = container
        self.parent_pid = parent_pid
        self.python = python
        self.version = version
        self.command = command
        # What adapters of frameworks have told, by "adapter.fact".
        self.facts: dict[str, object] = {}


def identify(
    env: "Mapping[str, str]",
    command: "Sequence[str]",
    pid: int,
    parent_pid: int,
    cgroup: str,
    forked: bool,
    version: str,
) -> Identity:
    """Pure: everything it knows is in its arguments."""
    launchers = [one for one in LAUNCHERS if _first(env, one.sign) is not None]
    counted = [] if _starts_ranks(command) else launchers
    rank = _number(counted, env, "rank")
    inherited = env.get("PILOTLIGHT_RANK_OF")
    is_rank = rank is not None and not forked and inherited in (None, f"{rank}@{pid}")
    if inherited is not None and rank is not None and inherited.split("@")[0] != str(rank):
        is_rank = not forked
    return Identity(
        job=env.get("PILOTLIGHT_JOB") or _job(launchers, env),
        role="rank" if is_rank else "child" if forked or "PILOTLIGHT_JOB_PID" in env else "main",
        rank=rank,
        local_rank=_number(counted, env, "local_rank"),
        world_size=_number(counted, env, "world_size"),
        attempt=_number(launchers, env, "attempt"),
        launcher=launchers[0].name if launchers else None,
        node=os.uname().nodename,
        container=container_of(cgroup),
        parent_pid=parent_pid,
        python=".".join(map(str, sys.version_info[:3])),
        version=version,
        command=without_secrets(command),
    )


def shared_job(env: "Mapping[str, str]") -> str | None:
    """The job of all tasks of this launcher, where each may run a command for itself."""
    launchers = [one for one in LAUNCHERS if _first(env, one.sign) is not None]
    if (_number(launchers, env, "world_size") or 1) < 2:
        return None
    job = _job(launchers, env)
    step = _first(env, launchers[0].step)
    return f"{job}.{step}" if job is not None and step is not None else job


def _starts_ranks(command: "Sequence[str]") -> bool:
    """Whether it is `python torchrun` or `python -m torch.distributed.run`, with any options."""
    words = [word for word in command[1:6] if not word.startswith("-") or word == "-m"]
    if words[:1] == ["-m"]:
        del words[0]
    return bool(words) and os.path.basename(words[0]) in _STARTS_RANKS  # noqa: PTH119


def container_of(cgroup: str) -> str | None:
    """The container's id in /proc/self/cgroup, where the kernel still shows it."""
    for line in cgroup.splitlines():
        for part in reversed(line.replace(".scope", "").split("/")):
            name = part.rsplit("-", 1)[-1]
            if len(name) == 64 and all(c in "0123456789abcdef" for c in name):
                return name[:12]
    return None


def to_json(identity: Identity) -> bytes:
    """At most what a segment has room for: what is too long is left out, the command first.

    By hand: the json package would cost every Python of a job two milliseconds.
    """
    encoded = _encoded(identity)
    if len(encoded) > LONGEST_JSON:
        identity.command = ["..."]
        encoded = _encoded(identity)
    while len(encoded) > LONGEST_JSON and identity.facts:
        identity.facts.popitem()
        encoded = _encoded(identity)
    return encoded


def _encoded(identity: Identity) -> bytes:
    fields = ", ".join(f"{_text(key)}: {_value(value)}" for key, value in vars(identity).items())
    return f"{{{fields}}}".encode()


def _value(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return f"[{', '.join(_text(str(item)) for item in value)}]"
    if isinstance(value, dict):
        return (
            f"{{{', '.join(f'{_text(str(key))}: {_value(item)}' for key, item in value.items())}}}"
        )
    return _text(str(value))


def _text(text: str) -> str:
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    from _json import encode_basestring_ascii

    return encode_basestring_ascii(text)


def _first(env: "Mapping[str, str]", names: "Sequence[str]") -> str | None:
    return next((env[name] for name in names if env.get(name)), None)


def _number(launchers: "Sequence[Launcher]", env: "Mapping[str, str]", field: str) -> int | None:
    for launcher in launchers:
        if launcher.step and field != "attempt" and _first(env, launcher.step) is None:
            continue
        text = _first(env, launcher.numbers[field])
        if text is not None and text.isascii() and text.isdigit() and len(text) < 10:
            return int(text)
    return None


def _job(launchers: "Sequence[Launcher]", env: "Mapping[str, str]") -> str | None:
    for launcher in launchers:
        name = _first(env, launcher.job)
        if name is not None and name not in _NO_JOB:
            return f"{launcher.name}-{name}"
    return None
