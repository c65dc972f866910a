from __future__ import annotations

import gzip
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "src" / "pilotlight" / "web" / "page"
needs_node = pytest.mark.skipif(
    shutil.which("npm") is None or not (ROOT / "ui" / "node_modules").is_dir(),
    reason="node or ui/node_modules is absent",
)


def npm(*words: str, **environment: str) -> None:
    done = subprocess.run(
        ["npx", *words],
        cwd=ROOT / "ui",
        capture_output=True,
        text=True,
        timeout=180,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr


@needs_node
def test_layout_trees_and_levels_of_detail(tmp_path: Path) -> None:
    config = ("--config", "vite.test.config.ts", "--logLevel", "warn")
    npm("vite", "build", *config, PILOTLIGHT_TESTS=str(tmp_path))
    files = [str(path) for path in sorted(tmp_path.rglob("*.*js"))]
    assert files
    done = subprocess.run(["node", "--test", *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@needs_node
def test_the_committed_page_is_what_the_source_builds(tmp_path: Path) -> None:
    npm("vite", "build", "--logLevel", "warn", PILOTLIGHT_PAGE=str(tmp_path))
    for file in sorted(PAGE.rglob("*.*")):
        assert (tmp_path / file.relative_to(PAGE)).read_bytes() == file.read_bytes(), (
            f"stale: {file.name}"
        )


def test_the_page_is_light() -> None:
    weight = sum(len(gzip.compress(file.read_bytes())) for file in PAGE.rglob("*.*"))
    assert weight <= 150_000
