"""Jobs as users have them: every process of them is found, with its steps, ranges and stacks."""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Callable

import pytest
from tests.e2e.conftest import Job

from pilotlight.export.folded import write_folded
from pilotlight.report.report import report_of

PYTHON = sys.executable
RunJob = Callable[..., Job]
Program = Callable[[str], str]


def test_an_unmodified_program_is_recorded(job: RunJob, program: Program) -> None:
    done = job(
        PYTHON,
        program(
            "def spin(n):\n"
            "    total = 0\n"
            "    for i in range(n): total += i * i\n"
            "    return total\n"
            "def main():\n"
            "    for _ in range(60): spin(100_000)\n"
            "main()\n"
        ),
    )
    assert done.code == 0
    assert {"spin", "main", "<module>"} <= done.functions
    assert [process["how"] for process in done.processes] == ["exit"]


def test_steps_ranges_and_counters_arrive_exactly(job: RunJob, program: Program) -> None:
    done = job(
        PYTHON,
        program(
            "import pilotlight\n"
            "for i in range(500):\n"
            "    pilotlight.step(i)\n"
            "    with pilotlight.annotate('outer'):\n"
            "        with pilotlight.annotate('inner'): pass\n"
            "    pilotlight.counter('loss', i / 2)\n"
        ),
    )
    spans = Counter(name for name in done.names("spans") if name)
    assert spans == {"outer": 500, "inner": 500}
    counters = done.recording.detail("counters")
    assert counters["value"].tolist() == [i / 2 for i in range(500)]
    # The last step is not ended by another.
    assert done.recording.detail("steps")["step"].tolist() == list(range(499))


def test_collectives_phases_and_marks_arrive_exactly(job: RunJob, program: Program) -> None:
    done = job(
        PYTHON,
        program(
            "from pilotlight import _probe\n"
            "for i in range(50):\n"
            "    start = _probe.ticks()\n"
            "    with _probe.Range('forward', 3): pass\n"
            "    end = _probe.ticks()\n"
            "    _probe.collective('all_reduce', 'dp', i, 4096, 'float32', 1, 4,\n"
            "                      start, end, (end - start) // 2, 2)\n"
            "    _probe.mark('recompiled', -i)\n"
        ),
    )
    assert set(done.names("spans")) - {""} == {"forward"}
    assert done.recording.detail("spans")["kind"].tolist().count(3) == 50
    marks = done.recording.detail("marks")
    assert marks["value"][marks["kind"] == 1].tolist() == [-i for i in range(50)]
    collectives = done.recording.detail("collectives")
    assert collectives["sequence"].tolist() == list(range(50))
    assert set(collectives["bytes"].tolist()) == {4096}
    assert (collectives["rank"][0], collectives["world_size"][0]) == (1, 4)
    names = done.recording.names
    for column, text in (("name", "all_reduce"), ("group", "dp"), ("dtype", "float32")):
        found = names.find(collectives["process"], collectives[column])
        assert {names.texts[number] for number in found.tolist()} == {text}
    assert (collectives["duration_ns"] > 0).all()
    half = abs(collectives["wait_ns"] * 2 - collectives["duration_ns"])
    assert (half <= 4).all()


def test_threads_are_named_although_the_main_thread_only_waits(
    job: RunJob, program: Program
) -> None:
    done = job(
        PYTHON,
        program(
            "import threading, time\n"
            "def work():\n"
            "    end = time.monotonic() + 0.5\n"
            "    while time.monotonic() < end: sum(range(1000))\n"
            "names = ['feeder', 'a long name with ü in it']\n"
            "threads = [threading.Thread(target=work, name=name) for name in names]\n"
            "for thread in threads: thread.start()\n"
            "for thread in threads: thread.join()\n"
        ),
    )
    names = set(done.recording.thread_names.values())
    assert {"feeder", "a long name with ü in it"} <= names


def test_a_thread_for_each_request_does_not_fill_the_arena_with_names(
    job: RunJob, program: Program
) -> None:
    done = job(
        PYTHON,
        program(
            "import threading, time\n"
            "def handle():\n"
            "    pass\n"
            "for _ in range(3000):\n"
            "    thread = threading.Thread(target=handle)\n"
            "    thread.start()\n"
            "    thread.join()\n"
            "def work():\n"
            "    end = time.monotonic() + 0.5\n"
            "    while time.monotonic() < end: sum(range(1000))\n"
            "thread = threading.Thread(target=work, name='worker 12')\n"
            "thread.start()\n"
            "thread.join()\n"
        ),
    )
    assert "worker #" in done.recording.thread_names.values()


