"""What the agent may ask of this process while it runs: facts, the flight recorder, an XSpace.

A thread that sleeps in `recv` until it is asked. It exists only where torch or jax is imported, and
imports neither: what the job has not loaded there is nothing to ask of. docs/protocol.md.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping
    from typing import Any

    Answer = dict[str, object]

_LONGEST_LINE_BYTES = 1 << 16
_LONGEST_TRACE_NS = 600_000_000_000
_RETRY_S = (0.1, 0.5, 2.0, 5.0)
# At once: a thread each, in somebody else's process.
_MOST_ERRANDS = 8
_MOST_GROUPS = 64

# The XSpace sessions that wait to be told that it is enough, by their file.
_running: dict[str, Any] = {}
_under_way: set[object] = set()

_begun_in = 0  # the process whose thread it is


def begin() -> None:
    """Starts the thread once; never raises. Not by `threading`, whose list is the job's own."""
    global _begun_in
    try:
        import _thread

        if _begun_in == os.getpid():
            return
        _begun_in = os.getpid()
        _thread.start_new_thread(_serve, (os.getpid(),))
    except Exception as error:
        _note(error)


def threads() -> int:
    """How many of this process's threads are ours here."""
    return 1 + len(_under_way) if _begun_in == os.getpid() else 0


def _serve(pid: int) -> None:
    """Connects, does what it is asked, connects again; for as long as this process lives."""
    try:
        import _thread
        import time

        from pilotlight import _probe

        _probe.name_thread(_thread.get_native_id(), "pilotlight")
        failures = 0
        while os.getpid() == pid:
            link = _connect()
            if link is not None:
                failures = 0
                with link:
                    _listen(link)
            time.sleep(_RETRY_S[min(failures, len(_RETRY_S) - 1)])
            failures += 1
    except Exception as error:
        _note(error)


def _connect() -> socket.socket | None:
    import socket

    from pilotlight.place import errand_socket, is_trusted

    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        link.connect(errand_socket())
        if is_trusted(link):
            return link
    except OSError:
        pass
    link.close()
    return None


def _listen(link: socket.socket) -> None:
    import _thread
    import json

    received = b""
    while True:
        try:
            piece = link.recv(1 << 14)
        except OSError:
            return
        received += piece
        if not piece or len(received) > _LONGEST_LINE_BYTES:
            return
        *lines, received = received.split(b"\n")
        for line in lines:
            try:
                errand = json.loads(line)
            except (ValueError, RecursionError):
                return
            if not isinstance(errand, dict) or len(_under_way) >= _MOST_ERRANDS:
                return
            # One that waits for steps must not keep the next from being done.
            token = object()
            _under_way.add(token)
            _thread.start_new_thread(_do, (link, errand, token))


def _do(link: socket.socket, errand: Mapping[str, Any], token: object) -> None:
    """Never raises: what a thread lets through Python prints on the job's terminal."""
    import json

    try:
        try:
            answer = _ERRANDS[errand["do"]](errand)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:500]}
        link.sendall(json.dumps({"id": errand.get("id"), **answer}).encode() + b"\n")
    except OSError:
        return
    except Exception as error:
        _note(error)
    finally:
        _under_way.discard(token)


def _facts(errand: Mapping[str, Any]) -> Answer:
    """Which frameworks are here, how far they are, and whether somebody else profiles already."""
    from pilotlight.probe.tracing import waits_for_gpu

    facts: Answer = {}
    torch = sys.modules.get("torch")
    if torch is not None:
        facts["torch"] = str(getattr(torch, "__version__", ""))
        facts["asks_daemon"] = "KINETO_USE_DAEMON" in os.environ
        facts["waits_for_gpu"] = waits_for_gpu(os.environ)
        profiler = sys.modules.get("torch.autograd.profiler")
        tracker = getattr(profiler, "KinetoStepTracker", None)
        if tracker is not None:
            facts["steps"] = int(tracker.current_step())
        facts["is_profiled"] = bool(getattr(profiler, "_is_profiler_enabled", False))
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            facts["rank"] = int(distributed.get_rank())
            facts["world_size"] = int(distributed.get_world_size())
    jax = sys.modules.get("jax")
    if jax is not None:
        facts["jax"] = str(getattr(jax, "__version__", ""))
        joined: Any = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
        # Processes of jax.distributed, which no launcher numbered.
        if "rank" not in facts and getattr(joined, "client", None) is not None:
            facts["rank"] = int(joined.process_id)
            facts["world_size"] = int(joined.num_processes)
    return facts


def _flight_recorder(errand: Mapping[str, Any]) -> Answer:
    """The last collectives, with the members of each group, which gloo's dump does not name."""
    c10d = sys.modules.get("torch._C._distributed_c10d") or _c10d()
    # Two recorders: NCCL has its own, all other backends share one.
    named = [getattr(c10d, name, None) for name in ("_dump_nccl_trace", "_dump_fr_trace")]
    dumps = [dump() for dump in named if dump is not None]
    if not dumps:
        return {"error": "torch.distributed is not loaded, or has no flight recorder"}
    content = _with_groups(dumps, _groups())
    _write(errand["file"], content)
    return {"file": errand["file"], "bytes": len(content), "rank": _facts(errand).get("rank")}


