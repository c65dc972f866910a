"""What a kernel is, from its name."""

from __future__ import annotations

import re
from enum import Enum


class Category(str, Enum):
    COMMUNICATION = "communication"
    ATTENTION = "attention"
    GEMM = "gemm"
    CONVOLUTION = "convolution"
    NORM = "norm"
    SOFTMAX = "softmax"
    OPTIMIZER = "optimizer"
    EMBEDDING = "embedding"
    REDUCTION = "reduction"
    ELEMENTWISE = "elementwise"
    COPY = "copy"
    OTHER = "other"


# The first that matches counts: fused kernels carry several of these words.
_PATTERNS: tuple[tuple[Category, str], ...] = (
    (Category.COMMUNICATION, r"^nccl|ncclDev|ncclKernel|rccl|msccl|nvshmem|cross_device_reduce|"
     r"^(?:one|two)ShotAllReduce|lamport_?style|all_?reduce_kernel|allreduce_fusion|deep_?ep"),
    (Category.COPY, r"^Memcpy|^Memset|^dma"),
    (Category.ATTENTION, r"flash|fmha|attention|attn|mha_|paged_?kv|flashinfer|mla_"),
    (Category.OPTIMIZER, r"adam|sgd_?kernel|lamb_|fused_?optim|optimizer"),
    (Category.NORM, r"layer_?norm|rms_?norm|batch_?norm|group_?norm|bn_fw|bn_bw|bnorm"),
    (Category.SOFTMAX, r"softmax|log_?soft"),
    (Category.CONVOLUTION, r"conv|wgrad|dgrad|fprop|winograd|implicit_gemm|scudnn|nchwToNhwc|"
     r"nhwcToNchw|cudnn|im2col|miopen"),
    (Category.GEMM, r"gemm|gemv|cutlass|cublas|matmul|Cijk_|nvjet|_mm_|splitKreduce|splitK|hmma|"
     r"ampere_.*gemm|dot_kernel"),
    (Category.EMBEDDING, r"embedding|index_?select|gather|scatter|indexing|index_put|index_elem"),
    (Category.REDUCTION, r"reduce|reduction|cumsum|scan|sort|topk|argmax|norm_kernel"),
    (Category.ELEMENTWISE, r"elementwise|pointwise|multi_tensor_apply|CatArray|copy_kernel|fill|"
     r"triton_poi|add_|mul_|gelu|silu|relu|dropout|activation|rotary|rope|transpose|cast"),
)  # fmt: skip
_COMPILED = tuple((category, re.compile(text, re.IGNORECASE)) for category, text in _PATTERNS)

_MEMORY_BOUND = frozenset(
    {Category.NORM, Category.SOFTMAX, Category.REDUCTION, Category.ELEMENTWISE, Category.OPTIMIZER}
)
_FP32_GEMM = re.compile(
    r"sgemm|scudnn|ffma|_s_gemm|gemm_f32f32|gemm_fp32|simt_.*sgemm|f32f32_f32f32", re.IGNORECASE
)
_TENSOR_CORE = re.compile(
    r"tensorop|hmma|h?s?1688|h?s?16816|s884|h884|tf32|bf16|f16|fp16|fp8|e4m3|xmma|wgmma|nvjet|sm90"
    r"|hgemm|_bf|half|MFMA",
    re.IGNORECASE,
)


def category(name: str) -> Category:
    for found, pattern in _COMPILED:
        if pattern.search(name):
            return found
    return Category.OTHER


def is_memory_bound(found: Category) -> bool:
    """Kinds of kernels whose time is set by the bytes they move."""
    return found in _MEMORY_BOUND


def is_fp32_without_tensor_cores(name: str) -> bool:
    """A matrix product or convolution that computes in fp32 on the ordinary units."""
    return bool(_FP32_GEMM.search(name)) and not _TENSOR_CORE.search(name)
