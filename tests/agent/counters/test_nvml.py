from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pilotlight.agent.counters import nvml_device, nvml_library
from pilotlight.agent.counters.nvml import Nvml
from pilotlight.agent.counters.nvml_library import Error
from pilotlight.agent.counters.source import Counter, Reading, SourceFailed, SourceMissing

if TYPE_CHECKING:
    from .conftest import Orders


@pytest.fixture
def library(nvml_path: Path, tmp_path: Path, orders: Orders) -> str:
    """A copy: each test gets a library that nobody has used."""
    return shutil.copy(nvml_path, tmp_path / "libnvidia-ml.so.1")


def values(reading: Reading, device: str = "gpu0") -> dict[str, float]:
    return {counter.name: value for counter, value in reading.values if counter.device == device}


def read_twice(source: Nvml) -> Reading:
    source.read()
    time.sleep(0.15)
    return source.read()


def test_our_structs_lie_as_in_nvidias_header(nvml_layout: dict[str, int]) -> None:
    ours = {
        "nvmlUtilization_t": ctypes.sizeof(nvml_library.Utilization),
        "nvmlMemory_t": ctypes.sizeof(nvml_library.Memory),
        "nvmlMemory_t.used": nvml_library.Memory.used.offset,
        "nvmlFieldValue_t": ctypes.sizeof(nvml_library.FieldValue),
        "nvmlFieldValue_t.valueType": nvml_library.FieldValue.value_type.offset,
        "nvmlFieldValue_t.nvmlReturn": nvml_library.FieldValue.error.offset,
        "nvmlFieldValue_t.value": nvml_library.FieldValue.value.offset,
        "nvmlProcessInfo_t": ctypes.sizeof(nvml_library.ProcessInfo),
        "nvmlProcessInfo_t.usedGpuMemory": nvml_library.ProcessInfo.used_bytes.offset,
        "nvmlEventData_t": ctypes.sizeof(nvml_library.EventData),
        "nvmlEventData_t.eventType": nvml_library.EventData.kind.offset,
        "nvmlEventData_t.eventData": nvml_library.EventData.data.offset,
        "nvmlGpmSupport_t": ctypes.sizeof(nvml_library.GpmSupport),
        "nvmlGpmMetric_t": ctypes.sizeof(nvml_library.GpmMetric),
        "nvmlGpmMetric_t.value": nvml_library.GpmMetric.value.offset,
        "nvmlGpmMetricsGet_t.metrics": nvml_library.GpmMetricsGet.metrics.offset,
        "nvmlGpmMetricsGet_t.sample1": nvml_library.GpmMetricsGet.sample1.offset,
    }
    assert ours == {name: nvml_layout[name] for name in ours}


def test_our_numbers_are_those_of_the_header(nvml_layout: dict[str, int]) -> None:
    errors = {name: n for name, n in nvml_layout.items() if name.startswith("NVML_ERROR_")}
    assert errors == {name: Error[name.removeprefix("NVML_ERROR_")].value for name in errors}
    fields = {n for name, n in nvml_layout.items() if name.startswith("NVML_FI_DEV_")}
    assert fields == set(nvml_device.FIELDS)
    assert nvml_layout["NVML_GPM_METRIC_MAX"] <= nvml_library.MOST_METRICS


def test_a_gpu_says_all_that_the_issue_asks_for(library: str) -> None:
    said = values(read_twice(Nvml(library)))
    assert said["utilization"] == 90 and said["sm_clock"] == 1755 and said["power"] == 400
    assert said["temperature"] == 60 and said["memory_temperature"] == 70
    assert said["memory_used"] == 80 * 2**30 // 100 * 50 and said["ecc_corrected"] == 7
    assert said["nvlink_tx"] == pytest.approx(1024e6, rel=0.05)
    assert said["pcie_rx"] == pytest.approx(1e6, rel=0.05)
    assert said["sm_active"] == 67.5 and said["tensor_active"] == 40 and said["dram_active"] == 45
    assert {"throttle_reasons", "energy", "row_remap_pending", "held_by_power"} <= said.keys()


def test_processes_are_listed_with_their_memory_in_every_tenth_reading(library: str) -> None:
    source = Nvml(library)
    assert values(source.read())["memory_of_pid_4711"] == 3 * 2**30
    time.sleep(0.11)
    assert "processes" not in values(source.read())


def test_the_share_of_time_that_a_policy_holds_the_clocks_is_a_rate(
    library: str, orders: Orders
) -> None:
    orders("set 0 throttle 4")
    said = values(read_twice(Nvml(library)))
    assert said["throttle_reasons"] == 4
    assert said["held_by_power"] == pytest.approx(50, rel=0.05)


def test_an_old_driver_gives_what_it_has(
    old_nvml_path: Path, tmp_path: Path, orders: Orders
) -> None:
    source = Nvml(shutil.copy(old_nvml_path, tmp_path / "old.so"))
    reading = source.read()
    said = values(reading)
    assert said["utilization"] == 90 and said["throttle_reasons"] == 0
    assert said["pcie_tx"] == 1000 * 1024 and said["processes"] == 1
    assert "sm_active" not in said
    assert reading.missing["gpu0 gpm gpu0"] == "function not found"


