"""AMD's own Python package over a simulated libamd_smi, up to the report."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.agent.counters.conftest import SIMULATION
from tests.e2e.conftest import end_agent

_FOUND = re.compile(r"_libraries\['libamd_smi\.so'\]\.(\w+)")
_STRUCTURES = ("engine_usage", "power_info", "clk_info", "vram_usage", "error_count", "pcie_info")

# As the package declares them, against those of the simulated library.
_SIZES = """
import ctypes, json
from amdsmi import amdsmi_wrapper as wrapper
names = [*{names!r}, "proc_info"]
sizes = (ctypes.c_size_t * len(names)).in_dll(wrapper._libraries["libamd_smi.so"],
                                              "amd_smi_sim_sizes")
print(json.dumps([[ctypes.sizeof(getattr(wrapper, f"amdsmi_{{n}}_t")) for n in names], [*sizes]]))
"""
_READ = """
import json
from pilotlight.agent.counters.amd import open_amd
gpus = open_amd()
gpus.read()
read = gpus.read()
print(json.dumps([[f"{c.device} {c.name}", v] for c, v in read.values]))
print(json.dumps([[e.device, e.name] for e in read.events]), json.dumps(read.missing))
"""


@pytest.fixture(scope="session")
def amd_smi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a library with every function that the package wants to find."""
    spec = importlib.util.find_spec("amdsmi")
    if spec is None or spec.origin is None:
        pytest.skip("the package amdsmi is not installed")
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    wrapper = Path(spec.origin).with_name("amdsmi_wrapper.py").read_text()
    source = SIMULATION / "amd_smi.c"
    ours = set(re.findall(r"^uint32_t (\w+)\(", source.read_text(), re.MULTILINE))
    folder = tmp_path_factory.mktemp("amd-smi")
    others = sorted(set(_FOUND.findall(wrapper)) - ours)
    (folder / "others.c").write_text(
        "".join(f"int {name}(void) {{ return 2; }}\n" for name in others)
    )
    words = ["cc", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    files = [str(source), str(folder / "others.c"), "-o", str(folder / "libamd_smi.so")]
    subprocess.run([*words, *files], check=True)
    return folder


def run(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        env={**os.environ, "LD_LIBRARY_PATH": str(folder), **environment},
    )
    assert done.returncode == 0, done.stderr
    return done


def test_the_simulated_library_has_the_structures_of_the_package(amd_smi: Path) -> None:
    package, ours = json.loads(run(amd_smi, "-c", _SIZES.format(names=_STRUCTURES)).stdout)
    assert ours == package


def test_what_the_real_package_says_is_read(amd_smi: Path) -> None:
    done = run(amd_smi, "-c", _READ).stdout.splitlines()
    values = dict(json.loads(done[0]))
    assert values["gpu0 utilization"] == 77 and values["gpu1 memory_utilization"] == 30
    # This chip says "none" for the power of now by all bits set.
    assert values["gpu0 power"] == 510
    assert (values["gpu0 sm_clock"], values["gpu0 memory_clock"]) == (2100, 900)
    assert (values["gpu0 temperature"], values["gpu0 memory_temperature"]) == (66, 58)
    assert values["gpu0 memory_total"] == 192 << 30
    assert values["gpu0 energy"] == pytest.approx(30.6, rel=1e-4)
    assert done[1] == "[] {}"


def test_a_gpu_that_amds_library_lost_and_a_call_that_it_refuses_are_told(
    amd_smi: Path, tmp_path: Path
) -> None:
    (tmp_path / "orders").write_text("lost 1\nfail amdsmi_get_power_info 10\n")
    done = run(amd_smi, "-c", _READ, PILOTLIGHT_SIM_AMD=str(tmp_path / "orders")).stdout
    names, told = dict(json.loads(done.splitlines()[0])), done.splitlines()[1]
    assert "gpu0 utilization" in names and "gpu0 power" not in names
    assert not any(name.startswith("gpu1") for name in names)
    assert "gpu0 power" in told and "AMDSMI_STATUS_NO_PERM" in told


def test_amd_gpus_are_in_doctor_and_report(amd_smi: Path, world: Path) -> None:
    try:
        said = run(amd_smi, "-m", "pilotlight", "doctor", "--json").stdout
        check = next(one for one in json.loads(said)["checks"] if one["what"] == "counters: amd")
        assert check["state"] == "ok" and "2 AMD GPUs through amdsmi" in check["detail"]
        folder = str(world / "recording")
        job = ("-c", "import time; time.sleep(2.5)")
        run(amd_smi, "-m", "pilotlight", "run", "-q", "-o", folder, "--", sys.executable, *job)
        shown = run(amd_smi, "-m", "pilotlight", "report", folder, COLUMNS="200").stdout
        assert "GPUs (means)" in shown and "510 W" in shown
    finally:
        end_agent(world / "run")
