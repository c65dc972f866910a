from __future__ import annotations

import ast
import importlib.util
import re
import types
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest

from pilotlight.agent.counters import amd
from pilotlight.agent.counters.amd import Amd, open_amd
from pilotlight.agent.counters.source import Reading, SourceFailed, SourceMissing


class AmdSmiException(Exception):
    pass


class AmdSmiClkType(IntEnum):
    GFX = 1
    MEM = 5


class AmdSmiTemperatureType(IntEnum):
    HOTSPOT = 1
    VRAM = 3


class AmdSmiTemperatureMetric(IntEnum):
    CURRENT = 0


class Gpus:
    """Two GPUs behind amdsmi's functions; `broken` names functions that raise, by handle."""

    def __init__(self) -> None:
        self.broken: set[tuple[str, str]] = set()
        self.module: Any = types.ModuleType("amdsmi")
        self.module.AmdSmiException = AmdSmiException
        self.module.AmdSmiClkType = AmdSmiClkType
        self.module.AmdSmiTemperatureType = AmdSmiTemperatureType
        self.module.AmdSmiTemperatureMetric = AmdSmiTemperatureMetric
        self.module.amdsmi_init = lambda: None
        self.module.amdsmi_get_processor_handles = lambda: ["a", "b"]
        for name, answer in (
            ("amdsmi_get_gpu_activity", {"gfx_activity": 77, "umc_activity": "N/A"}),
            (
                "amdsmi_get_power_info",
                {"current_socket_power": 0xFFFFFFFF, "average_socket_power": 510},
            ),
            ("amdsmi_get_clock_info", {"clk": 2100}),
            ("amdsmi_get_temp_metric", 66),
            ("amdsmi_get_gpu_vram_usage", {"vram_used": 1024, "vram_total": 196608}),
            (
                "amdsmi_get_energy_count",
                {"energy_accumulator": 2_000_000, "counter_resolution": 15.3},
            ),
            ("amdsmi_get_gpu_total_ecc_count", {"correctable_count": 2, "uncorrectable_count": 0}),
            ("amdsmi_get_pcie_info", {"pcie_metric": {"pcie_replay_count": 1}}),
            ("amdsmi_get_gpu_process_list", [{"pid": 9, "mem": 5}]),
        ):
            setattr(self.module, name, self._answering(name, answer))

    def _answering(self, name: str, answer: object) -> object:
        def function(handle: str, *arguments: object) -> object:
            assert handle in ("a", "b")
            if (name, handle) in self.broken or ("*", handle) in self.broken:
                raise AmdSmiException("AMDSMI_STATUS_NOT_SUPPORTED\n - no")
            return answer

        return function


@pytest.fixture
def gpus() -> Gpus:
    return Gpus()


def said(reading: Reading, device: str = "gpu0") -> dict[str, float]:
    return {counter.name: value for counter, value in reading.values if counter.device == device}


def test_the_names_are_those_of_nvml(gpus: Gpus) -> None:
    found = said(Amd(gpus.module).read())
    assert found["utilization"] == 77 and found["power"] == 510 and found["temperature"] == 66
    assert found["memory_used"] == 1 << 30 and found["sm_clock"] == 2100
    assert found["energy"] == pytest.approx(30.6) and found["ecc_corrected"] == 2
    assert found["memory_of_pid_9"] == 5


def test_what_a_chip_does_not_have_is_left_out(gpus: Gpus) -> None:
    assert "memory_utilization" not in said(Amd(gpus.module).read())


def test_a_function_that_fails_costs_its_own_counters(gpus: Gpus) -> None:
    gpus.broken.add(("amdsmi_get_clock_info", "a"))
    reading = Amd(gpus.module).read()
    assert "sm_clock" not in said(reading) and "sm_clock" in said(reading, "gpu1")
    assert reading.missing["gpu0 clocks"] == "AMDSMI_STATUS_NOT_SUPPORTED - no"


def test_another_version_of_the_package_is_no_fault_of_the_agent(gpus: Gpus) -> None:
    del gpus.module.amdsmi_get_gpu_vram_usage
    reading = Amd(gpus.module).read()
    assert "another version" in reading.missing["gpu0 memory"] and "power" in said(reading)


def test_a_lost_gpu_is_an_event_and_its_return_too(gpus: Gpus) -> None:
    source = Amd(gpus.module)
    gpus.broken.add(("*", "a"))
    assert [(e.device, e.name) for e in source.read().events] == [("gpu0", "lost")]
    assert source.read().events == ()
    gpus.broken.clear()
    assert [(e.device, e.name) for e in source.read().events] == [("gpu0", "back")]
    gpus.broken = {("*", "a"), ("*", "b")}
    source.read()
    with pytest.raises(SourceFailed):
        source.read()


def test_no_gpu_and_no_library_are_missing(gpus: Gpus, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus.module.amdsmi_get_processor_handles = list
    with pytest.raises(SourceMissing, match="no GPU"):
        Amd(gpus.module)
    monkeypatch.setattr(amd, "_LIBRARIES", ("libno-such-thing.so",))
    with pytest.raises(SourceMissing, match=r"libamd_smi\.so"):
        open_amd()


def test_every_name_that_we_use_is_in_the_real_package() -> None:
    spec = importlib.util.find_spec("amdsmi")
    if spec is None or spec.origin is None:
        pytest.skip("the package amdsmi is not installed")
    tree = ast.parse(Path(spec.origin).with_name("amdsmi_interface.py").read_text())
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    used = set(re.findall(r"amdsmi_[a-z_]+", Path(amd.__file__).read_text()))
    assert used and used <= functions
