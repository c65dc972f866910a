"""OpenCL by a loader layer, end to end on PoCL: a real device model with real queues and events."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pilotlight.recording.schema import SpanKind
from pilotlight.report.provider_losses import provider_losses_of

from .programs import LIBRARIES, compiled, record, rows

LIBRARY = str(LIBRARIES / "libpilotlight_opencl.so")
LAYERED = {"OPENCL_LAYERS": LIBRARY}
KERNEL, COPY, SET = 1, 2, 3
N_BYTES = 65536 * 4


@pytest.fixture(scope="module", autouse=True)
def _has_pocl() -> None:
    if not any(Path("/etc/OpenCL/vendors").glob("pocl*.icd")):
        pytest.skip("PoCL is not installed (apt-get install pocl-opencl-icd ocl-icd-opencl-dev)")


@pytest.fixture(scope="module")
def program() -> str:
    if not Path("/usr/include/CL/cl.h").exists() or shutil.which("cc") is None:
        pytest.skip("OpenCL's headers are not installed (apt-get install ocl-icd-opencl-dev)")
    return str(compiled("opencl/program.c", "-Wl,--no-as-needed", "-lOpenCL"))


def test_our_idea_of_the_table_is_that_of_khronos_headers() -> None:
    if not Path("/usr/include/CL/cl_layer.h").exists():
        pytest.skip("OpenCL's headers are not installed (apt-get install opencl-headers)")
    compiled("opencl/layout.cpp", "-std=c++17")


def test_every_command_of_a_c_program_is_recorded_with_the_times_of_the_device(
    world: Path, program: str
) -> None:
    recording, said = record(world, [program], {})
    assert said == "8 1\n"
    done = rows(recording, "activities")
    names = [str(row["name"]) for row in done]
    assert {name: names.count(name) for name in names} == {
        "scale": 3,
        "spin": 3,
        "clEnqueueWriteBuffer": 3,
        "clEnqueueFillBuffer": 3,
        "clEnqueueCopyBuffer": 3,
        "clEnqueueReadBuffer": 3,
    }
    kinds = {str(row["name"]): (row["kind"], row["bytes"]) for row in done}
    assert kinds["scale"] == (KERNEL, 0) and kinds["clEnqueueFillBuffer"] == (SET, N_BYTES)
    assert kinds["clEnqueueReadBuffer"] == (COPY, N_BYTES)
    assert kinds["clEnqueueCopyBuffer"] == (COPY, 1024)
    assert all(int(str(row["duration_ns"])) > 0 for row in done)


def test_an_activity_begins_after_its_launch_and_they_share_a_correlation(
    world: Path, program: str
) -> None:
    recording, _ = record(world, [program], {})
    calls = {row["correlation"]: row for row in rows(recording, "launches")}
    done = rows(recording, "activities")
    assert len(calls) == len(done) == 18
    for row in done:
        call = calls[row["correlation"]]
        # The clocks of device and host are known to each other within the length of a call.
        slack_ns = int(str(call["duration_ns"]))
        assert int(str(row["start_ns"])) >= int(str(call["start_ns"])) - slack_ns
        delays = int(str(row["detail"]))
        waited_ns = (delays >> 32) + (delays & 0xFFFFFFFF)
        assert row["flags"] == 1
        assert int(str(row["start_ns"])) >= int(str(call["start_ns"])) + waited_ns - slack_ns


def test_each_queue_is_a_track_of_its_device(world: Path, program: str) -> None:
    recording, _ = record(world, [program], {})
    tracks = recording.detail("tracks")
    assert tracks.rows == 2 and len(set(tracks["stream"].tolist())) == 2
    assert set(tracks["device"].tolist()) == {0}
    names = recording.names.find(tracks["process"], tracks["name"]).tolist()
    assert all(" queue 0x" in recording.names.texts[name] for name in names)
    mine = recording.detail("activities")["track"].tolist()
    assert set(mine) == set(tracks["id"].tolist())


def test_waiting_for_the_device_is_a_span(world: Path, program: str) -> None:
    recording, _ = record(world, [program], {})
    waits = [row for row in rows(recording, "spans") if row["kind"] == SpanKind.SYNC]
    names = [str(row["name"]) for row in waits]
    assert names.count("clWaitForEvents") == names.count("clFinish") == 3


def test_a_python_program_is_recorded_with_its_stacks(world: Path) -> None:
    pytest.importorskip("pyopencl")
    code = """
