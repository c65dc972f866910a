"""Starts the probe in this process: by PILOTLIGHT=1 at interpreter start, or by pilotlight.start().

Runs inside other people's programs: raises nothing, prints nothing, imports little.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from threading import Thread
    from types import ModuleType

    from pilotlight.probe.identity import Identity

DEFAULT_RATE_HZ = 100

# Those that have an adapter.
_FRAMEWORKS = ("torch", "jax", "vllm", "sglang")

_hooked = False
_identity: "Identity | None" = None


def activate() -> None:
    """Starts the probe if it does not run yet."""
    try:
        _start(forked=False)
    except Exception as error:
        # Another interpreter of this process: the probe of the first one samples it too.
        if str(error).endswith("does not support loading in subinterpreters"):
            return
        leave_reason(f"{type(error).__name__}: {error}")


def _start(forked: bool) -> None:
    global _hooked, _identity
    from pilotlight import __version__, _probe
    from pilotlight.place import probe_socket
    from pilotlight.probe.identity import identify, to_json

    if _probe.status()["started"]:
        return
    identity = identify(
        os.environ,
        getattr(sys, "orig_argv", None) or sys.argv,
        os.getpid(),
        os.getppid(),
        _read("/proc/self/cgroup"),
        forked,
        __version__,
    )
    if identity.job is None:
        name = os.path.basename(sys.argv[0] if sys.argv and sys.argv[0] else "python")  # noqa: PTH119
        identity.job = f"{name or 'python'}-{os.getpid()}"
    # For children, so that they find the same job and know that they are not the rank itself.
    os.environ["PILOTLIGHT_JOB"] = str(identity.job)
    os.environ["PILOTLIGHT_JOB_PID"] = str(os.getpid())
    if identity.role == "rank":
        os.environ["PILOTLIGHT_RANK_OF"] = f"{identity.rank}@{os.getpid()}"
    folder = os.environ.get("PILOTLIGHT_SEGMENT_DIR") or None
    reason = _probe.start(probe_socket(), to_json(identity), _period_ns(), folder)
    if reason is not None:
        leave_reason(reason)
        return
    _identity = identity
    if not _hooked:
        _hooked = True
        _hook()
    elif "pilotlight.probe.adapters" in sys.modules:
        from pilotlight.probe.adapters import belong_to

        belong_to(identity)


def _hook() -> None:
    import atexit
    import gc

    from pilotlight import _probe
    from pilotlight.probe.imports import watch

    for framework in _FRAMEWORKS:
        watch.when_imported(framework, _imported)
    watch.before_import("torch", _before_torch)
    watch.when_imported("threading", _name_threads)
    gc.callbacks.append(_probe.gc_callback)
    atexit.register(_at_exit, _probe.stop)
    # From 3.12 on a fork in a process with threads is warned of.
    if sys.version_info >= (3, 12):
        from pilotlight.probe import fork_warning

        os.register_at_fork(before=fork_warning.expect, after_in_child=fork_warning.forget)
    os.register_at_fork(after_in_child=_after_fork_in_child)


def _before_torch(spec: "ModuleSpec") -> None:
    try:
        from pilotlight.probe.tracing import before_torch

        before_torch(spec)
    except Exception as error:
        leave_reason(f"{type(error).__name__}: {error}")


def _imported(framework: "ModuleType") -> None:
    """Only now what adapters need is loaded. Never raises: it runs inside an import."""
    try:
        from pilotlight.probe import adapters, devices, errands

        if _identity is not None:
            adapters.belong_to(_identity)
        adapters.adapt(framework)
        if framework.__name__ in ("torch", "jax"):
            errands.begin()
            devices.bring()
        if framework.__name__ == "torch":
            from pilotlight.probe.tracing import after_torch

            after_torch(framework)
    except Exception as error:
        leave_reason(f"{type(error).__name__}: {error}")


def _name_threads(threading: "ModuleType") -> None:
    """Threads tell their names as they begin: later only the main one could, and it may wait."""
    from pilotlight import _probe

    thread = getattr(threading, "Thread", None)
    begin = getattr(thread, "_set_native_id", None)
    if thread is None or begin is None:
        return
    name_thread = _probe.name_thread

    def _set_native_id(self: "Thread") -> None:
        begin(self)
        try:
            name_thread(self.native_id, self._name)  # type: ignore[attr-defined]
        except Exception:
            return  # what a subclass makes of its name must not keep its thread from running

    thread._set_native_id = _set_native_id


def _after_fork_in_child() -> None:
    try:
        if is_about_to_exec():
            return
        _start(forked=True)
        _leave_with_multiprocessing()
    except Exception as error:
        leave_reason(f"{type(error).__name__}: {error}")


def is_about_to_exec() -> bool:
    """Whether `subprocess` forked only to call somebody's preexec_fn: what it then executes starts
    a probe of its own, if it is a Python."""
    forking = sys._getframe(1).f_back  # None: no Python code forked
    return (
        forking is not None
        and forking.f_code.co_name == "_execute_child"
        and forking.f_globals.get("__name__") == "subprocess"
    )


def _leave_with_multiprocessing() -> None:
    """Its forked workers end by os._exit, without atexit, but run what it calls finalizers."""
    util = sys.modules.get("multiprocessing.util")
    if util is None:
        return
    from pilotlight import _probe

    stop = (_probe.stop,)
    # A worker first forgets its parent's finalizers, then calls these.
    util.register_after_fork(
        _at_exit, lambda leave: util.Finalize(None, leave, args=stop, exitpriority=-100)
    )


def _at_exit(stop: "Callable[[str | None], object]") -> None:
    """Imports nothing: a program may have taken its modules apart by now."""
    try:
        exception = _uncaught()
    except Exception:
        exception = None
    stop(exception)


def _uncaught() -> "str | None":
    """The exception that ends the program. Test runners and shells leave there what they caught."""
    trace = getattr(sys, "last_traceback", None)
    # One that nobody caught begins in the main module, or in what runs a module as such.
    if trace and trace.tb_frame.f_globals.get("__name__") not in ("__main__", "runpy"):
        return None
    return getattr(getattr(sys, "last_type", None), "__name__", None)


def _period_ns() -> int:
    """PILOTLIGHT_RATE: samples a second, 0 to 1000; anything else is the default."""
    try:
        rate = float(os.environ.get("PILOTLIGHT_RATE", ""))
    except ValueError:
        rate = DEFAULT_RATE_HZ
    if not 0 <= rate <= 1000:
        rate = DEFAULT_RATE_HZ
    return int(1e9 / rate) if rate > 0 else 0


def _read(path: str) -> str:
    # Not open(): a file object with a buffer and a decoder takes five times as long.
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(fd, 65536).decode(errors="replace")
        finally:
            os.close(fd)
    except OSError:
        return ""


def leave_reason(reason: str) -> None:
    """For `pilotlight doctor` and `run`."""
    from pilotlight.probe.reasons import leave

    leave(reason)


if os.environ.get("PILOTLIGHT", "") not in ("", "0"):
    activate()