def test_gpm_that_the_device_lacks_is_named_as_missing(library: str, orders: Orders) -> None:
    orders("gpm 0")
    reading = read_twice(Nvml(library))
    assert "sm_active" not in values(reading)
    assert reading.missing["gpu0 gpm gpu0"] == "not supported"


def test_a_partitioned_gpu_is_measured_by_instance(library: str, orders: Orders) -> None:
    orders("devices 1", "mig 1")
    reading = read_twice(Nvml(library))
    assert values(reading, "gpu0/gi1")["sm_active"] == 67.5
    assert "utilization" not in values(reading) and values(reading)["power"] == 400
    assert reading.missing["gpu0 utilization"] == "not supported"


def test_one_call_that_fails_costs_one_counter(library: str, orders: Orders) -> None:
    orders("fail nvmlDeviceGetPowerUsage 999")
    source = Nvml(library)
    reading = source.read()
    assert "power" not in values(reading) and values(reading)["utilization"] == 90
    assert reading.missing["gpu0 power"] == "unknown"
    orders("devices 2")
    time.sleep(0.11)
    again = source.read()
    assert values(again)["power"] == 400 and "gpu0 power" not in again.missing


def test_what_is_not_permitted_is_not_asked_for_each_second(library: str, orders: Orders) -> None:
    orders("fail nvmlDeviceGetPowerUsage 4")
    source = Nvml(library)
    assert source.read().missing["gpu0 power"] == "no permission"
    orders("devices 2")
    time.sleep(0.11)
    assert source.read().missing["gpu0 power"] == "no permission"


def test_a_gpu_that_does_not_say_its_name_is_counted_without_one(
    library: str, orders: Orders
) -> None:
    orders("devices 2", "lost 1")
    assert Nvml(library).describe().startswith("2 x Simulated H100, driver")


def test_a_gpu_that_falls_off_the_bus_is_an_event_and_the_other_goes_on(
    library: str, orders: Orders
) -> None:
    source = Nvml(library)
    source.read()
    orders("lost 0")
    time.sleep(0.11)
    reading = source.read()
    (event,) = reading.events
    assert (event.device, event.name) == ("gpu0", "lost") and "gpu is lost" in event.text
    assert not values(reading) and values(reading, "gpu1")["utilization"] == 89
    assert reading.missing["gpu0 gpu"] == "gpu is lost"
    orders("devices 2")
    back = []
    for _ in range(4):
        time.sleep(0.11)
        back += source.read().events
    assert [(event.device, event.name) for event in back] == [("gpu0", "back")]


def test_when_no_gpu_answers_the_source_has_failed(library: str, orders: Orders) -> None:
    source = Nvml(library)
    orders("lost 0", "lost 1")
    assert {event.name for event in source.read().events} == {"lost"}
    with pytest.raises(SourceFailed, match="gpu0, gpu1"):
        source.read()


def test_an_xid_is_an_event_with_its_meaning_and_comes_once(library: str, orders: Orders) -> None:
    source = Nvml(library)
    orders("xid 1 1 79", "xid 2 0 31")
    events = source.read().events
    assert [(e.device, e.name, e.value) for e in events] == [
        ("gpu1", "xid", 79),
        ("gpu0", "xid", 31),
    ]
    assert events[0].text == "the GPU has fallen off the bus"
    time.sleep(0.11)
    assert source.read().events == ()


@pytest.mark.parametrize(
    ("code", "reason", "fix"),
    [
        (9, "driver not loaded", "modprobe nvidia"),
        (18, "lib rm version mismatch", "reboot"),
        (4, "no permission", "/dev/nvidia"),
        (12345, "NVML error 12345", ""),
    ],
)
def test_a_driver_that_does_not_start_is_missing_with_what_to_do(
    library: str, orders: Orders, code: int, reason: str, fix: str
) -> None:
    orders(f"fail nvmlInit_v2 {code}")
    with pytest.raises(SourceMissing, match=reason) as caught:
        Nvml(library)
    assert fix in caught.value.fix


def test_no_gpu_and_no_library_are_missing(library: str, orders: Orders) -> None:
    orders("devices 0")
    with pytest.raises(SourceMissing, match="no GPU"):
        Nvml(library)
    with pytest.raises(SourceMissing, match="cannot be loaded"):
        Nvml("libnothing-of-that-name.so")


def test_the_simulated_library_ends_a_client_that_breaks_the_rules(
    nvml_path: Path, tmp_path: Path
) -> None:
    program = (
        "import ctypes, sys\n"
        "library = ctypes.CDLL(sys.argv[1])\n"
        "count = ctypes.c_uint()\n"
        "library.nvmlDeviceGetCount_v2(ctypes.byref(count))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, str(nvml_path)], capture_output=True, text=True
    )
    assert ended.returncode == -6
    assert "called before nvmlInit" in ended.stderr


def test_counters_of_two_devices_are_told_apart(library: str) -> None:
    reading = Nvml(library).read()
    found = dict(reading.values)
    assert found[Counter("gpu0", "power", "W")] == 400
    assert found[Counter("gpu1", "power", "W")] == 401
