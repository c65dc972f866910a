"""The NCCL profiler plugin, driven by a stand-in for NCCL, up to the recording."""

from __future__ import annotations

import os
import subprocess
import sys
from os import statvfs
from pathlib import Path

import pytest

from pilotlight.recording.recording import Recording
from pilotlight.report.frameworks import frameworks_of
from pilotlight.report.provider_losses import provider_losses_of

from .programs import LIBRARIES, compiled, record, rows

LIBRARY = str(LIBRARIES / "libnccl-profiler-pilotlight.so")
VERSIONS = range(1, 7)
ASYNCHRONOUS, WAIT_KNOWN = 1, 2
KERNELS = 0x40
Driver = tuple[str, str]
PLAIN, WANTED = {}, {"PILOTLIGHT_NCCL_KERNELS": "1"}


@pytest.fixture(scope="module")
def driver() -> Driver:
    library = compiled("nccl/library.c", "-shared", "-fPIC")
    return str(compiled("nccl/driver.cpp", "-std=c++17")), str(library)


def collectives(recording: Recording) -> list[dict[str, object]]:
    found = rows(recording, "collectives")
    table = recording.detail("collectives")
    order = table["start_ns"].argsort(kind="stable")
    for key in ("group", "dtype"):
        texts = recording.names.find(table["process"], table[key])[order].tolist()
        for row, text in zip(found, texts, strict=True):
            row[key] = recording.names.texts[text]
    return found


def test_our_idea_of_the_interface_is_that_of_nccls_headers() -> None:
    """NCCL_SOURCE names a checkout of NCCL: no registry has these headers."""
    source = os.environ.get("NCCL_SOURCE")
    if source is None:
        pytest.skip("NCCL_SOURCE is not set")
    folder = Path(source) / "src" / "include"
    compiled("nccl/layout.cpp", "-std=c++17", f"-I{folder / 'plugin'}", f"-I{folder}")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_collective_has_its_identity_in_every_version(
    world: Path, driver: Driver, version: int
) -> None:
    recording, _ = record(world, [*driver, LIBRARY, str(version), "train"], WANTED)
    reduces = [row for row in collectives(recording) if row["name"] == "AllReduce"]
    assert [row["sequence"] for row in reduces] == [0, 1, 2]
    for row in reduces:
        assert (row["group"], row["dtype"]) == ("world 000000001234abcd", "float32")
        assert (row["bytes"], row["rank"]) == (4 << 20, 0)
        assert row["world_size"] == (2 if version >= 4 else 0)


@pytest.mark.parametrize("version", [4, 5, 6])
def test_a_collective_lasts_as_long_as_its_kernel_by_the_clock_of_the_gpu(
    world: Path, driver: Driver, version: int
) -> None:
    recording, _ = record(world, [*driver, LIBRARY, str(version), "train"], WANTED)
    reduces = [row for row in collectives(recording) if row["name"] == "AllReduce"]
    assert {row["flags"] for row in reduces} == {0}
    # The driver's proxy thread looks 4 ms late; the GPU says 2 ms.
    assert [row["duration_ns"] for row in reduces] == pytest.approx([2e6] * 3, rel=0.02)


def test_version_3_has_kernels_by_the_clock_of_the_host(world: Path, driver: Driver) -> None:
    recording, _ = record(world, [*driver, LIBRARY, "3", "train"], WANTED)
    reduces = [row for row in collectives(recording) if row["name"] == "AllReduce"]
    assert {row["flags"] for row in reduces} == {0}
    assert all(int(str(row["duration_ns"])) >= 2_000_000 for row in reduces)


@pytest.mark.parametrize(
    ("version", "wish", "mask"),
    [(1, WANTED, 0x6), (3, WANTED, 0x46), (4, PLAIN, 0x6), (5, PLAIN, 0x606), (6, PLAIN, 0x1606)],
)
def test_kernels_are_not_asked_for_unless_they_are_wanted(
    world: Path, driver: Driver, version: int, wish: dict[str, str], mask: int
) -> None:
    _, said = record(world, [*driver, LIBRARY, str(version), "train"], wish)
    assert said == f"mask {mask:#x}\n"