def test_names_of_threads_are_bounded_in_a_forked_server_too(job: RunJob, program: Program) -> None:
    done = job(
        PYTHON,
        program(
            "import os, threading, time, pilotlight\n"
            "for i in range(5000):\n"
            "    with pilotlight.annotate(f'range {i}'): pass\n"
            "def start(work, **how):\n"
            "    thread = threading.Thread(target=work, **how)\n"
            "    thread.start()\n"
            "    thread.join()\n"
            "start(int, name='beyond all names that the child will have')\n"
            "def work():\n"
            "    end = time.monotonic() + 0.5\n"
            "    while time.monotonic() < end: sum(range(1000))\n"
            "child = os.fork()\n"
            "if child: os.waitpid(child, 0)\n"
            "else:\n"
            "    for _ in range(1500): start(int)\n"
            "    start(work, name='worker 12')\n"
        ),
    )
    assert "worker #" in done.recording.thread_names.values()


def test_garbage_collections_are_recorded(job: RunJob, program: Program) -> None:
    done = job(PYTHON, program("import gc\nfor _ in range(7): gc.collect()\n"))
    spans = done.recording.detail("spans")
    assert int((spans["kind"] == 2).sum()) >= 7


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_every_start_method_are_recorded(
    job: RunJob, program: Program, method: str
) -> None:
    done = job(
        PYTHON,
        program(
            "import multiprocessing, pilotlight\n"
            "def work(i):\n"
            "    with pilotlight.annotate(f'worker {i}'): sum(range(1000))\n"
            "    return i\n"
            "if __name__ == '__main__':\n"
            f"    context = multiprocessing.get_context({method!r})\n"
            "    workers = [context.Process(target=work, args=(i,)) for i in range(3)]\n"
            "    for worker in workers: worker.start()\n"
            "    for worker in workers: worker.join()\n"
        ),
    )
    assert done.code == 0, done.err
    assert {"worker 0", "worker 1", "worker 2"} <= set(done.names("spans"))
    ended = [p["how"] for p in done.processes if p["identity"]["role"] == "child"]
    assert ended.count("exit") >= 3


def test_a_fork_in_a_threaded_process_gives_a_recorded_child(job: RunJob, program: Program) -> None:
    done = job(
        PYTHON,
        program(
            "import os, threading, warnings, pilotlight\n"
            "warnings.simplefilter('ignore')\n"
            "stop = threading.Event()\n"
            "def busy():\n"
            "    while not stop.is_set():\n"
            "        with pilotlight.annotate('busy'): pass\n"
            "threads = [threading.Thread(target=busy) for _ in range(4)]\n"
            "for thread in threads: thread.start()\n"
            "for i in range(20):\n"
            "    pid = os.fork()\n"
            "    if pid == 0:\n"
            "        with pilotlight.annotate(f'child {i}'): pass\n"
            "        os._exit(0)\n"
            "    assert os.waitpid(pid, 0)[1] == 0\n"
            "stop.set()\n"
            "for thread in threads: thread.join()\n"
        ),
    )
    assert done.code == 0, done.err
    assert {f"child {i}" for i in range(20)} <= set(done.names("spans"))


def test_a_child_that_another_thread_forked_ends_with_its_last_thread(
    job: RunJob, program: Program
) -> None:
    done = job(
        PYTHON,
        program(
            "import os, threading, time\n"
            "def last(): time.sleep(0.5); print('last', flush=True)\n"
            "def work():\n"
            "    child = os.fork()\n"
            "    if child: print('ended', os.waitpid(child, 0)[1], flush=True)\n"
            "    else: threading.Thread(target=last).start()\n"
            "thread = threading.Thread(target=work)\n"
            "thread.start()\n"
            "thread.join()\n"
        ),
        timeout=30,
    )
    assert (done.code, done.out) == (0, "last\nended 0\n"), done.err
    assert len(done.processes) == 2