def _collectives(errand: Mapping[str, Any]) -> Answer:
    """Of each group the last collective that was entered and the last that was finished, by the
    flight recorder; a fraction of a millisecond, without its stacks."""
    import pickle

    c10d = sys.modules.get("torch._C._distributed_c10d") or _c10d()
    groups: dict[str, dict[str, object]] = {}
    for name in ("_dump_nccl_trace", "_dump_fr_trace"):
        dump = getattr(c10d, name, None)
        # Made by this process's own torch a moment ago: not somebody's file.
        told = pickle.loads(dump(includeStackTraces=False)) if dump is not None else {}
        for entry in told.get("entries", ()):
            _add_collective(groups, entry)
        if groups:  # a job that uses NCCL waits there
            break
    return {"groups": dict(list(groups.items())[:_MOST_GROUPS])}


def _add_collective(groups: dict[str, dict[str, object]], entry: Mapping[str, Any]) -> None:
    if entry.get("is_p2p"):
        return
    name, description = entry["process_group"]
    group = name if description in ("", "undefined") else f"{name} {description}"
    known: Any = groups.setdefault(group[:100], {"entered": 0, "finished": 0, "operation": ""})
    number = int(entry["collective_seq_id"])
    if number >= known["entered"]:
        known["entered"] = number
        known["operation"] = str(entry["profiling_name"]).rpartition(":")[2][:40]
    if entry["state"] == "completed" or entry.get("retired"):
        known["finished"] = max(known["finished"], number)


def _c10d() -> object:
    torch = sys.modules.get("torch")
    return getattr(getattr(torch, "_C", None), "_distributed_c10d", None)


def _groups() -> dict[str, dict[str, str]]:
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    world = getattr(c10d, "_world", None)
    found = {}
    for group, ranks in dict(getattr(world, "pg_group_ranks", {})).items():
        name = str(getattr(world, "pg_names", {}).get(group, ""))
        description = str(getattr(group, "group_desc", ""))
        listed = ", ".join(str(rank) for rank in sorted(ranks))
        found[name] = {"name": name, "desc": description, "ranks": f"[{listed}]"}
    return found


def _with_groups(dumps: list[bytes], groups: dict[str, dict[str, str]]) -> bytes:
    """The first that has entries: a job that uses NCCL waits there."""
    import pickle

    # Made by this process's own torch a moment ago: not somebody's file.
    values = [pickle.loads(dump) for dump in dumps]
    value = next((one for one in values if one.get("entries")), values[-1])
    known = {name: group for name, group in value["pg_config"].items() if name}
    value["pg_config"] = {**groups, **known}
    return pickle.dumps(value, 2)


def _xspace(errand: Mapping[str, Any]) -> Answer:
    """What jax's profiler sees from `start_ns` (wall clock) on, until it is told that it is enough,
    for `duration_ns` at most."""
    import _thread
    import time

    profiler = sys.modules.get("jax._src.lib._profiler") or _jax_profiler()
    if profiler is None:
        return {"error": "this jax has no profiler that can be asked from inside"}
    duration_ns = min(int(errand["duration_ns"]), _LONGEST_TRACE_NS)
    options = profiler.ProfileOptions()
    options.python_tracer_level = 1 if errand.get("stacks") else 0
    time.sleep(min(max(0, int(errand["start_ns"]) - time.time_ns()), _LONGEST_TRACE_NS) / 1e9)
    enough = _thread.allocate_lock()
    enough.acquire()
    _running[errand["file"]] = enough
    try:
        start_ns = time.time_ns()
        session = profiler.ProfilerSession(options)
        try:
            _begin_file(errand["file"])
            enough.acquire(timeout=duration_ns / 1e9)
        finally:
            # Raises where another session, the job's own maybe, was there first.
            content = session.stop()
    finally:
        del _running[errand["file"]]
    _write(errand["file"], content)
    return {"file": errand["file"], "bytes": len(content), "start_ns": start_ns}


def _xspace_enough(errand: Mapping[str, Any]) -> Answer:
    running = _running.get(errand["file"])
    if running is not None and running.locked():
        running.release()
    return {}


def _jax_profiler() -> Any:
    lib = sys.modules.get("jax._src.lib")
    return getattr(lib, "_profiler", None) or getattr(
        getattr(lib, "xla_client", None), "profiler", None
    )


def _begin_file(path: str) -> None:
    """The agent sees by it that the session has begun: steps count from then on."""
    os.close(os.open(f"{path}.part", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))


def _write(path: str, content: bytes) -> None:
    """Complete or not there: the agent waits for the name to appear."""
    beside = f"{path}.part"
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123
            file.write(content)
        os.rename(beside, path)  # noqa: PTH104
    except OSError:
        os.unlink(beside)  # noqa: PTH108
        raise


def _note(error: Exception) -> None:
    from pilotlight.probe.activate import leave_reason

    leave_reason(f"errands: {type(error).__name__}: {error}")


_ERRANDS: dict[str, Callable[[Mapping[str, Any]], Answer]] = {
    "facts": _facts,
    "flight_recorder": _flight_recorder,
    "collectives": _collectives,
    "xspace": _xspace,
    "xspace_enough": _xspace_enough,
}
