from __future__ import annotations

import pytest

from pilotlight.insights.kernel import (
    Category,
    category,
    communication_kind,
    is_fp32_without_tensor_cores,
)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("all-reduce.1", "allreduce"),
        ("all-gather-start.3", "allgather"),
        ("reduce-scatter.2", "reducescatter"),
        ("all-to-all.4", "alltoall"),
        ("collective-permute-done", "collectivepermute"),
    ],
)
def test_collectives_of_a_tpu_are_communication(name: str, kind: str) -> None:
    assert category(name) is Category.COMMUNICATION
    assert communication_kind(name) == kind


def test_fusions_of_a_tpu_are_what_xla_says_they_are() -> None:
    assert category("fusion.7 (convolution fusion)") is Category.CONVOLUTION
    assert category("fusion.9 (loop fusion)") is Category.ELEMENTWISE
    assert category("fusion.9") is Category.OTHER


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("triton_poi_fused_convolution_relu_3", Category.ELEMENTWISE),
        ("triton_poi_fused__scaled_dot_product_flash_attention_clone_5", Category.ELEMENTWISE),
        ("triton_poi_fused_mm_transpose_1", Category.ELEMENTWISE),
        ("triton_per_fused__softmax_masked_fill_2", Category.SOFTMAX),
        ("triton_red_fused_add_native_layer_norm_7", Category.NORM),
        ("triton_red_fused_mm_sum_9", Category.REDUCTION),
        ("triton_tem_fused_addmm_relu_0", Category.GEMM),
        ("triton_tem_fused_convolution_1", Category.CONVOLUTION),
        ("triton_for_fused_adamw_0", Category.OPTIMIZER),
    ],
)
def test_kernels_of_inductor_are_what_it_made_not_what_they_replace(
    name: str, found: Category
) -> None:
    assert category(name) is found


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("void fbgemm_gpu::permute_2D_lengths_kernel<int>(int)", Category.OTHER),
        ("void bounds_check_indices_kernel<long>(fbgemm_gpu::BoundsCheckMode)", Category.OTHER),
        ("void dense_embedding_codegen_forward<float>(fbgemm_gpu::T)", Category.EMBEDDING),
        ("loop_convert_fusion_4", Category.ELEMENTWISE),
        ("at::native::vectorized_elementwise_kernel<4, softmax_scale>", Category.ELEMENTWISE),
        ("at::native::index_elementwise_kernel<128, 4, index_kernel>", Category.EMBEDDING),
        ("void vllm::rotary_embedding_kernel<c10::BFloat16, true>", Category.ELEMENTWISE),
        ("fused_moe_kernel", Category.GEMM),
        ("Im3d2Col.kd", Category.CONVOLUTION),
        ("__amd_rocclr_copyBuffer.kd", Category.COPY),
        (
            "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernel<float>",
            Category.NORM,
        ),
    ],
)
def test_names_that_hold_the_word_of_another_kind_do_not_mislead(
    name: str, found: Category
) -> None:
    assert category(name) is found


@pytest.mark.parametrize(
    ("name", "is_fp32"),
    [
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_ffma_aligna4", True),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>", True),
        ("volta_sgemm_128x32_nt", True),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize64x64x32_stage4", False),
        ("cutlass_80_tensorop_s1688gemm_128x256_16x3_nn_align4", False),
    ],
)
def test_products_on_ordinary_units_are_known_by_their_instruction(
    name: str, is_fp32: bool
) -> None:
    assert is_fp32_without_tensor_cores(name) is is_fp32
