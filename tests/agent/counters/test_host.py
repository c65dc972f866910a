from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from pilotlight.agent.counters.cgroup import Cgroup, group_folders
from pilotlight.agent.counters.host import Host
from pilotlight.agent.counters.infiniband import Infiniband
from pilotlight.agent.counters.kills import Kills
from pilotlight.agent.counters.rates import Rates
from pilotlight.agent.counters.source import Reading, SourceMissing

Tree = Callable[[dict[str, str]], Path]

PROC = {
    "proc/stat": "cpu  100 0 50 800 10 0 0 40 0 0\nctxt 1000\nprocs_running 7\nprocs_blocked 2\n",
    "proc/loadavg": "3.50 2 1 2/300 42\n",
    "proc/meminfo": "MemTotal: 1000 kB\nMemAvailable: 400 kB\nHugePages_Total: 0\n",
    "proc/vmstat": "pgmajfault 5\noom_kill 3\npswpin 0\npswpout 0\n",
    "proc/diskstats": (
        "259 0 nvme0n1 10 0 80 1 20 0 160 2 0 500 900\n7 0 loop0 9 0 9 9 9 0 9 9 0 9 9\n"
    ),
    "proc/net/dev": (
        "a\nb\n  eth0: 1000 10 1 1 0 0 0 0 2000 20 0 0 0 0 0 0\n"
        "    lo: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\n"
    ),
    "proc/pressure/cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000\n",
    "proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    "proc/pressure/io": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    "sys/block/nvme0n1/size": "1",
    "sys/block/loop0/size": "1",
    "sys/devices/system/node/node0/numastat": "numa_hit 9\nnuma_miss 4\nother_node 1\n",
    "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal: 9 kB\nNode 0 MemFree: 5 kB\n",
}


def said(reading: Reading) -> dict[str, float]:
    return {f"{counter.device} {counter.name}": value for counter, value in reading.values}


def test_levels_are_there_at_once_and_rates_from_the_second_reading(tree: Tree) -> None:
    root = tree(PROC)
    source = Host(root)
    first = said(source.read())
    assert first["host run_queue"] == 7 and first["host load"] == 3.5
    assert first["host memory_available"] == 400 * 1024 and first["numa0 memory_free"] == 5 * 1024
    assert "host cpu" not in first
    time.sleep(0.1)
    busier = PROC["proc/stat"].replace("100 0 50", "110 0 50").replace("ctxt 1000", "ctxt 1500")
    tree({"proc/stat": busier, "proc/net/dev": PROC["proc/net/dev"].replace(" 1000 ", " 3000 ")})
    second = said(source.read())
    ticks = 10 / os.sysconf("SC_CLK_TCK") * 100 / (os.cpu_count() or 1)
    elapsed_s = 500 / second["host context_switches"]
    assert 0.09 < elapsed_s < 2
    assert second["host cpu"] * elapsed_s == pytest.approx(ticks)
    assert second["eth0 received"] * elapsed_s == pytest.approx(2000, rel=0.5)
    assert second["host pressure_cpu_some"] == 0
    assert not any(name.startswith(("loop0", "lo ")) for name in second)


def test_a_wait_in_the_middle_of_a_reading_makes_no_share_of_more_than_all(tree: Tree) -> None:
    root = tree(PROC)
    source = Host(root)
    source.read()
    began_ns = time.monotonic_ns()
    slow = root / "proc/loadavg"
    slow.unlink()
    os.mkfifo(slow)

    def answer_late() -> None:
        time.sleep(0.5)
        total_us = 1000 + (time.monotonic_ns() - began_ns) // 1000
        tree({"proc/pressure/cpu": f"some avg10=0.00 total={total_us}\n"})
        slow.write_text(PROC["proc/loadavg"])

    thread = Thread(target=answer_late)
    thread.start()
    second = said(source.read())
    thread.join()
    assert 0 < second["host pressure_cpu_some"] <= 100.5


def test_a_file_that_is_not_there_costs_only_its_own_counters(tree: Tree) -> None:
    root = tree(PROC)
    (root / "proc/pressure/cpu").unlink()
    reading = Host(root).read()
    assert "pressure" in reading.missing and said(reading)["host run_queue"] == 7


def test_files_that_make_no_sense_cost_only_their_own_counters(tree: Tree) -> None:
    root = tree({**PROC, "proc/stat": "cpu x y\n", "proc/diskstats": "short\n"})
    reading = Host(root).read()
    assert {"cpu", "disks"} <= reading.missing.keys() and said(reading)["host load"] == 3.5


