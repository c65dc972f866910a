"""One HTTP connection to the collector, kept open and opened again. Standard library only."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
from dataclasses import dataclass
from typing import Any

from pilotlight import __version__
from pilotlight.ship.target import Target

ANSWER_LIMIT_BYTES = 1 << 20


@dataclass(frozen=True)
class Answer:
    status: int
    content: dict[str, Any]
    retry_after_s: float | None
    body: bytes = b""


class Line:
    """OSError or http.client.HTTPException: the connection is gone; the next request opens one."""

    def __init__(
        self, target: Target, timeout_s: float, answer_limit_bytes: int = ANSWER_LIMIT_BYTES
    ) -> None:
        self._target = target
        self._timeout_s = timeout_s
        self._answer_limit_bytes = answer_limit_bytes
        self._connection: http.client.HTTPConnection | None = None

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        connection = self._connection or self._open()
        said = {"user-agent": f"pilotlight/{__version__}", **(headers or {})}
        token = self._target.token()
        if token:
            said["authorization"] = f"Bearer {token}"
        try:
            connection.request(method, self._target.prefix + path, body, said)
            response = connection.getresponse()
            data = response.read(self._answer_limit_bytes)
            if response.read(1):
                raise OSError("the collector's answer is too long")
        except BaseException:
            self.close()
            raise
        if response.will_close:
            self.close()
        wait_s = _seconds(response.getheader("retry-after"))
        return Answer(response.status, _object(data), wait_s, data)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.close()

    def _open(self) -> http.client.HTTPConnection:
        target = self._target
        if target.is_secure:
            context = ssl.create_default_context()
            if target.authority is not None:
                context.load_verify_locations(target.authority)
            if target.certificate is not None:
                context.load_cert_chain(target.certificate, target.key)
            self._connection = http.client.HTTPSConnection(
                target.host, target.port, timeout=self._timeout_s, context=context
            )
        else:
            self._connection = http.client.HTTPConnection(
                target.host, target.port, timeout=self._timeout_s
            )
        return self._connection


def _object(data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _seconds(text: str | None) -> float | None:
    try:
        return min(300.0, max(0.0, float(text))) if text else None
    except ValueError:
        return None
