from __future__ import annotations

import json
from typing import Any

import pytest

from pilotlight.insights.job import job_of
from pilotlight.insights.product import FEW_TERMS, NO_PRECISION, NO_SUM, NO_TILE, Product
from pilotlight.insights.roofline import roofline
from pilotlight.model.hardware import gpus
from pilotlight.trace.kineto import read_kineto


def products(*kernels: tuple[str, int, float]) -> tuple[Product, ...]:
    """Of kernels by name, blocks and microseconds, on an A100 of 40 GB."""
    events: list[dict[str, Any]] = [
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": 1000 * i, "dur": us,
         "args": {"correlation": i + 1, "grid": [blocks, 1, 1], "block": [256, 1, 1]}}
        for i, (name, blocks, us) in enumerate(kernels)
    ]  # fmt: skip
    trace = read_kineto(iter([json.dumps(events).encode()]), "a.json")
    (view,) = job_of([trace]).ranks
    return roofline(view, trace.detail.operators, gpus()["A100-40-SXM"]).products


def test_tile_and_grid_bound_the_result_and_the_peak_its_sums() -> None:
    """1024 tiles of 128 x 128 are 16.8 M elements. In 200 µs 0.78 of 312 TFLOP/s are 48.7 G
    operations, 2 a term: 1450 terms for each."""
    (row,) = products(("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn", 1024, 200))
    assert row.result_elements == 1024 * 128 * 128
    assert row.most_terms == pytest.approx(0.78 * 312e12 * 200e-6 / 2 / (1024 * 128 * 128))
    assert (row.peak, row.reason) == ("bf16", NO_SUM)


def test_a_product_with_few_terms_is_bound_by_what_it_writes() -> None:
    """In 20 µs 145 terms at most; the result alone, 33.6 MB, takes 24 µs at 0.9 of 1555 GB/s."""
    (row,) = products(("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn", 1024, 20))
    assert row.reason == FEW_TERMS


def test_what_names_and_grids_do_not_tell_is_said() -> None:
    rows = products(("nvjet_hsh_128x256_64x4_1x2", 132, 30), ("my_matmul_64x64_kernel", 8, 20))
    assert [row.reason for row in rows] == [NO_TILE, NO_PRECISION]
    assert [row.most_terms for row in rows] == [None, None]
    assert products(("elementwise", 8, 20)) == ()
