from __future__ import annotations

import time
from pathlib import Path

import pytest

from pilotlight.agent.counters.source import Counter, Reading, Source, SourceMissing
from pilotlight.doctor import devices
from pilotlight.doctor.devices import check_source, has_gpu_of, profiling_checks
from pilotlight.permission import Facts


class Plain:
    name = "plain"

    def __init__(self, missing: dict[str, str], wait_s: float = 0) -> None:
        self.missing = missing
        self.wait_s = wait_s

    def read(self) -> Reading:
        time.sleep(self.wait_s)
        return Reading(((Counter("gpu0", "power", "W"), 1.0),), (), self.missing)

    def describe(self) -> str:
        return "1 x Test"


def missing() -> Source:
    raise SourceMissing("NVML does not start: driver not loaded", "modprobe nvidia")


def test_a_source_that_answers_is_well() -> None:
    check = check_source("nvml", lambda: Plain({}))
    assert check.state == "ok" and "1 x Test; 1 values" in check.detail


def test_what_the_device_does_not_have_is_said_and_no_fault() -> None:
    check = check_source("nvml", lambda: Plain({"gpu0 gpm": "not supported"}))
    assert check.state == "ok" and "gpu0 gpm: not supported" in check.detail


def test_what_a_permission_would_add_is_named() -> None:
    check = check_source("nvml", lambda: Plain({"gpu0 power": "no permission"}))
    assert check.state == "limited" and "/dev/nvidia" in check.fix


def test_a_lost_gpu_has_a_command() -> None:
    check = check_source("nvml", lambda: Plain({"gpu3 gpu": "gpu is lost"}))
    assert "nvidia-smi --gpu-reset -i 3," in check.fix


def test_a_driver_that_does_not_answer_does_not_hold_up_the_doctor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(devices, "_WAIT_S", 0.1)
    check = check_source("nvml", lambda: Plain({}, wait_s=2))
    assert check.state == "limited" and "does not answer" in check.detail


def test_no_driver_is_a_fault_only_where_there_is_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_is_expected", lambda name: False)
    assert check_source("nvml", missing).state == "ok"
    monkeypatch.setattr(devices, "_is_expected", lambda name: True)
    check = check_source("nvml", missing)
    assert check.state == "limited" and check.fix == "modprobe nvidia"


def test_a_gpu_is_known_by_its_place_on_the_bus(tmp_path: Path) -> None:
    device = tmp_path / "0000:01:00.0"
    device.mkdir()
    (device / "vendor").write_text("0x10de\n")
    (device / "class").write_text("0x030200\n")
    assert has_gpu_of("0x10de", tmp_path) and not has_gpu_of("0x1002", tmp_path)


def test_profiling_names_what_is_missing_for_each_way() -> None:
    facts = Facts("RmProfilingAdminOnly: 1\n", 0, None, frozenset(), False, ())
    checks = profiling_checks(facts)
    assert [check.state for check in checks] == ["limited"] * 3
    assert all("libcupti was not found" in check.detail for check in checks)


def test_without_nvidias_driver_there_is_nothing_to_say_of_profiling() -> None:
    assert profiling_checks(Facts(None, 0, None, frozenset(), False, ())) == []