import numpy, pyopencl as cl
context = cl.Context(cl.get_platforms()[0].get_devices())
queue = cl.CommandQueue(context)
a = numpy.ones(1000, numpy.float32)
memory = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=a)
program = cl.Program(context,
    "__kernel void twice(__global float *x) { x[get_global_id(0)] *= 2; }").build()
twice = cl.Kernel(program, "twice")
def train_step():
    twice(queue, (1000,), None, memory)
for _ in range(5):
    train_step()
cl.enqueue_copy(queue, a, memory)
queue.finish()
assert a[0] == 32
"""
    recording, _ = record(world, [sys.executable, "-W", "ignore", "-c", code], {})
    kernels = [row for row in rows(recording, "activities") if row["name"] == "twice"]
    assert len(kernels) == 5 and {row["kind"] for row in kernels} == {KERNEL}
    shown = subprocess.run(
        [sys.executable, "-m", "pilotlight", "report", str(recording.path)],
        capture_output=True,
        text=True,
    )
    assert "Work on the device" in shown.stdout and "twice" in shown.stdout
    copies = [row for row in rows(recording, "activities") if row["kind"] == COPY]
    assert [row["bytes"] for row in copies] == [4000]
    table = recording.detail("activities")
    nodes = recording.calls.find(table["process"], table["stack"]).tolist()
    paths = [[frame.function for frame in recording.calls.path(node)] for node in nodes]
    assert sum("train_step" in path for path in paths) == 5


def test_maps_and_images_are_recorded_and_give_the_program_what_it_asked_for(world: Path) -> None:
    pytest.importorskip("pyopencl")
    code = """
import numpy, pyopencl as cl
context = cl.Context(cl.get_platforms()[0].get_devices())
queue = cl.CommandQueue(context)
flags = cl.mem_flags.READ_WRITE
memory = cl.Buffer(context, flags, 4096)
place, _ = cl.enqueue_map_buffer(queue, memory, cl.map_flags.WRITE, 0, (1024,), numpy.float32)
place[:] = 3
place.base.release(queue)
image = cl.Image(context, flags, cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT),
                 shape=(16, 16))
cl.enqueue_copy(queue, image, memory, offset=0, origin=(0, 0), region=(16, 16))
cl.enqueue_fill_image(queue, image, numpy.full(4, 5, numpy.float32), origin=(0, 0), region=(8, 8))
cl.enqueue_copy(queue, memory, image, offset=0, origin=(0, 0), region=(16, 16))
found = numpy.empty(1024, numpy.float32)
cl.enqueue_copy(queue, found, memory)
queue.finish()
try:
    cl.enqueue_map_buffer(queue, memory, cl.map_flags.READ, 8192, (1024,), numpy.float32)
except cl.Error as error:
    print(error.code, found[0], found[-1])
"""
    recording, said = record(world, [sys.executable, "-W", "ignore", "-c", code], {})
    assert said == "-30 5.0 3.0\n"
    done = {str(row["name"]): (row["kind"], row["bytes"]) for row in rows(recording, "activities")}
    assert done == {
        "clEnqueueMapBuffer": (COPY, 4096),
        "clEnqueueUnmapMemObject": (COPY, 0),
        "clEnqueueCopyBufferToImage": (COPY, 0),
        "clEnqueueFillImage": (SET, 0),
        "clEnqueueCopyImageToBuffer": (COPY, 0),
        "clEnqueueReadBuffer": (COPY, 4096),
    }


def test_many_commands_at_once_are_all_there_or_counted(world: Path, program: str) -> None:
    recording, _ = record(world, [program, "60"], {})
    told = [row for row in rows(recording, "counters") if str(row["name"]).startswith("opencl/")]
    assert len(rows(recording, "activities")) == 360 and told == []


def test_commands_that_are_not_done_at_the_end_are_counted_and_shown(
    world: Path, program: str
) -> None:
    recording, _ = record(world, [program, "1", "30"], {})
    (found,) = provider_losses_of(recording)
    assert found.losses == {"opencl/unfinished": 30}
    spins = [row for row in rows(recording, "activities") if row["name"] == "spin"]
    assert len(spins) == 1


def test_commands_beyond_those_that_can_be_remembered_are_counted_to_the_last_one(
    world: Path, program: str
) -> None:
    recording, _ = record(world, [program, "1", "9000"], {})
    (found,) = provider_losses_of(recording)
    assert found.losses == {"opencl/unfinished": 8192, "opencl/lost": 9000 - 8192}


def test_without_an_agent_the_program_runs_all_the_same(world: Path, program: str) -> None:
    environment = {**os.environ, **LAYERED, "PILOTLIGHT_RUNTIME_DIR": str(world / "nowhere")}
    ended = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (0, "8 1\n")
