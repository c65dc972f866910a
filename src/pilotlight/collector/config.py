"""Everything that can be set, in one TOML file (docs/operations.md); unknown keys are errors."""

from __future__ import annotations

import ipaddress
import re
import shutil
import socket
import sys
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from pilotlight.errors import UsageError
from pilotlight.store.schema import TABLES
from pilotlight.store.table import LONGEST_DAYS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT_PORT = 7777
Positive = Annotated[float, Meta(gt=0, le=1e9)]
"""Not without end either: no thread can wait so long."""
Bytes = Annotated[int, Meta(ge=1 << 20)]
LEVELS = ("debug", "info", "warning", "error")


class Listen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Any address but a loopback one needs a certificate and tokens."""

    address: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = DEFAULT_PORT
    certificate: str = ""
    key: str = ""
    client_ca: str = ""  # agents and readers must show a certificate that this one signed
    requests_per_s: Positive = 500.0
    burst: Positive = 2000.0


class Keep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Days by table, where they differ from docs/store.md; 0 keeps for ever."""

    days: dict[str, int] = {}
    waiting_bytes: Bytes = 512 << 20


class Alerts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where findings are announced. `command` gets the JSON on standard input."""

    webhook: str = ""
    slack: str = ""
    alertmanager: str = ""
    command: list[str] = []
    least_severity: str = "warning"
    repeat_s: Positive = 4 * 3600.0


class Captures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What triggers may take: `healthy` other ranks are captured beside those concerned."""

    automatic: bool = True
    seconds: Annotated[float, Meta(gt=0, le=600)] = 20.0
    healthy: Annotated[int, Meta(ge=0, le=64)] = 2
    per_job_s: Positive = 300.0
    per_node_s: Positive = 60.0
    most_at_once: Annotated[int, Meta(ge=1, le=1000)] = 4
    budget_bytes: Bytes = 10 << 30
    each_bytes: Bytes = 256 << 20
    keep_days: Annotated[float, Meta(gt=0, le=3650)] = 14.0


class Watch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The online findings; a step that exceeds `slow_step` x the median triggers a capture."""

    on: bool = True
    every_s: Positive = 5.0
    slow_step: Annotated[float, Meta(gt=1, le=1e9)] = 1.5
    price_per_gpu_hour: Annotated[float, Meta(ge=0, le=1e9)] = 0.0
    currency: Annotated[str, Meta(max_length=8)] = ""


class Log(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """JSON lines on standard error."""

    level: str = "info"


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    store: str = ""
    folder: str = ""
    listen: Listen = Listen()
    keep: Keep = Keep()
    alerts: Alerts = Alerts()
    captures: Captures = Captures()
    watch: Watch = Watch()
    log: Log = Log()


def read_config(path: Path) -> Config:
    """UsageError names the file and the key."""
    try:
        content = tomllib.loads(path.read_text())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from None
    try:
        config = msgspec.convert(content, Config)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {_in_words(str(error))}") from None
    check_config(config, str(path))
    return config


def check_config(config: Config, place: str) -> None:
    unknown = config.keep.days.keys() - TABLES.keys()
    if unknown:
        raise UsageError(f"{place}: keep.days: no table {min(unknown)}")
    for table, days in config.keep.days.items():
        if not 0 <= days <= LONGEST_DAYS:
            raise UsageError(f"{place}: keep.days.{table}: from 0 (for ever) to {LONGEST_DAYS}")
    if config.log.level not in LEVELS:
        raise UsageError(f"{place}: log.level is {', '.join(LEVELS[:-1])} or {LEVELS[-1]}")
    if config.alerts.least_severity not in ("info", "warning", "critical"):
        raise UsageError(f"{place}: alerts.least_severity is info, warning or critical")
    for name in ("webhook", "slack", "alertmanager"):
        url = getattr(config.alerts, name)
        if url and not _is_address(url):
            raise UsageError(f"{place}: alerts.{name}: not an address with http:// or https://")
    command = config.alerts.command
    if command and shutil.which(command[0]) is None:
        raise UsageError(f"{place}: alerts.command: no program {command[0]}")
    listen = config.listen
    if bool(listen.certificate) != bool(listen.key):
        raise UsageError(f"{place}: listen.certificate and listen.key belong together")
    for name in ("certificate", "key", "client_ca"):
        file = getattr(listen, name)
        if file and not Path(file).is_file():
            raise UsageError(f"{place}: listen.{name}: no file {file}")


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and is_whole and not re.search(r"\s", url)


def check_address(listen: Listen, has_tokens: bool) -> None:
    """UsageError: others could reach it, and it would not know them."""
    if is_loopback(listen.address):
        return
    host, colon, port = listen.address.partition(":")
    if colon and port.isdecimal():
        raise UsageError(
            f"{listen.address}: an address has no port: --address {host} --port {port}"
        )
    missing = []
    if not listen.certificate:
        missing.append("a certificate (--certificate FILE --key FILE)")
    if not has_tokens:
        missing.append("a token (pilotlight token create --scope ingest)")
    if missing:
        raise UsageError(
            f"{listen.address} can be reached from elsewhere: {' and '.join(missing)} needed"
        )


def is_loopback(address: str) -> bool:
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        try:
            found = socket.getaddrinfo(address, None)
        except OSError:
            return False
        return all(ipaddress.ip_address(entry[4][0]).is_loopback for entry in found)


def _in_words(problem: str) -> str:
    """The library's sentence with the key first, as it stands in the file."""
    what, _, place = problem.partition(" - at `$")
    key = place.rstrip("`").lstrip(".")
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", what)
    if unknown:
        return f"no setting {f'{key}.' if key else ''}{unknown[1]}; docs/operations.md lists them"
    return f"{key}: {what.replace('`', '')}" if key else what.replace("`", "")
