"""A job's root process as a shell would treat it: started, signalled, waited for."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pilotlight.errors import UsageError

# What a user or a scheduler sends; the rest keeps its default meaning for us and for the job.
_PASSED_ON = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
)
# Python ignores them, and what is ignored stays so in programs that it starts: `yes | head` of a
# job would end with an error instead of silently.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
# si_code of a signal that the terminal sent to the whole foreground group.
_SI_KERNEL = 0x80


@dataclass(frozen=True)
class Ended:
    exit_code: int
    signal: int | None


class StartFailed(Exception):
    """The command does not exist or cannot be run; the exit code is a shell's."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def split_command(words: Sequence[str], example: str) -> list[str]:
    """The command behind `--`."""
    command = list(words[1:] if words and words[0] == "--" else words)
    if not command:
        raise UsageError(f"which command? Example: {example}")
    return command


def check_exists(command: Sequence[str]) -> None:
    """StartFailed if there is no such command, before anything is begun for it."""
    name = command[0]
    if not (Path(name).exists() if "/" in name else shutil.which(name, mode=os.F_OK)):
        raise _not_found(command)


def _not_found(command: Sequence[str]) -> StartFailed:
    return StartFailed(f"{command[0]}: command not found", 127)


class JobProcess:
    """Started by the constructor; StartFailed if that is impossible."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        # Where whoever started us ignores it, the kernel keeps no exit code for us.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # Blocked before the start: a signal that comes early waits for us to pass it on.
        self._waited = {*_PASSED_ON, signal.SIGCHLD}
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._waited)
        try:
            self.pid = self._spawn(command, environment)
        except BaseException:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
            raise

    def _spawn(self, command: Sequence[str], environment: Mapping[str, str]) -> int:
        try:
            try:
                return self._spawn_words(list(command), environment)
            except OSError as error:
                # A script without #!, which a shell would run itself.
                if error.errno != errno.ENOEXEC:
                    raise
                return self._spawn_words(["/bin/sh", *command], environment)
        except (FileNotFoundError, NotADirectoryError):
            raise _not_found(command) from None
        except OSError as error:
            raise StartFailed(f"{command[0]}: {error.strerror}", 126) from None

    def _spawn_words(self, words: list[str], environment: Mapping[str, str]) -> int:
        return os.posix_spawnp(
            words[0], words, environment, setsigmask=self._mask, setsigdef=_IGNORED_BY_PYTHON
        )

    def wait(self) -> Ended:
        """Passes signals on until the process has ended."""
        while True:
            ended = self._ended()
            if ended is not None:
                signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
                return ended
            info = signal.sigwaitinfo(self._waited)
            # What the terminal sent has reached the job already.
            if info.si_signo != signal.SIGCHLD and info.si_code != _SI_KERNEL:
                # Of another user's command (sudo) it is not ours to send.
                with contextlib.suppress(PermissionError):
                    os.kill(self.pid, info.si_signo)

    def _ended(self) -> Ended | None:
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0:
            return None
        code = os.waitstatus_to_exitcode(status)
        return Ended(code, None) if code >= 0 else Ended(128 - code, -code)
