from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pilotlight.cli.main import main
from pilotlight.insights.job import job_of
from pilotlight.insights.roofline import CACHED, COMPUTE, LATENCY, LAUNCH, WRONG, Roofline, roofline
from pilotlight.model.hardware import gpus
from pilotlight.trace.reader import read_traces

H100 = "H100-SXM"


def measure(path: Path, gpu: str) -> Roofline:
    (view,) = job_of(read_traces([path]).traces).ranks
    return roofline(view, view.trace.detail.operators, gpus()[gpu])


def write(
    path: Path,
    kernel_us: float,
    size: int = 8192,
    kernel: str = "gemm",
    call_us: float = 5,
    element: str = "c10::BFloat16",
) -> Path:
    args = {"Input Dims": [[size, size], [size, size]], "Input type": [element] * 2}
    host = {"ph": "X", "pid": 1, "tid": 1}
    events: list[dict[str, Any]] = [
        {**host, "cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 50, "args": args},
        {**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 10, "dur": call_us,
         "args": {"correlation": 1}},
        {"ph": "X", "cat": "kernel", "name": kernel, "pid": 0, "tid": 7, "ts": 20,
         "dur": kernel_us, "args": {"correlation": 1}},
    ]  # fmt: skip
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def test_a_good_product_is_bound_by_compute(tmp_path: Path) -> None:
    needed_us = 2 * 8192**3 / (0.78 * 989.5e12) * 1e6
    result = measure(write(tmp_path / "a.json", needed_us / 0.9), H100)
    (row,) = result.rows
    assert row.limit == COMPUTE
    assert row.roofline_ratio == pytest.approx(0.9, rel=0.01)
    assert result.mfu_ratio == pytest.approx(0.9 * 0.78, rel=0.01)
    assert result.covered_ratio == 1


def test_a_product_faster_than_the_hardware_says_that_the_model_is_wrong(tmp_path: Path) -> None:
    (row,) = measure(write(tmp_path / "a.json", 100), H100).rows
    assert row.limit == WRONG


def test_a_tiny_product_is_bound_by_latency(tmp_path: Path) -> None:
    (row,) = measure(write(tmp_path / "a.json", 5, size=64), H100).rows
    assert (row.limit, row.reason) == (LATENCY, "too short to fill the device")


def test_a_kernel_shorter_than_its_launch_call_is_bound_by_launches(tmp_path: Path) -> None:
    (row,) = measure(write(tmp_path / "a.json", 5, size=64, call_us=8), H100).rows
    assert (row.limit, row.reason) == (LAUNCH, "shorter than its launch call (8.0 µs)")


def test_a_convolution_by_winograds_algorithm_is_not_beyond_the_roof(tmp_path: Path) -> None:
    """As many products as at 180 % of the peak, of which 2.25 times fewer are computed."""
    needed_us = 2 * 4096**3 / (0.78 * 67e12) * 1e6
    name = "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1"
    path = write(tmp_path / "a.json", needed_us / 1.8, 4096, name, element="float")
    (row,) = measure(path, H100).rows
    assert (row.limit, row.roofline_ratio) == (COMPUTE, pytest.approx(0.8, rel=0.01))


def test_products_of_unknown_size_make_the_share_of_the_peak_a_bound(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", 1000, 4096)
    events = json.loads(path.read_text())["traceEvents"]
    for i, us in enumerate((40, 400)):
        kernel = {"ph": "X", "cat": "kernel", "name": "nvjet_tst_192x192", "pid": 0, "tid": 7}
        args = {"correlation": 2 + i, "grid": [132, 1, 1], "block": [384, 1, 1]}
        events.append({**kernel, "ts": 2000 + 1000 * i, "dur": us, "args": args})
        path.write_text(json.dumps({"traceEvents": events}))
        assert measure(path, H100).is_mfu_a_bound == (us == 400)


def test_arithmetic_guessed_from_grids_counts_for_the_share_of_the_peak(tmp_path: Path) -> None:
    flash = (
        "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false,"
        " cutlass::bfloat16_t>>, false, false, false>(flash::Flash_fwd_params)"
    )
    args = {"correlation": 1, "grid": [64, 1, 16], "block": [128, 1, 1]}
    event = {"ph": "X", "cat": "kernel", "name": flash, "pid": 0, "tid": 7, "ts": 0, "dur": 2000}
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"traceEvents": [{**event, "args": args}]}))
    flops = 4 * 16 * (63.5 * 128) ** 2 * 128
    assert measure(path, H100).mfu_ratio == pytest.approx(flops / 2e-3 / 989.5e12)


def test_products_of_fp32_on_tensor_cores_are_compared_with_their_peak(tmp_path: Path) -> None:
    """2 · 4096³ operations in 500 µs are 275 TFLOP/s: four times the peak of fp32."""
    tf32 = "cutlass_80_tensorop_s1688gemm_128x256_16x3_nn_align4"
    for kernel, peak, limit in ((tf32, "tf32", COMPUTE), ("ampere_sgemm_128x64_nn", "fp32", WRONG)):
        path = write(tmp_path / "a.json", 500, 4096, kernel, element="float")
        (row,) = measure(path, H100).rows
        assert (row.peak, row.limit, row.confidence) == (peak, limit, "high")


def test_data_that_fit_into_the_cache_are_said_to(tmp_path: Path) -> None:
    """512² elements of 2 bytes, three times: 1.6 MB in 0.4 µs, from a cache of 50 MB."""
    (row,) = measure(write(tmp_path / "a.json", 0.4, 512), H100).rows
    assert (row.limit, row.reason) == (WRONG, CACHED)


@pytest.mark.parametrize(("name", "gpu"), [("qwen_h100", H100), ("qwen_mi300", "MI300X")])
def test_the_real_products_lie_under_the_roof(shared_data: Path, name: str, gpu: str) -> None:
    result = measure(shared_data / "kineto" / f"{name}.json.gz", gpu)
    longest = result.rows[0]
    assert longest.operator == "aten::mm"
    assert longest.limit == COMPUTE
    assert 0.5 < longest.roofline_ratio < 1.0
    assert not [row for row in result.rows if row.limit == WRONG]
    assert 0.05 < result.mfu_ratio < 0.5


@pytest.mark.parametrize(
    ("other_us", "told"), [(100.0, "MFU "), (90_000.0, "MFU not known, only ")]
)
def test_the_share_of_the_peak_is_told_where_most_of_the_work_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], other_us: float, told: str
) -> None:
    path = write(tmp_path / "a.json", 2000)
    found = json.loads(path.read_text())
    other = {"ph": "X", "cat": "kernel", "name": "zzz", "pid": 0, "tid": 7, "ts": 3000}
    found["traceEvents"].append({**other, "dur": other_us, "args": {"correlation": 2}})
    path.write_text(json.dumps(found))
    assert main(["roofline", str(path), "--gpu", H100]) == 0
    assert f"{H100}: {told}" in capsys.readouterr().out
