from __future__ import annotations

from pathlib import Path

from pilotlight.trace.memory import available_bytes


def test_the_tightest_group_decides(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  9000 kB\nMemAvailable:    8000 kB\n")
    membership = tmp_path / "cgroup"
    membership.write_text("0::/job/step\n")
    group = tmp_path / "groups" / "job"
    (group / "step").mkdir(parents=True)
    (group / "step" / "memory.max").write_text("max\n")
    assert available_bytes(meminfo, membership, tmp_path / "groups") == 8000 * 1024
    (group / "memory.max").write_text("5000\n")
    (group / "memory.current").write_text("2000\n")
    assert available_bytes(meminfo, membership, tmp_path / "groups") == 3000


def test_without_any_of_the_files_there_is_no_limit(tmp_path: Path) -> None:
    assert available_bytes(tmp_path / "a", tmp_path / "b", tmp_path / "c") == 1 << 62
