"""What is handed to those who run a cluster: right in form, and true to the settings there are."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("chdb", reason="the collector needs pilotlight[server]")
import msgspec

from pilotlight.collector.config import Config
from pilotlight.ship.target import target_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEPLOY = Path(__file__).parents[2] / "deploy"
SETTINGS = re.compile(r"PILOTLIGHT_[A-Z_]+")


def settings_of(path: Path) -> set[str]:
    return set(SETTINGS.findall(path.read_text()))


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
@pytest.mark.parametrize("unit", ["agent", "collector"])
def test_systemd_finds_nothing_wrong_with_a_unit(unit: str) -> None:
    path = DEPLOY / "systemd" / f"pilotlight-{unit}.service"
    done = subprocess.run(["systemd-analyze", "verify", str(path)], capture_output=True, text=True)
    assert (done.returncode, path.name in done.stderr) == (0, False), done.stderr


@pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool (Debian: prometheus)")
def test_prometheus_finds_nothing_wrong_with_its_files() -> None:
    folder = DEPLOY / "prometheus"
    for words in (("rules", "rules.yml"), ("config", "--syntax-only", "scrape.yml")):
        done = subprocess.run(["promtool", "check", *words], cwd=folder, capture_output=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_ask_for_metrics_that_there_are() -> None:
    source = (DEPLOY.parent / "src/pilotlight/collector/metrics.py").read_text()
    asked = set(re.findall(r"pilotlight_\w+", (DEPLOY / "prometheus/rules.yml").read_text()))
    assert len(asked) >= 7
    for name in asked:
        own = name.removeprefix("pilotlight_collector_").removeprefix("pilotlight_agent_")
        assert f'"{own}"' in source or f'"{name}"' in source, name


def test_the_collectors_settings_are_settings() -> None:
    toml = (DEPLOY / "systemd/collector.toml").read_text()
    in_pod = (DEPLOY / "kubernetes/collector.yaml").read_text()
    block = re.search(r"collector\.toml: \|\n((?:    .*\n)+)", in_pod)
    assert block is not None
    # What is commented out is meant to be used one day.
    opened = re.sub(r"(?m)^# (?=\w+ = )", "", toml)
    for text in (opened, re.sub(r"(?m)^    ", "", block[1])):
        config = msgspec.convert(tomllib.loads(text), Config)
        assert (
            config.listen.address == "0.0.0.0" and config.listen.certificate and config.listen.key
        )


def test_an_agent_finds_all_that_its_environment_names(tmp_path: Path) -> None:
    text = (DEPLOY / "systemd/agent.env").read_text().replace("#PILOTLIGHT", "PILOTLIGHT")
    env = dict(re.findall(r"(?m)^(PILOTLIGHT_\w+)=(.*)$", text))
    target = target_of({}, env, tmp_path)
    assert target is not None and target.is_secure and target.cluster == "lab"
    assert target.token_file and target.authority and target.certificate and target.key


def test_a_node_in_kubernetes_is_called_by_its_own_name() -> None:
    named = settings_of(DEPLOY / "kubernetes/agent.yaml")
    assert {"PILOTLIGHT_NODE", "PILOTLIGHT_COLLECTOR", "PILOTLIGHT_TOKEN_FILE"} <= named


def test_the_prolog_tells_tasks_of_an_agent_that_is_there_and_else_nothing(tmp_path: Path) -> None:
    script = (DEPLOY / "slurm/prolog.sh").read_text()
    path = tmp_path / "probe.sock"
    env = {**os.environ, "SLURM_JOB_NAME": "train 7b", "SLURM_JOB_ID": "12"}

    def printed() -> str:
        here = script.replace("/run/pilotlight/probe.sock", str(path))
        return subprocess.run(["sh", "-c", here], env=env, capture_output=True, text=True).stdout

    assert printed() == ""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        assert printed() == "export PILOTLIGHT=1\nexport PILOTLIGHT_JOB=train 7b-12\n"
