"""The kernel's side: shared memory, stack reading, clocks, room on the disk."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
from pathlib import Path

from pilotlight.doctor.check import Check, broken, limited, ok
from pilotlight.errors import PilotlightError

_LITTLE_DISK_BYTES = 512 << 20
_CLOSE_RANGE = 436  # of close_range, on every architecture


def machine_checks() -> list[Check]:
    return [
        _architecture(),
        _shared_memory(),
        _stack_reading(),
        _outside_reading(),
        _clock(),
        _data(),
    ]


def _architecture() -> Check:
    machine = platform.machine()
    if machine in ("x86_64", "aarch64"):
        return ok("architecture", f"{machine}, Linux {platform.release()}")
    return limited(
        "architecture", f"{machine} is not tested", "report what happens; x86_64 and aarch64 are"
    )


def _shared_memory() -> Check:
    try:
        os.close(os.memfd_create("pilotlight-doctor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    except OSError as error:
        return broken(
            "shared memory",
            f"memfd_create: {error.strerror}",
            "allow memfd_create in the container's seccomp profile, or set PILOTLIGHT_SEGMENT_DIR",
        )
    return ok("shared memory", "sealed memory files work; /dev/shm is not needed")


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def _stack_reading() -> Check:
    if _can_have_own_files():
        return ok("stack sampling", "a process can copy its own memory through a memory file")
    source = ctypes.create_string_buffer(b"pilotlight", 10)
    target = ctypes.create_string_buffer(10)
    local = _Vector(ctypes.addressof(target), 10)
    remote = _Vector(ctypes.addressof(source), 10)
    libc = ctypes.CDLL(None, use_errno=True)
    read = libc.process_vm_readv(os.getpid(), ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
    if read == 10 and target.raw == source.raw:
        return ok("stack sampling", "process_vm_readv works inside a process")
    return broken(
        "stack sampling",
        f"process_vm_readv: {os.strerror(ctypes.get_errno())}; ranges and steps still work",
        "allow process_vm_readv in the container's seccomp profile (podman and docker: "
        "--security-opt seccomp=... or --cap-add SYS_PTRACE)",
    )


def _can_have_own_files() -> bool:
    """Whether a thread can get files of its own, which that way of copying needs."""
    no_file = ctypes.c_uint(0xFFFFFFFF)
    return bool(ctypes.CDLL(None).syscall(_CLOSE_RANGE, no_file, no_file, 0) == 0)


def _outside_reading() -> Check:
    try:
        scope = int(Path("/proc/sys/kernel/yama/ptrace_scope").read_text())
    except (OSError, ValueError):
        scope = 0
    if scope < 2:
        return ok("stacks of a hung process", f"can be read from outside (ptrace_scope {scope})")
    return limited(
        "stacks of a hung process",
        f"ptrace_scope is {scope}: only the job's own sampler sees its stacks",
        "as root: sysctl kernel.yama.ptrace_scope=1",
    )


def _clock() -> Check:
    path = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    try:
        source = path.read_text().strip()
    except OSError:
        source = "unknown"
    if platform.machine() == "aarch64":
        return ok("clock", "the CPU's own counter, which every aarch64 has")
    if source == "tsc":
        return ok("clock", "tsc: about 10 ns a timestamp")
    return limited(
        "clock",
        f"{source} is not the TSC: a timestamp costs a call, about three times as much",
        "on bare metal the kernel log says why the TSC is not trusted (dmesg | grep -i tsc)",
    )


def _data() -> Check:
    from pilotlight.recording.places import recordings_root

    try:
        root = recordings_root()
    except PilotlightError as error:
        return broken("recordings", str(error), "set PILOTLIGHT_DATA_DIR to a folder of yours")
    there = next(place for place in (root, *root.parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        return broken(
            "recordings", f"{there} cannot be written", "set PILOTLIGHT_DATA_DIR to another folder"
        )
    free = shutil.disk_usage(there).free
    if free < _LITTLE_DISK_BYTES:
        return limited(
            "recordings",
            f"{root}: only {free >> 20} MB free; less history is kept",
            "free some room, or set PILOTLIGHT_DATA_DIR",
        )
    return ok("recordings", f"{root} ({free >> 30} GB free)")
