"""Where an agent sends to, and how it says who it is."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from urllib.parse import urlsplit

from pilotlight.errors import UsageError
from pilotlight.place import node_name
from pilotlight.recording.places import recordings_root

SPOOL_BYTES = 256 << 20
BATCH_S = 5.0


@dataclass(frozen=True)
class Target:
    """`authority` is a file of certificates to trust besides the system's."""

    url: str
    folder: Path
    token_file: Path | None = None
    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    cluster: str = ""
    spool_bytes: int = SPOOL_BYTES
    batch_s: float = BATCH_S
    """How often a batch is made; sums stay those of 10 s, a part of them in each batch."""

    def __post_init__(self) -> None:
        wrong = UsageError(f"{self.url}: a collector is http://HOST:PORT or https://HOST:PORT")
        try:
            parts = urlsplit(self.url)
            is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            raise wrong from None
        if not is_address:
            raise wrong
        if parts.username or parts.password:
            raise UsageError("a collector's address has no password; use --token-file")
        if self.token_file is not None and not self.is_secure and not _is_here(self.host):
            raise UsageError(f"{self.url}: a token would travel in the clear; use https://")
        if (self.certificate is None) != (self.key is None):
            raise UsageError("--client-certificate and --client-key belong together")
        if not 1 <= self.batch_s <= 300:
            raise UsageError(f"--batch-seconds: {self.batch_s:g} is not 1 to 300 seconds")

    @property
    def is_secure(self) -> bool:
        return self.url.startswith("https://")

    @property
    def host(self) -> str:
        return str(urlsplit(self.url).hostname)

    @property
    def port(self) -> int:
        parts = urlsplit(self.url)
        return parts.port or (443 if self.is_secure else 80)

    @property
    def prefix(self) -> str:
        return urlsplit(self.url).path.rstrip("/")

    def token(self) -> str:
        """Read each time: it may be replaced while the agent runs."""
        if self.token_file is None:
            return ""
        try:
            return self.token_file.read_text().strip()
        except OSError:
            return ""


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def outbox_folder(runtime_folder: Path) -> Path:
    """One for each agent of this user: two never send from the same one, nor do those of two
    machines that share a home."""
    name = blake2b(f"{node_name()}\0{runtime_folder}".encode(), digest_size=4).hexdigest()
    return recordings_root().parent / "outbox" / name


def target_of(
    chosen: Mapping[str, str | None], env: Mapping[str, str], runtime_folder: Path
) -> Target | None:
    """What was chosen on the command line, else what the environment says; None: no collector."""

    def value(name: str) -> str | None:
        return chosen.get(name) or env.get(f"PILOTLIGHT_{name.upper()}") or None

    def path(name: str) -> Path | None:
        text = value(name)
        return Path(text).absolute() if text else None

    url = value("collector")
    if url is None:
        return None
    return Target(
        url=url,
        folder=outbox_folder(runtime_folder),
        token_file=path("token_file"),
        authority=path("ca_file"),
        certificate=path("client_certificate"),
        key=path("client_key"),
        cluster=value("cluster") or "",
        batch_s=_seconds(value("batch_seconds")),
    )


def _seconds(text: str | None) -> float:
    try:
        return float(text) if text is not None else BATCH_S
    except ValueError:
        raise UsageError(f"--batch-seconds: {text!r:.40} is no number") from None
