from __future__ import annotations

import pytest

from pilotlight.model.tile import TF32, precision_of, tile_of, winograd_ratio


@pytest.mark.parametrize(
    ("name", "tile", "peak"),
    [
        ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_32x6_tn", (128, 64), "fp16"),
        ("cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x5_nn_align8", (128, 128), "bf16"),
        ("cutlass_80_tensorop_s1688gemm_128x256_16x3_nn_align4", (128, 256), "tf32"),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize64x64x32_stage4", (64, 64), "tf32"),
        ("volta_sgemm_32x128_tn", (32, 128), "fp32"),
        ("turing_fp16_s1688gemm_fp16_256x128_ldg8_f2f_tn", (256, 128), "fp16"),
        ("Cijk_Alik_Bljk_BBS_BH_MT128x96x64_MI16x16x1_SN", (128, 96), "bf16"),
        ("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NTN", None, None),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", None, "bf16"),
        ("gemv2T_kernel_val<int, int, __half, __half>", None, "fp16"),
    ],
)
def test_names_tell_tile_and_precision(
    name: str, tile: tuple[int, int] | None, peak: str | None
) -> None:
    assert tile_of(name) == tile
    found = precision_of(name)
    assert (found[0] if found else None) == peak
    assert (TF32.search(name) is not None) == (peak == "tf32")


@pytest.mark.parametrize(
    ("name", "ratio"),
    [
        ("volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1", 2.25),
        ("void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(int)", 4.0),
        ("volta_scudnn_128x128_stridedB_splitK_small_nn_v1", 1.0),
    ],
)
def test_winograds_algorithm_multiplies_less(name: str, ratio: float) -> None:
    assert winograd_ratio(name) == ratio
