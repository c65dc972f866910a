"""A thin client of the collector, for the command line: one question, one answer."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from pilotlight.errors import CollectorError, NotFound, UsageError
from pilotlight.ship.line import Answer, Line
from pilotlight.ship.target import Target, target_of

DEFAULT_URL = "http://127.0.0.1:7777"
_CHOSEN = ("collector", "token_file", "ca_file", "client_certificate", "client_key")
_TIMEOUT_S = 60.0
_ANSWER_LIMIT_BYTES = 256 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How to reach the collector; the same for every verb that asks it."""
    parser.add_argument(
        "--collector", metavar="URL", help=f"(PILOTLIGHT_COLLECTOR, else {DEFAULT_URL})"
    )
    add_papers(parser)
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")


def add_papers(parser: argparse.ArgumentParser) -> None:
    """What a collector wants to see, and what shows that it is the right one."""
    parser.add_argument("--token-file", metavar="FILE", help="(PILOTLIGHT_TOKEN_FILE)")
    parser.add_argument(
        "--ca-file", metavar="FILE", help="to trust besides the system's (PILOTLIGHT_CA_FILE)"
    )
    parser.add_argument(
        "--client-certificate",
        metavar="FILE",
        help="where the collector asks for one (PILOTLIGHT_CLIENT_CERTIFICATE)",
    )
    parser.add_argument("--client-key", metavar="FILE", help="(PILOTLIGHT_CLIENT_KEY)")


class Asking:
    """CollectorError: it cannot be reached or refused. `partial` says that a shard was missing."""

    def __init__(self, args: argparse.Namespace) -> None:
        chosen = {name: getattr(args, name) for name in _CHOSEN}
        target = target_of(chosen, {"PILOTLIGHT_COLLECTOR": DEFAULT_URL, **os.environ}, Path())
        self._target = target or Target(DEFAULT_URL, Path())
        token = self._target.token_file
        if token is not None and not token.is_file():
            raise UsageError(f"{token}: no such file; it should have a token")
        self._line = Line(self._target, _TIMEOUT_S, _ANSWER_LIMIT_BYTES)
        self.is_partial = False

    def get(self, path: str, **parameters: object) -> Any:
        """The `data` of an answer."""
        given = {key: value for key, value in parameters.items() if value is not None}
        answer = self._request("GET", f"{path}?{urlencode(given)}" if given else path, None)
        return self._data(answer)

    def post(self, path: str, content: object) -> Any:
        return self._data(self._request("POST", path, json.dumps(content).encode()))

    def download(self, path: str, target: Path, **parameters: object) -> None:
        """The bytes of a file that the collector keeps."""
        answer = self._request("GET", f"{path}?{urlencode(parameters)}", None)
        if answer.status != 200:
            self._data(answer)
        target.write_bytes(answer.body)

    def _request(self, method: str, path: str, body: bytes | None) -> Answer:
        headers = {"content-type": "application/json"} if body is not None else {}
        try:
            return self._line.request(method, path, body, headers)
        except ssl.SSLCertVerificationError as error:
            raise CollectorError(
                f"{self._target.url}: {error.verify_message}; name with --ca-file what to trust"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise CollectorError(
                f"no collector at {self._target.url} ({reason}); start one with "
                "`pilotlight serve`, or name it with --collector"
            ) from None

    def _data(self, answer: Answer) -> Any:
        if answer.status == 200:
            self.is_partial = self.is_partial or answer.content.get("partial") is True
            return answer.content.get("data")
        reason = str(answer.content.get("error", f"status {answer.status}"))
        if answer.status == 404:
            raise NotFound(reason)
        if answer.status == 400:
            raise UsageError(reason)
        if answer.status in (401, 403):
            raise CollectorError(f"{reason}; name a token with --token-file")
        raise CollectorError(reason)
