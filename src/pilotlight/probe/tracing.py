"""Lets torch ask the agent for traces, where and when that is safe. Loaded just before torch is."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from importlib.machinery import ModuleSpec
    from types import ModuleType

# Before, Kineto's thread that asks and the one that imports torch make its socket at the same time,
# and one closes that of the other: the process aborts, mostly. pytorch/pytorch#163545.
_MENDED_IN = (2, 10)
_ERRORS = "4"
# What a machine has whose GPUs torch can use.
_DEVICES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
_KINETO, _BEGIN = "libtorch_cpu.so", "_ZN5torch18global_kineto_initEv"
_STATE = "_ZN5torch8profiler4impl17ProfilerStateBase"
_GET_STATE, _LET_GO = f"{_STATE}3getEb", f"{_STATE}14removeCallbackEv"
_GUARD = "libpilotlight_guard.so"


def before_torch(spec: "ModuleSpec") -> None:
    has_gpu = any(map(os.path.exists, _DEVICES))
    ask_for_traces(os.environ, spec.origin or "", has_gpu)


def ask_for_traces(environment: "MutableMapping[str, str]", origin: str, has_gpu: bool) -> None:
    """Sets what Kineto reads when torch is loaded, or takes it back for a torch that is older.

    While it is loaded, Kineto would initialise CUDA: what the job sets after that (which devices it
    sees) would come too late, and its forked children could not use CUDA. pytorch/pytorch#171804.
    So with a GPU it is begun when the job has initialised CUDA: see after_torch()."""
    folder = environment.get("PILOTLIGHT_KINETO_DIR")
    if not folder:
        return
    about = _about(origin)
    if is_safe(about.get("__version__", "")):
        environment["KINETO_IPC_SOCKET_DIR"] = folder
        # With a daemon it would write a line into the job's output for everything it does.
        environment.setdefault("KINETO_LOG_LEVEL", _ERRORS)
        uses_gpu = any(about.get(name, "None") != "None" for name in ("cuda", "hip"))
        if not (has_gpu and uses_gpu):
            environment["KINETO_USE_DAEMON"] = "1"
            return
    elif environment.get("KINETO_IPC_SOCKET_DIR") == folder:
        # From a parent that has a newer torch.
        del environment["KINETO_IPC_SOCKET_DIR"]
    else:
        return
    # From a parent that has begun.
    environment.pop("KINETO_USE_DAEMON", None)


def waits_for_gpu(environment: "MutableMapping[str, str]") -> bool:
    """Whether torch is to ask for traces as soon as the job uses its GPU."""
    folder = environment.get("PILOTLIGHT_KINETO_DIR", "")
    is_ours = bool(folder) and environment.get("KINETO_IPC_SOCKET_DIR") == folder
    return is_ours and "KINETO_USE_DAEMON" not in environment


def after_torch(torch: "ModuleType") -> None:
    """Torch runs what is given to it here when the job has initialised CUDA, or at once."""
    if waits_for_gpu(os.environ):
        torch.cuda._lazy_call(begin_asking)
    elif asks_because_of_us(os.environ):
        let_children_leave()
        leave_well()


def asks_because_of_us(environment: "MutableMapping[str, str]") -> bool:
    folder = environment.get("PILOTLIGHT_KINETO_DIR", "")
    is_ours = bool(folder) and environment.get("KINETO_IPC_SOCKET_DIR") == folder
    return is_ours and "KINETO_USE_DAEMON" in environment


def let_children_leave() -> None:
    """Kineto's thread is there now: a forked child has none, and its exit would wait for it."""
    from pilotlight import _probe

    _probe.skip_earlier_exit_handlers_in_children()


def leave_well() -> None:
    import atexit

    atexit.register(let_go_of_trace)


def let_go_of_trace() -> None:
    """Of one that is under way when the program ends. At its exit torch would complain of a
    callback that is still there, to a logger that is gone by then: a SIGSEGV. Never raises."""
    try:
        import ctypes
        import sys

        folder = os.path.dirname(sys.modules["torch"].__file__ or "")  # noqa: PTH120
        path = os.path.join(folder, "lib", _KINETO)  # noqa: PTH118
        torch = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        get, let_go = torch[_GET_STATE], torch[_LET_GO]
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.c_bool]
        let_go.restype, let_go.argtypes = None, [ctypes.c_void_p]
        if state := get(True):
            let_go(state)
    except Exception:
        return


def begin_asking() -> None:
    """Does what torch does at its import where the variable is set. Never raises."""
    try:
        import sys

        folder = os.path.dirname(sys.modules["torch"].__file__ or "")  # noqa: PTH120
        path = os.path.join(folder, "lib", _KINETO)  # noqa: PTH118
        os.environ["KINETO_USE_DAEMON"] = "1"
        call_guarded(path, _BEGIN)
        let_children_leave()
        leave_well()
    except Exception as error:
        os.environ.pop("KINETO_USE_DAEMON", None)
        from pilotlight.probe.activate import leave_reason

        leave_reason(f"no traces of PyTorch: {type(error).__name__}: {error}")


def call_guarded(library: str, function: str) -> None:
    """Calls a C++ function without arguments of a loaded library. What it raises would end the job:
    it comes as a RuntimeError."""
    import ctypes

    from pilotlight import _probe

    path = os.path.join(os.path.dirname(_probe.__file__), _GUARD)  # noqa: PTH118, PTH120
    call = ctypes.CDLL(path).pilotlight_guarded_call
    call.restype, call.argtypes = ctypes.c_bool, [ctypes.c_void_p]
    wanted = ctypes.CDLL(library, mode=os.RTLD_NOLOAD | os.RTLD_NOW)[function]
    if not call(ctypes.cast(wanted, ctypes.c_void_p)):
        raise RuntimeError(f"{function} raised a C++ exception")


def is_safe(version: str) -> bool:
    """A version that says what it is and is as new; builds on the way to the first such are not."""
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    if not (major.isdigit() and minor.isdigit()):
        return False
    number = (int(major), int(minor))
    is_early = "a0" in version or "dev" in version
    return number > _MENDED_IN or (number == _MENDED_IN and not is_early)


def _about(origin: str) -> "dict[str, str]":
    """What torch's own version.py says: its version, and of which CUDA or HIP it is."""
    found: dict[str, str] = {}
    try:
        with open(os.path.join(os.path.dirname(origin), "version.py"), "rb") as file:  # noqa: PTH118, PTH120, PTH123
            for line in file.read(65536).decode("utf-8", "replace").splitlines():
                name, is_set, value = line.partition("=")
                if is_set:
                    found[name.partition(":")[0].strip()] = value.strip().strip("'\"")
    except OSError:
        pass
    return found