def test_this_machine_can_be_read() -> None:
    source = Host()
    source.read()
    time.sleep(0.05)
    found = said(source.read())
    assert 0 <= found["host cpu"] <= 150 and found["host memory_total"] > 0


def test_a_count_that_goes_back_gives_no_rate_once() -> None:
    rates = Rates()
    assert rates.per_second("a", 0, 100) is None
    assert rates.per_second("a", 10**9, 300) == 200
    assert rates.per_second("a", 2 * 10**9, 50) is None
    assert rates.per_second("a", 3 * 10**9, 60) == 10


PORT = "sys/class/infiniband/mlx5_0/ports/1"


def test_an_infiniband_port_says_bytes_and_errors(tree: Tree) -> None:
    files = {
        f"{PORT}/state": "4: ACTIVE\n",
        f"{PORT}/counters/port_rcv_data": "1000\n",
        f"{PORT}/counters/symbol_error": "3\n",
        f"{PORT}/hw_counters/out_of_sequence": "N/A (no PMA)\n",
    }
    root = tree(files)
    source = Infiniband(root)
    source.read()
    time.sleep(0.1)
    tree({f"{PORT}/counters/port_rcv_data": "2000\n", f"{PORT}/state": "1: DOWN\n"})
    reading = source.read()
    found = said(reading)
    assert 4000 / 2 < found["mlx5_0:1 received"] < 4000 / 0.09
    assert found["mlx5_0:1 symbol_errors"] == 3 and "mlx5_0:1 out_of_sequence" not in found
    (event,) = reading.events
    assert (event.device, event.name, event.value) == ("mlx5_0:1", "link", 1)


def test_a_machine_without_infiniband_says_so(tree: Tree) -> None:
    with pytest.raises(SourceMissing, match="InfiniBand"):
        Infiniband(tree({"sys/x": ""}))


def test_throttling_and_memory_of_the_jobs_group_version_2(tree: Tree) -> None:
    group = "sys/fs/cgroup/jobs/a"
    root = tree(
        {
            "proc/42/cgroup": "0::/jobs/a\n",
            f"{group}/cpu.stat": "usage_usec 5\nnr_throttled 1\nthrottled_usec 1000\n",
            f"{group}/memory.current": "4096\n",
            f"{group}/memory.max": "max\n",
        }
    )
    source = Cgroup(lambda: [42, 43], root)
    source.read()
    time.sleep(0.1)
    tree(
        {
            f"{group}/cpu.stat": "nr_throttled 3\nthrottled_usec 51000\n",
        }
    )
    reading = source.read()
    found = said(reading)
    assert 2 < found["cgroup jobs/a throttled"] <= 56
    assert found["cgroup jobs/a memory_used"] == 4096
    assert "cgroup jobs/a memory_limit" not in found


@pytest.mark.parametrize(
    ("groups", "file"),
    [
        ("0::/jobs/a\n", "sys/fs/cgroup/jobs/a/memory.events"),
        ("4:memory:/jobs/a\n0::/\n", "sys/fs/cgroup/memory/jobs/a/memory.oom_control"),
    ],
    ids=["version 2", "version 1"],
)
def test_processes_killed_for_memory_are_told_once(tree: Tree, groups: str, file: str) -> None:
    root = tree({"proc/42/cgroup": groups, file: "oom 1\noom_kill 3\n"})
    kills = Kills(root)
    for pid in (42, 42, 43):
        kills.watch(pid)
    assert kills.news() == []
    tree({file: "oom_kill 5\n"})
    # The group is still there when the last of its processes is not.
    (root / "proc/42/cgroup").unlink()
    (event,) = kills.news()
    assert (event.device, event.name, event.value) == ("cgroup jobs/a", "oom_kill", 2)
    assert kills.news() == []
    (root / file).unlink()
    assert kills.news() == []


def test_version_1_has_a_folder_a_controller() -> None:
    text = "4:memory:/m/x\n2:cpu,cpuacct:/c/x\n0::/\n"
    place = Path("/sys/fs/cgroup")
    assert group_folders(text, place) == (place / "cpu/c/x", place / "memory/m/x")


@pytest.mark.parametrize("text", ["", "nonsense", "::", "0::/\n\n"])
def test_any_cgroup_file_gives_some_folder(text: str) -> None:
    assert len(group_folders(text, Path("/x"))) == 2
