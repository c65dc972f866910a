"""Hardware profiling is refused by the name of what is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pilotlight.permission import (
    METHODS,
    Facts,
    beside_holders,
    capabilities_of,
    holders,
    missing_for,
    reason_of,
)

_ALL = frozenset(method.function for method in METHODS.values())
_FREE = Facts("RmProfilingAdminOnly: 0\n", 0, "/x/libcupti.so.12", _ALL, True, ())
_RESTRICTED = replace(_FREE, parameters="ResmanDebugLevel: 42\nRmProfilingAdminOnly: 1\n")


def reasons(method: str, facts: Facts) -> str:
    return "; ".join(one.what for one in missing_for(METHODS[method], facts))


@pytest.mark.parametrize("method", METHODS)
def test_where_everybody_may_nothing_is_missing(method: str) -> None:
    assert not missing_for(METHODS[method], _FREE)


@pytest.mark.parametrize("method", METHODS)
def test_the_permission_is_named(method: str) -> None:
    (missing,) = missing_for(METHODS[method], _RESTRICTED)
    for name in ("NVreg_RestrictProfilingToAdminUsers", "CAP_SYS_ADMIN", "CAP_PERFMON"):
        assert name in missing.what
    assert "NVreg_RestrictProfilingToAdminUsers=0" in missing.fix


@pytest.mark.parametrize("capability", [21, 38])
def test_either_capability_of_the_process_is_enough(capability: int) -> None:
    status = f"Name:\tx\nCapEff:\t{1 << capability:016x}\n"
    assert not missing_for(
        METHODS["pc"], replace(_RESTRICTED, capabilities=capabilities_of(status))
    )


def test_a_missing_library_function_and_perfworks_are_named() -> None:
    assert reasons("pc", replace(_FREE, cupti=None)) == "libcupti was not found"
    old = replace(_FREE, functions=frozenset({"cuptiPCSamplingEnable"}))
    assert reasons("pc", old) == ""
    assert reasons("pm", old) == "/x/libcupti.so.12 has no cuptiPmSamplingEnable"
    assert "libnvperf_host" in reasons("pc", replace(_FREE, has_perfworks=False))
    assert reasons("pc", replace(_FREE, parameters=None)) == "no NVIDIA driver"


def test_beside_dcgm_counters_are_tried_for_only_the_driver_knows_who_has_them() -> None:
    facts = replace(_FREE, holders=holders(["bash", "nv-hostengine"]))
    for method in METHODS.values():
        assert not missing_for(method, facts)
    assert beside_holders(METHODS["pc"], facts) == beside_holders(METHODS["pm"], _FREE) == ""
    told = beside_holders(METHODS["pm"], facts)
    assert "nv-hostengine" in told and "dcgmi profile --pause" in told


def test_who_has_the_counters_is_said_with_how_to_get_them() -> None:
    assert "dcgmi profile --pause" in reason_of(26)
    assert "NVreg_RestrictProfilingToAdminUsers=0" in reason_of(35)
    assert "pip install" in reason_of(46)
    assert "12.6" in reason_of(1001)
    assert reason_of(4711) == "error 4711"