@pytest.mark.parametrize(
    ("version", "nccl", "missing"),
    [(6, "22907", ()), (6, "23102", ("NCCL 23102",)), (4, "22703", ("NCCL 22703",))],
)
def test_kernels_come_on_demand_where_the_version_of_nccl_makes_them_cheap(
    world: Path, driver: Driver, version: int, nccl: str, missing: tuple[str, ...]
) -> None:
    if statvfs("/dev/shm").f_bavail * statvfs("/dev/shm").f_frsize < 4 << 30 and not missing:
        missing = ("/dev/shm has less than 4 GB free",)
    asked = [sys.executable, "-m", "pilotlight", "capture", "job", "--gpu", "nodes"]
    command = " ".join([*driver, LIBRARY, str(version), "asked"])
    both = f"{command} & (sleep 1; {' '.join(asked)} --seconds 9 >/dev/null 2>&1); wait"
    recording, said = record(world, ["sh", "-c", both], {"SIM_NCCL_VERSION": nccl})
    assert bool(int(said.split()[1], 16) & KERNELS) == (not missing)
    shown = [reason for one in provider_losses_of(recording) for reason in one.missing]
    assert shown == [f"nccl: kernel times ({why})" for why in missing]


@pytest.mark.parametrize("version", [5, 6])
def test_kernels_keep_out_of_cuda_graphs(world: Path, driver: Driver, version: int) -> None:
    """NCCL settles it when a call begins, before it says that the first one is captured."""
    recording, said = record(world, [*driver, LIBRARY, str(version), "captured"], WANTED)
    assert said == "1 host calls\n"
    (found,) = provider_losses_of(recording)
    assert found.missing == ("nccl: kernel times (collectives in CUDA graphs)",)


@pytest.mark.parametrize("version", [5, 6])
def test_a_broadcast_is_recorded_where_nccl_tells_of_the_call_alone(
    world: Path, driver: Driver, version: int
) -> None:
    recording, _ = record(world, [*driver, LIBRARY, str(version), "broadcast"], PLAIN)
    found = collectives(recording)
    assert sorted(row["sequence"] for row in found) == [0, 1, 2, 7]
    assert {(row["name"], row["dtype"], row["bytes"]) for row in found} == {
        ("Broadcast", "float32", 4 << 20)
    }
    calls = rows(recording, "launches")
    assert [row["name"] for row in calls] == ["ncclBroadcast"] * 4
    assert {row["correlation"] for row in calls} == {row["correlation"] for row in found}


def test_the_clock_of_the_gpu_is_followed_where_it_drifts(world: Path, driver: Driver) -> None:
    recording, _ = record(world, [*driver, LIBRARY, "6", "drift"], WANTED)
    calls = [int(str(row["start_ns"])) for row in rows(recording, "launches")]
    reduces = [int(str(row["start_ns"])) for row in collectives(recording)]
    assert len(reduces) == 2
    for call, reduce in zip(calls, reduces, strict=True):
        assert call <= reduce < call + 90_000_000


def test_what_is_only_enqueued_is_marked_as_asynchronous(world: Path, driver: Driver) -> None:
    recording, _ = record(world, [*driver, LIBRARY, "6", "train"], PLAIN)
    assert {row["flags"] for row in collectives(recording)} == {ASYNCHRONOUS}
    told = frameworks_of(recording).collectives
    assert {(one.timed, one.total_ns) for one in told} == {(0, 0)}


@pytest.mark.parametrize("version", [5, 6])
def test_a_call_is_a_launch_with_the_correlation_of_its_collective(
    world: Path, driver: Driver, version: int
) -> None:
    recording, _ = record(world, [*driver, LIBRARY, str(version), "train"], WANTED)
    calls = rows(recording, "launches")
    assert [row["name"] for row in calls] == ["ncclAllReduce"] * 3
    reduces = [row for row in collectives(recording) if row["name"] == "AllReduce"]
    assert [row["correlation"] for row in calls] == [row["correlation"] for row in reduces]


def test_sends_and_receives_of_two_ranks_can_be_matched(world: Path, driver: Driver) -> None:
    found = []
    for rank in (0, 1):
        command = [*driver, LIBRARY, "6", "train"]
        environment = {**WANTED, "SIM_NCCL_RANK": str(rank)}
        recording, _ = record(world, command, environment, f"rank{rank}")
        found.append([row for row in collectives(recording) if row["dtype"] == "bfloat16"])
    names = [[(row["name"], row["sequence"]) for row in mine] for mine in found]
    assert names[0] == [("Send to 1", 0), ("Recv from 1", 0), ("Send to 1", 1), ("Recv from 1", 1)]
    assert names[1] == [("Send to 0", 0), ("Recv from 0", 0), ("Send to 0", 1), ("Recv from 0", 1)]
    assert {row["bytes"] for mine in found for row in mine} == {2000}


