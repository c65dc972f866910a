"""What a kernel is, from its name."""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache


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
    (Category.COMMUNICATION, "^nccl|nccldev|ncclkernel|rccl|msccl|nvshmem|cross_device_reduce"
     "|^(?:one|two)shotallreduce|all_?reduce_kernel|allreduce_fusion|deep_?ep"),
    (Category.COPY, "^memcpy|^memset|^dma"),
    (Category.ATTENTION, "flash|fmha|attention|attn|mha_|paged_?kv|mla_"),
    (Category.OPTIMIZER, "adam|sgd_?kernel|lamb_|fused_?optim|optimizer"),
    (Category.NORM, "layer_?norm|rms_?norm|batch_?norm|group_?norm|bn_fw|bn_bw|bnorm"),
    (Category.SOFTMAX, "softmax"),
    (Category.CONVOLUTION, "conv|wgrad|dgrad|fprop|winograd|implicit_gemm|cudnn|nchwtonhwc"
     "|nhwctonchw|im2col|miopen"),
    (Category.GEMM, "gemm|gemv|cutlass|cublas|matmul|cijk_|nvjet|_mm_|splitk|hmma|dot_kernel"),
    (Category.EMBEDDING, "embedding|index_?select|gather|scatter|indexing|index_put|index_elem"),
    (Category.REDUCTION, "reduce|reduction|cumsum|scan|sort|topk|argmax|norm_kernel"),
    (Category.ELEMENTWISE, "elementwise|pointwise|multi_tensor_apply|catarray|copy_kernel|fill"
     "|triton_poi|add_|mul_|gelu|silu|relu|dropout|activation|rotary|rope|transpose|cast"),
)  # fmt: skip
_COMPILED = tuple((category, re.compile(text)) for category, text in _PATTERNS)

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


@lru_cache(maxsize=1 << 16)
def category(name: str) -> Category:
    # Template arguments can make a name very long; what a kernel is comes first.
    start = name[:400].lower()
    for found, pattern in _COMPILED:
        if pattern.search(start):
            return found
    return Category.OTHER


def is_memory_bound(found: Category) -> bool:
    """Kinds of kernels whose time is set by the bytes they move."""
    return found in _MEMORY_BOUND


def is_fp32_without_tensor_cores(name: str) -> bool:
    """A matrix product or convolution that computes in fp32 on the ordinary units."""
    return bool(_FP32_GEMM.search(name)) and not _TENSOR_CORE.search(name)
