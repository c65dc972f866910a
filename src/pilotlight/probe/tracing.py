"""Lets torch ask the agent for traces, where that is safe. Loaded just before torch is."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from importlib.machinery import ModuleSpec

# Before, Kineto's thread that asks and the one that imports torch make its socket at the same time,
# and one closes that of the other: the process aborts, mostly. pytorch/pytorch#163545.
_MENDED_IN = (2, 10)
_ERRORS = "4"


def before_torch(spec: "ModuleSpec") -> None:
    ask_for_traces(os.environ, spec.origin or "")


def ask_for_traces(environment: "MutableMapping[str, str]", origin: str) -> None:
    """Sets what Kineto reads when torch is loaded, or takes it back for a torch that is older."""
    folder = environment.get("PILOTLIGHT_KINETO_DIR")
    if not folder:
        return
    if is_safe(_version_beside(origin)):
        environment["KINETO_USE_DAEMON"] = "1"
        environment["KINETO_IPC_SOCKET_DIR"] = folder
        # With a daemon it would write a line into the job's output for everything it does.
        environment.setdefault("KINETO_LOG_LEVEL", _ERRORS)
    elif environment.get("KINETO_IPC_SOCKET_DIR") == folder:
        # From a parent that has a newer torch.
        environment.pop("KINETO_USE_DAEMON", None)
        del environment["KINETO_IPC_SOCKET_DIR"]


def is_safe(version: str) -> bool:
    """A version that says what it is and is as new; builds on the way to the first such are not."""
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    if not (major.isdigit() and minor.isdigit()):
        return False
    number = (int(major), int(minor))
    is_early = "a0" in version or "dev" in version
    return number > _MENDED_IN or (number == _MENDED_IN and not is_early)


def _version_beside(origin: str) -> str:
    try:
        with open(os.path.join(os.path.dirname(origin), "version.py"), "rb") as file:  # noqa: PTH118, PTH120, PTH123
            for line in file.read(65536).decode("utf-8", "replace").splitlines():
                if line.startswith("__version__"):
                    return line.partition("=")[2].strip().strip("'\"")
    except OSError:
        pass
    return ""
