"""A client of the protocol written from its description: what libkineto does, without torch."""

from __future__ import annotations

import os
import socket
import struct
import time
import uuid
from pathlib import Path


class PollingClient:
    """Polls once when told to; waits for the answer as long as libkineto does."""

    def __init__(self, folder: Path, busy: bool = False) -> None:
        self.folder = folder
        self.wanted = 0 if busy else 2
        self.pids = [os.getpid(), os.getppid()]
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(folder / f"dynoconfigclient{uuid.uuid4()}"))
        self.socket.settimeout(0.09)

    def send(self) -> None:
        payload = struct.pack(f"<iiq{len(self.pids)}i", self.wanted, len(self.pids), 0, *self.pids)
        self.send_raw(struct.pack("<Q32s", len(payload), b"req") + payload)

    def send_raw(self, datagram: bytes) -> None:
        wait_s = 0.01
        for _ in range(10):
            try:
                self.socket.sendto(datagram, str(self.folder / "dynolog"))
                return
            except (BlockingIOError, ConnectionRefusedError, TimeoutError):
                time.sleep(wait_s)
                wait_s *= 2
        raise TimeoutError("the daemon does not read")

    def receive(self) -> str:
        reply = self.socket.recv(1 << 16)
        size, kind = struct.unpack_from("<Q32s", reply)
        assert kind.rstrip(b"\0") in (b"req", b"ctxt")
        assert len(reply) == 40 + size
        return reply[40:].decode(errors="replace")

    def poll(self) -> str:
        self.send()
        return self.receive()

    def close(self) -> None:
        self.socket.close()