def test_proxy_steps_say_how_long_the_collective_waited_for_its_peer(
    world: Path, driver: Driver
) -> None:
    recording, _ = record(world, [*driver, LIBRARY, "6", "proxy"], WANTED)
    (row,) = collectives(recording)
    assert row["flags"] == WAIT_KNOWN
    assert 3_000_000 <= int(str(row["wait_ns"])) < int(str(row["duration_ns"]))


def test_a_collective_whose_kernel_never_shows_itself_is_not_lost(
    world: Path, driver: Driver
) -> None:
    recording, _ = record(world, [*driver, LIBRARY, "6", "silent"], WANTED)
    (row,) = collectives(recording)
    assert row["flags"] == ASYNCHRONOUS


@pytest.mark.parametrize("version", [5, 6])
def test_a_gather_has_the_datatype_of_the_program_not_nccls_bytes(
    world: Path, driver: Driver, version: int
) -> None:
    recording, _ = record(world, [*driver, LIBRARY, str(version), "gather"], WANTED)
    (row,) = collectives(recording)
    assert (row["name"], row["dtype"], row["bytes"]) == ("AllGather", "bfloat16", 2000)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_under_way_when_the_process_ends_is_there_or_counted(
    world: Path, driver: Driver, version: int
) -> None:
    recording, _ = record(world, [*driver, LIBRARY, str(version), "left"], WANTED)
    (row,) = collectives(recording)
    assert (row["flags"], row["sequence"]) == (ASYNCHRONOUS, 0)
    (found,) = provider_losses_of(recording)
    assert found.losses == {"nccl/unfinished": 1}


def test_an_operation_of_another_communicator_is_not_taken_for_unfinished(
    world: Path, driver: Driver
) -> None:
    recording, _ = record(world, [*driver, LIBRARY, "6", "two"], WANTED)
    assert len(collectives(recording)) == 1
    assert provider_losses_of(recording) == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_strange_calls_hurt_nobody_and_losses_are_counted(
    world: Path, driver: Driver, version: int
) -> None:
    recording, _ = record(world, [*driver, LIBRARY, str(version), "strange"], WANTED)
    lost = [row["value"] for row in rows(recording, "counters") if row["name"] == "nccl/lost"]
    assert lost and float(str(lost[-1])) >= 300 - 256


def test_of_a_flood_every_collective_that_found_no_room_is_counted(
    world: Path, driver: Driver
) -> None:
    """None ends before the communicator does, and 8,192 are kept in mind."""
    recording, _ = record(world, [*driver, LIBRARY, "6", "many"], WANTED)
    lost = [row["value"] for row in rows(recording, "counters") if row["name"] == "nccl/lost"]
    assert float(str(lost[-1])) == 100_000 - 8_192


def test_without_an_agent_nccl_notices_nothing(world: Path, driver: Driver) -> None:
    environment = {**os.environ, "PILOTLIGHT_RUNTIME_DIR": str(world / "nowhere")}
    ended = subprocess.run(
        [*driver, LIBRARY, "6", "train"], env=environment, capture_output=True, timeout=30
    )
    assert ended.returncode == 0


def test_a_call_from_python_has_its_stack(world: Path) -> None:
    code = f"""
import ctypes, struct
library = ctypes.CDLL({LIBRARY!r})
table = (ctypes.c_void_p * 6).in_dll(library, "ncclProfiler_v6")
init = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p,
    ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)(table[1])
start = ctypes.PYFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 3)(table[2])
stop = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(table[3])
context, mask, event = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_void_p()
init(ctypes.addressof(context), 1, ctypes.addressof(mask), b"dp", 1, 2, 0, None)
names = ctypes.c_char_p(b"AllGather"), ctypes.c_char_p(b"ncclInt8")
places = [ctypes.cast(name, ctypes.c_void_p).value for name in names]
descriptor = ctypes.create_string_buffer(
    struct.pack("<QQi4xQQQ", 512, 0, 0, places[0], 8, places[1]) + bytes(128))
def synchronise_gradients():
    start(context, ctypes.addressof(event), ctypes.addressof(descriptor))
    stop(event)
synchronise_gradients()
"""
    recording, _ = record(world, [sys.executable, "-c", code], {})
    (call,) = [row for row in rows(recording, "launches") if row["name"] == "ncclAllGather"]
    node = recording.calls.find(
        recording.detail("launches")["process"], recording.detail("launches")["stack"]
    )
    functions = [frame.function for frame in recording.calls.path(int(node[0]))]
    assert call["stack"] and functions[-1] == "synchronise_gradients"
