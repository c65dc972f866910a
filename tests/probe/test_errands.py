"""The thread that waits to be asked: only where a framework is, and never in the way."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pilotlight.probe import errands
from pilotlight.trace.plain_pickle import load_plain


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PILOTLIGHT": "1", **environment},
    )


def test_without_a_framework_nothing_is_imported_and_no_thread_starts() -> None:
    ended = run(
        "import sys\n"
        "loaded = {'torch', 'socket', 'pilotlight.probe.adapters', 'pilotlight.probe.errands'}\n"
        "print(sorted(loaded & set(sys.modules)))"
    )
    assert ended.stdout.strip() == "[]", ended.stderr


def test_the_job_does_not_see_the_thread_in_its_own_list(tmp_path: Path) -> None:
    (tmp_path / "jax.py").write_text("")
    ended = run(
        "import os, threading, time\n"
        "import jax\n"
        "from pilotlight.probe import errands\n"
        "time.sleep(0.3)\n"
        "print(threading.active_count(), errands._begun_in == os.getpid())",
        PYTHONPATH=str(tmp_path),
    )
    assert ended.stdout.split() == ["1", "True"], ended.stderr
    assert ended.stderr == ""


def test_a_framework_first_imported_in_a_forked_child_is_the_childs(tmp_path: Path) -> None:
    (tmp_path / "jax.py").write_text("")
    ended = run(
        "import os\n"
        "if os.fork() == 0:\n"
        "    import jax\n"
        "    from pilotlight.probe import adapters\n"
        "    print(adapters._identity.parent_pid == os.getppid(), flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()",
        PYTHONPATH=str(tmp_path),
    )
    assert ended.stdout.strip() == "True", ended.stderr


def test_a_framework_that_does_not_exist_fails_as_always() -> None:
    ended = run("import sys; sys.path[:] = []\nimport torch")
    assert ended.returncode == 1
    assert "ModuleNotFoundError: No module named 'torch'" in ended.stderr


def test_of_two_flight_recorders_the_one_in_use_is_taken_with_the_members_of_its_groups() -> None:
    """NCCL has a recorder of its own, which a CPU build of torch does not: a stand-in for both."""
    empty = {"version": "2.10", "pg_config": {}, "pg_status": {}, "entries": []}
    used = {**empty, "pg_config": {"": {"name": "", "ranks": "[]"}}, "entries": [{"pg_id": 0}]}
    groups = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    for dumps in ([empty, used], [used, empty], [used]):
        made = errands._with_groups([pickle.dumps(dump) for dump in dumps], groups)
        found = load_plain(made, "dump")
        assert found["entries"] == [{"pg_id": 0}]
        assert found["pg_config"] == groups


def test_of_each_group_the_last_collective_entered_and_finished_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As gloo's recorder tells it in torch 2.13: what is over is retired, never completed."""
    entry = {"process_group": ("0", "default_pg"), "state": "scheduled", "is_p2p": False}
    entries = [
        {**entry, "collective_seq_id": 1, "profiling_name": "gloo:all_reduce", "retired": True},
        {**entry, "collective_seq_id": 2, "profiling_name": "gloo:broadcast", "retired": False},
    ]

    def dump(includeStackTraces: bool) -> bytes:
        assert not includeStackTraces
        return pickle.dumps({"entries": entries})

    recorder = SimpleNamespace(_dump_fr_trace=dump)
    monkeypatch.setitem(sys.modules, "torch._C._distributed_c10d", recorder)
    told = {"entered": 2, "finished": 1, "operation": "broadcast"}
    assert errands._collectives({}) == {"groups": {"0 default_pg": told}}


def test_what_is_not_finished_and_what_is_between_two_ranks_is_told_apart() -> None:
    groups: dict[str, dict[str, object]] = {}
    entry = {"process_group": ("3", "tp"), "profiling_name": "nccl:all_gather", "is_p2p": False}
    for number, state, is_p2p in ((1, "completed", False), (2, "started", False), (9, "", True)):
        more = {"collective_seq_id": number, "state": state, "is_p2p": is_p2p}
        errands._add_collective(groups, {**entry, **more})
    assert groups == {"3 tp": {"entered": 2, "finished": 1, "operation": "all_gather"}}


def test_a_process_of_jax_distributed_knows_its_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = SimpleNamespace(client=None, process_id=0, num_processes=1)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(__version__="0.10.2"))
    monkeypatch.setitem(sys.modules, "jax._src.distributed", SimpleNamespace(global_state=joined))
    assert errands._facts({}) == {"jax": "0.10.2"}
    joined.client, joined.process_id, joined.num_processes = object(), 1, 2
    assert errands._facts({}) == {"jax": "0.10.2", "rank": 1, "world_size": 2}


HOSTILE_AGENT = r"""
import os, socket, time
from pilotlight.place import errand_socket

os.makedirs(os.path.dirname(errand_socket()), mode=0o700, exist_ok=True)
server = socket.socket(socket.AF_UNIX)
server.bind(errand_socket())
server.listen()
server.settimeout(20)
import jax

facts = b'{"do": "facts", "id": 1}\n'
rubbish = [b"[]", b"7", b"null", b'{"do": 3}', b"\xff", b"[" * 60_000]
most = 0
for said in [line + b"\n" for line in rubbish] + [facts * 200]:
    link, _ = server.accept()
    link.sendall(said)
    for _ in range(20):
        most = max(most, len(os.listdir("/proc/self/task")))
        time.sleep(0.005)
    link.close()
print(most)
"""


def test_rubbish_and_floods_of_errands_neither_show_nor_grow(tmp_path: Path) -> None:
    (tmp_path / "jax.py").write_text("")
    ended = run(HOSTILE_AGENT, PYTHONPATH=str(tmp_path))
    assert ended.stderr == ""
    # The main thread, the probe's, the one that waits for errands, and the errands.
    assert int(ended.stdout) <= 3 + errands._MOST_ERRANDS