def test_a_forked_child_has_stacks_of_its_own(job: RunJob, program: Program) -> None:
    done = job(
        PYTHON,
        program(
            "import os, time\n"
            "def spin(seconds):\n"
            "    end = time.monotonic() + seconds\n"
            "    while time.monotonic() < end: sum(range(1000))\n"
            "def before(depth):\n"
            "    return before(depth - 1) if depth else spin(0.3)\n"
            "def middle(): spin(0.6)\n"
            "def child(): middle()\n"
            "def main():\n"
            "    for depth in range(4): before(depth)\n"
            "    spin(0.2)\n"
            "    pid = os.fork()\n"
            "    if pid: return os.waitpid(pid, 0)\n"
            "    child()\n"
            "main()\n"
        ),
    )
    assert done.code == 0, done.err
    recording, folded = done.recording, io.BytesIO()
    write_folded(recording, folded)
    forked = f"pid {done.processes[1]['pid']};MainThread;"
    lines = [line.rsplit(" ", 1) for line in folded.getvalue().decode().splitlines()]
    times = {stack: int(us) for stack, us in lines if stack.startswith(forked)}
    assert times[f"{forked}<module>;main;child;middle;spin"] > 0.9 * sum(times.values())
    assert recording.warnings == []


def test_a_process_that_ends_at_once_is_seen(job: RunJob) -> None:
    done = job(PYTHON, "-c", "import os; os._exit(3)")
    assert done.code == 3
    assert len(done.processes) == 1


def test_how_each_process_ended_is_told(job: RunJob, program: Program) -> None:
    done = job(
        PYTHON,
        program(
            "import os, signal, time\n"
            "def child(end):\n"
            "    pid = os.fork()\n"
            "    if pid: return pid\n"
            "    time.sleep(0.3)\n"
            "    end()\n"
            "ends = [lambda: os._exit(9), lambda: os.kill(os.getpid(), signal.SIGKILL)]\n"
            "pids = [child(end) for end in ends]\n"
            "time.sleep(0.6)  # the agent sees them before they are waited for\n"
            "for pid in pids: os.waitpid(pid, 0)\n"
            "raise ValueError\n"
        ),
    )
    report = report_of(done.recording)
    found = [(one.how, one.exit_code, one.exception) for one in report.processes]
    assert found[0] == ("exit", 1, "ValueError")
    # The two children reach the agent in either order.
    assert sorted(found[1:]) == [("died", -9, ""), ("exit", 9, "")]
    parent, *children = report.processes
    assert all(one.duration_ns < parent.duration_ns - 200_000_000 for one in children)


def test_an_exception_that_somebody_caught_is_not_what_ended_the_program(
    job: RunJob, program: Program
) -> None:
    done = job(
        PYTHON,
        program(
            "import sys, code\n"
            "shell = code.InteractiveInterpreter()\n"
            "sys.stderr = open('/dev/null', 'w')\n"
            "shell.runcode('1 / 0')\n"
            "assert sys.last_type is ZeroDivisionError\n"
            "sys.exit(4)\n"
        ),
    )
    assert [(one.exit_code, one.exception) for one in report_of(done.recording).processes] == [
        (4, "")
    ]


def test_exec_with_environment_goes_on_as_a_new_process(job: RunJob, program: Program) -> None:
    done = job(
        PYTHON,
        program(
            "import os, sys, pilotlight\n"
            "name = 'second' if sys.argv[1:] else 'first'\n"
            "with pilotlight.annotate(name): pass\n"
            "if not sys.argv[1:]: os.execv(sys.executable, [sys.executable, __file__, 'again'])\n"
        ),
    )
    assert done.code == 0, done.err
    assert {"first", "second"} <= set(done.names("spans"))


def test_what_was_published_before_an_exec_without_environment_is_kept(
    job: RunJob, program: Program
) -> None:
    done = job(
        PYTHON,
        program(
            "import os, pilotlight\n"
            "with pilotlight.annotate('before'): pass\n"
            "os.execve('/bin/sh', ['sh', '-c', 'exit 9'], {})\n"
        ),
    )
    assert done.code == 9
    assert "before" in done.names("spans")


def test_ten_thousand_short_threads_lose_nothing(job: RunJob, program: Program) -> None:
    done = job(
        PYTHON,
        program(
            "import threading, pilotlight\n"
            "def one():\n"
            "    with pilotlight.annotate('short'): pass\n"
            "for _ in range(1000):\n"
            "    threads = [threading.Thread(target=one) for _ in range(10)]\n"
            "    for thread in threads: thread.start()\n"
            "    for thread in threads: thread.join()\n"
        ),
    )
    assert done.code == 0
    spans = Counter(done.names("spans"))["short"]
    gaps = int(done.recording.detail("gaps")["count"].sum())
    # Two records make a span; each that is missing is counted.
    assert spans == 10_000 or 2 * (10_000 - spans) <= gaps
    assert spans > 9_000


