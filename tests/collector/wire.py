"""A wire that can be bent: passes bytes on, or cuts, slows or swallows them."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time

WHOLE, CUT, SLOW, HALF_OPEN = "whole", "cut", "slow", "half open"
_SLOW_BYTES = 256
_SLOW_PAUSE_S = 0.02


class Wire:
    """Listens at `address` and leads to `port` of `target`, both normally loopback. `state` may be
    changed at any time: cut hangs up on everybody and lets nobody in; half open keeps connections
    and passes nothing on."""

    def __init__(self, port: int, address: str = "127.0.0.1", target: str = "127.0.0.1") -> None:
        self._target = target, port
        self._listener = socket.create_server((address, 0))
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._is_closed = False
        self.state = WHOLE
        self.passed_bytes = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def bend(self, state: str) -> None:
        self.state = state
        if state == CUT:
            for pair in self._pairs:
                _hang_up(pair)

    def close(self) -> None:
        self._is_closed = True
        self.bend(CUT)
        self._listener.close()

    def _accept(self) -> None:
        while not self._is_closed:
            with contextlib.suppress(OSError):
                client, _ = self._listener.accept()
                if self.state == CUT:
                    client.close()
                    continue
                pair = client, socket.create_connection(self._target)
                self._pairs.append(pair)
                threading.Thread(target=self._pass, args=(pair,), daemon=True).start()

    def _pass(self, pair: tuple[socket.socket, socket.socket]) -> None:
        with contextlib.suppress(OSError, ValueError):
            while True:
                for one in select.select(pair, [], [], 0.1)[0]:
                    if self.state == HALF_OPEN:
                        time.sleep(0.05)
                        continue
                    is_slow = self.state == SLOW
                    piece = one.recv(_SLOW_BYTES if is_slow else 65_536)
                    if not piece:
                        _hang_up(pair)
                        return
                    if is_slow:
                        time.sleep(_SLOW_PAUSE_S)
                    pair[one is pair[0]].sendall(piece)
                    self.passed_bytes += len(piece)


def _hang_up(pair: tuple[socket.socket, socket.socket]) -> None:
    for one in pair:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()
