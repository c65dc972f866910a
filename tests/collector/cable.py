"""A virtual cable into a network namespace of its own, which can be pulled and made slow."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

_NEW_NETWORK = 0x40000000


class Cable:
    """`address` is that of this end. Raises CalledProcessError where none can be laid."""

    def __init__(self, number: int) -> None:
        self.address = f"10.77.{number}.1"
        self._name, self._here, self._there = (f"pl{end}{number}" for end in ("ns", "a", "b"))
        _run("ip", "netns", "add", self._name)
        try:
            _run("ip", "link", "add", self._here, "type", "veth", "peer", "name", self._there)
            _run("ip", "link", "set", self._there, "netns", self._name)
            _run("ip", "address", "add", f"{self.address}/30", "dev", self._here)
            self._inside("ip", "address", "add", f"10.77.{number}.2/30", "dev", self._there)
            for link in (self._there, "lo"):
                self._inside("ip", "link", "set", link, "up")
            self.plug()
        except subprocess.CalledProcessError:
            self.close()
            raise

    def close(self) -> None:
        """With the namespace goes its end, and with that end the other."""
        subprocess.run(["ip", "netns", "delete", self._name], check=False)
        subprocess.run(["ip", "link", "delete", self._here], check=False, capture_output=True)

    def plug(self) -> None:
        _run("ip", "link", "set", self._here, "up")

    def pull(self) -> None:
        """Nobody is told: what is sent vanishes."""
        _run("ip", "link", "set", self._here, "down")

    def slow(self, rate: str) -> None:
        """What comes from the other side, for example "64kbit"."""
        shaped = ("tbf", "rate", rate, "burst", "4kb", "latency", "2s")
        self._inside("tc", "qdisc", "add", "dev", self._there, "root", *shaped)

    @contextmanager
    def other_side(self) -> Iterator[None]:
        """The calling thread, and those that it starts meanwhile, are at the other end."""
        library = ctypes.CDLL(None, use_errno=True)
        own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        other = os.open(f"/run/netns/{self._name}", os.O_RDONLY)
        try:
            assert library.setns(other, _NEW_NETWORK) == 0, os.strerror(ctypes.get_errno())
            yield
        finally:
            assert library.setns(own, _NEW_NETWORK) == 0
            os.close(own)
            os.close(other)

    def _inside(self, *words: str) -> None:
        _run("ip", "netns", "exec", self._name, *words)


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, timeout=60)