def test_more_threads_than_rings_are_counted_not_lost_in_silence(
    job: RunJob, program: Program
) -> None:
    done = job(
        PYTHON,
        program(
            "import gc, threading, pilotlight\n"
            "gc.disable()  # a collection in a thread without a ring is two more records\n"
            "barrier = threading.Barrier(100)\n"
            "def one():\n"
            "    barrier.wait()\n"
            "    with pilotlight.annotate('crowded'): pass\n"
            "    barrier.wait()\n"
            "threads = [threading.Thread(target=one) for _ in range(100)]\n"
            "for thread in threads: thread.start()\n"
            "for thread in threads: thread.join()\n"
        ),
    )
    spans = Counter(done.names("spans"))["crowded"]
    gaps = done.recording.detail("gaps")
    no_ring = int(gaps["count"][gaps["reason"] == 2].sum())
    assert spans < 100
    assert no_ring == 2 * (100 - spans)


def test_a_job_with_its_own_segv_handler_keeps_it(job: RunJob, program: Program) -> None:
    done = job(
        PYTHON,
        program(
            "import ctypes, faulthandler, os, signal, time\n"
            "libc = ctypes.CDLL(None)\n"
            "HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int)\n"
            "hits = []\n"
            "@HANDLER\n"
            "def handler(number): os._exit(77)\n"
            "libc.signal(signal.SIGSEGV, handler)\n"
            "end = time.monotonic() + 0.5\n"
            "while time.monotonic() < end: sum(range(1000))\n"
            "os.kill(os.getpid(), signal.SIGSEGV)\n"
        ),
    )
    assert done.code == 77
    assert len(done.recording.detail("samples")["stack"]) > 10


def test_a_job_that_closes_all_its_descriptors_is_left_in_peace(
    job: RunJob, program: Program
) -> None:
    done = job(
        PYTHON,
        program(
            "import os, time, tempfile, threading\n"
            "threads = [threading.Thread(target=time.sleep, args=(1.0,)) for _ in range(4)]\n"
            "for thread in threads: thread.start()\n"
            "time.sleep(0.3)\n"
            "os.closerange(3, 1024)\n"
            "files = [open('/dev/zero', 'rb') for _ in range(40)]\n"
            "for thread in threads: thread.join()\n"
            "time.sleep(0.5)\n"
            "assert all(len(os.read(file.fileno(), 8)) == 8 for file in files)\n"
        ),
    )
    assert done.code == 0, done.err
    samples = done.recording.detail("samples")
    # Also after it had closed them: the probe's thread has files of its own.
    assert samples["time_ns"].max() - samples["time_ns"].min() > 1.1e9


@pytest.mark.timeout(300)
def test_torchrun_ranks_and_loader_workers_are_told_apart(job: RunJob, program: Program) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    done = job(
        PYTHON,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        program(
            "import torch, torch.distributed as dist, pilotlight\n"
            "dist.init_process_group('gloo')\n"
            "data = torch.utils.data.TensorDataset(torch.randn(64, 8))\n"
            "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))\n"
            "for x, in torch.utils.data.DataLoader(data, batch_size=4, num_workers=1):\n"
            "    pilotlight.step()\n"
            "    model(x).sum().backward()\n"
            "dist.destroy_process_group()\n"
        ),
        timeout=240,
    )
    assert done.code == 0, done.err
    roles = Counter(
        (process["identity"]["role"], process["identity"]["rank"]) for process in done.processes
    )
    assert (roles["rank", 0], roles["rank", 1]) == (1, 1)
    assert (roles["child", 0], roles["child", 1]) == (1, 1)
    assert len(done.recording.detail("steps")["step"]) == 2 * 15


def test_the_first_value_that_a_thread_tells_is_the_one_it_told(
    job: RunJob, program: Program
) -> None:
    text = """
import threading, pilotlight
def tell(): pilotlight.counter("told", 3.25)
for _ in range(5):
    thread = threading.Thread(target=tell)
    thread.start()
    thread.join()
"""
    done = job(PYTHON, program(text))
    told = [name == "told" for name in done.names("counters")]
    assert done.recording.detail("counters")["value"][told].tolist() == [3.25] * 5
