"""The spin models of native/tests/model: they hold, and every mistake built into them is found."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

MODELS = Path(__file__).parents[2] / "native" / "tests" / "model"
MISTAKE = re.compile(r"#ifn?def ([A-Z_]+)$", re.MULTILINE)
SIZES = {"FIRST_WRITES", "SECOND_WRITES"}


def mistakes() -> list[tuple[str, str]]:
    return [
        (path.name, name)
        for path in sorted(MODELS.glob("*.pml"))
        for name in sorted(set(MISTAKE.findall(path.read_text())) - SIZES)
    ]


def errors_found(folder: Path, model: str, *definitions: str) -> int:
    for tool in ("spin", "gcc"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    flags = [f"-D{name}" for name in definitions]
    for command in (
        ["spin", *flags, "-a", str(MODELS / model)],
        ["gcc", "-O0" if definitions else "-O2", "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c"],
    ):
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
    done = subprocess.run(
        ["./pan", "-m1000000"], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert "max search depth too small" not in done.stdout
    found = re.search(r"errors: (\d+)", done.stdout)
    assert found is not None, done.stdout + done.stderr
    return int(found[1])


@pytest.mark.parametrize("model", ["definitions.pml", "ring.pml"])
def test_the_model_holds(tmp_path: Path, model: str) -> None:
    assert errors_found(tmp_path, model) == 0


@pytest.mark.parametrize(("model", "mistake"), mistakes())
def test_a_mistake_in_the_model_is_found(tmp_path: Path, model: str, mistake: str) -> None:
    assert errors_found(tmp_path, model, mistake) > 0


def test_both_models_have_mistakes_to_find() -> None:
    assert {"RELAXED_HEAD_STORE", "RELAXED_TAIL_STORE", "RELAXED_RETIRE_STORE"} <= {
        name for _, name in mistakes()
    }
