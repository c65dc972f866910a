"""A collector that asks its clients for a certificate."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")

from tests.collector.conftest import RunningCollector

from pilotlight.collector.config import Config, Listen
from pilotlight.collector.serve import serve
from pilotlight.errors import UsageError
from pilotlight.ship.line import Line
from pilotlight.ship.target import Target
from pilotlight.store.place import parse_place


def openssl(*words: str) -> None:
    done = subprocess.run(["openssl", *words], capture_output=True)
    if done.returncode:
        pytest.skip(f"openssl cannot make certificates here: {done.stderr.decode()[:200]}")


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ca.pem, and server, client (both signed by it) and stranger (signed by itself)."""
    folder = tmp_path_factory.mktemp("papers")

    def path(name: str) -> str:
        return str(folder / name)

    for name in ("ca", "stranger"):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                "-nodes", "-days", "2", "-subj", f"/CN={name}",
                "-keyout", path(f"{name}.key"), "-out", path(f"{name}.pem"))  # fmt: skip
    for name in ("server", "client"):
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                "-keyout", path(f"{name}.key"), "-out", path(f"{name}.csr"))  # fmt: skip
        openssl("x509", "-req", "-in", path(f"{name}.csr"), "-CA", path("ca.pem"),
                "-CAkey", path("ca.key"), "-CAcreateserial", "-days", "2", "-copy_extensions",
                "copyall", "-out", path(f"{name}.pem"))  # fmt: skip
    return folder


def test_only_those_with_a_certificate_are_let_in(papers: Path, tmp_path: Path) -> None:
    running = RunningCollector(tmp_path / "store")
    running.start(
        "--certificate", str(papers / "server.pem"), "--key", str(papers / "server.key"),
        "--client-ca", str(papers / "ca.pem"),
    )  # fmt: skip

    def line(name: str | None) -> Line:
        papers_of = {"certificate": papers / f"{name}.pem", "key": papers / f"{name}.key"}
        chosen = papers_of if name else {}
        return Line(Target(running.url, tmp_path, authority=papers / "ca.pem", **chosen), 10.0)

    friend = line("client")
    assert friend.request("GET", "/v1/hello").status == 200
    friend.close()
    for nobody in (None, "stranger"):
        with pytest.raises(OSError, match=r"(?i)certificate|alert|reset|EOF|closed"):
            line(nobody).request("GET", "/v1/hello")
    shown = ask(
        running.url, papers, "--client-certificate", "client.pem", "--client-key", "client.key"
    )
    assert shown.returncode == 0 and "no job" in shown.stdout
    assert ask(running.url, papers).returncode == 1
    running.stop()


def ask(url: str, papers: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """As a person does, beside the certificates."""
    command = [
        sys.executable,
        "-m",
        "pilotlight",
        "jobs",
        "--collector",
        url,
        "--ca-file",
        "ca.pem",
    ]
    return subprocess.run([*command, *words], cwd=papers, capture_output=True, text=True)


def test_a_key_that_does_not_fit_is_said_before_it_listens(papers: Path, tmp_path: Path) -> None:
    listen = Listen(
        port=0, certificate=str(papers / "server.pem"), key=str(papers / "stranger.key")
    )
    with pytest.raises(UsageError, match=r"stranger\.key.*certificate and its key"):
        serve(parse_place(str(tmp_path / "store")), Config(listen=listen), pytest.fail)
