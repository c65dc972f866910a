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


# Words in lower case; the first category with one of its words in the name counts, for fused
# kernels carry several. Plain search is ten times as fast here as regular expressions. Rotary
# embeddings look nothing up.
_WORDS: tuple[tuple[Category, str], ...] = (
    (Category.COMMUNICATION, "nccldev ncclkernel nccl_ rccl msccl nvshmem cross_device_reduce"
     " oneshotallreduce twoshotallreduce allreduce_kernel all_reduce_kernel allreduce_fusion"
     " deep_ep deepep all-reduce all-gather reduce-scatter all-to-all collective-permute"
     " collective-broadcast userbuffers mscclpp"),
    (Category.ATTENTION, "flash fmha attention attn mha_ paged_kv pagedkv mla_"),
    (Category.OPTIMIZER, "adam sgd_kernel sgdkernel lamb_ fused_optim fusedoptim optimizer"),
    (Category.NORM, "layernorm layer_norm rmsnorm rms_norm batchnorm batch_norm groupnorm"
     " group_norm bn_fw bn_bw bnorm gammabeta rowwisemoments ln_fwd ln_bwd"),
    (Category.SOFTMAX, "softmax"),
    (Category.CONVOLUTION, "conv wgrad dgrad fprop winograd implicit_gemm cudnn nchwtonhwc"
     " nhwctonchw im2col im2d2col im3d2col miopen"),
    (Category.GEMM, "gemm gemv cutlass cublas matmul cijk_ nvjet _mm_ splitk hmma dot_kernel"
     " fc-dtype fused_moe_kernel marlin machete"),
    (Category.ELEMENTWISE, "rotary"),
    (Category.EMBEDDING, "embedding indexselect index_select gather scatter indexing index_put"
     " index_elem"),
    (Category.REDUCTION, "reduce reduction cumsum scan sort topk argmax norm_kernel max_pool"
     " avg_pool average_pool"),
    (Category.ELEMENTWISE, "elementwise pointwise multi_tensor_apply catarray copy_kernel fill"
     " triton_poi add_ mul_ gelu silu relu dropout activation rotary rope transpose cast"),
)  # fmt: skip
_WORD_LISTS = tuple((category, tuple(words.split())) for category, words in _WORDS)
ANY_COMMUNICATION = "communication"
_KIND = re.compile(
    r"AllReduce|AllGather|ReduceScatter|Broadcast|SendRecv|AllToAll|CollectivePermute|Reduce|Send"
    r"|Recv|Barrier",
    re.IGNORECASE,
)
_COPY_STARTS = ("memcpy", "memset", "dma", "__amd_rocclr_copy", "__amd_rocclr_fill")
# Inductor names a kernel after what it makes of it, then after all operators that it replaces, and
# those beside it that it does not.
_TRITON = re.compile(r"triton_(poi|red|per|tem|for)_")
_TRITON_NORMS = ((Category.NORM, "norm"), (Category.SOFTMAX, "softmax"))
_TRITON_PRODUCTS = (
    (Category.ATTENTION, "attention"),
    (Category.CONVOLUTION, "conv"),
    (Category.GEMM, "mm"),
)
_TRITON_KINDS: dict[str, tuple[tuple[tuple[Category, str], ...], Category]] = {
    "poi": ((), Category.ELEMENTWISE),
    "red": (_TRITON_NORMS, Category.REDUCTION),
    "per": (_TRITON_NORMS, Category.REDUCTION),
    "tem": (_TRITON_PRODUCTS, Category.OTHER),
    "for": (((Category.OPTIMIZER, "adam"), (Category.OPTIMIZER, "sgd")), Category.ELEMENTWISE),
}
_ELEMENTWISE = re.compile(r"native::(?:vectorized_|unrolled_|legacy_)?elementwise_kernel")
# Namespaces and words that hold another category's word and say nothing.
_MISLEADING = (("fbgemm", ""), ("convert", "cast"))
# What XLA calls operations of a TPU that are elementwise.
_ELEMENTWISE_ENDS = ("(loop fusion)", "(data formatting)")

_MEMORY_BOUND = frozenset(
    {Category.NORM, Category.SOFTMAX, Category.REDUCTION, Category.ELEMENTWISE, Category.OPTIMIZER}
)
_FP32_UNITS = re.compile(r"ffma|simt_sgemm", re.IGNORECASE)
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
    if start.startswith(_COPY_STARTS):
        return Category.COPY
    if start.startswith("nccl"):
        return Category.COMMUNICATION
    if start.endswith(_ELEMENTWISE_ENDS):
        return Category.ELEMENTWISE
    if triton := _TRITON.match(start):
        kinds, other = _TRITON_KINDS[triton.group(1)]
        return next((kind for kind, word in kinds if word in start), other)
    # Most kernels of PyTorch are of these; their templates name operations, which can mislead.
    plain_name = start.partition("<")[0]
    if _ELEMENTWISE.search(plain_name):
        return Category.ELEMENTWISE
    if plain_name.endswith("native::reduce_kernel"):
        return Category.REDUCTION
    for word, plain in _MISLEADING:
        start = start.replace(word, plain)
    for found, words in _WORD_LISTS:
        for word in words:
            if word in start:
                return found
    return Category.OTHER


@lru_cache(maxsize=1 << 16)
def communication_kind(name: str) -> str:
    """Of a kernel or an operation; `communication` if it does not say."""
    match = _KIND.search(name[:400].replace("_", "").replace("-", ""))
    return match.group().lower() if match else ANY_COMMUNICATION


def is_memory_bound(found: Category) -> bool:
    """Kinds of kernels whose time is set by the bytes they move."""
    return found in _MEMORY_BOUND


def is_fp32_without_tensor_cores(name: str) -> bool:
    """A matrix product or convolution that computes in fp32 on the ordinary units."""
    if _FP32_UNITS.search(name):
        return True
    return bool(_FP32_GEMM.search(name)) and not _TENSOR_CORE.search(name)


def short_name(name: str) -> str:
    """Without template arguments and namespaces."""
    plain = re.sub(r"^std::enable_if<[^>]*>::type ", "", name)
    plain = re.sub(r"(?:\(anonymous namespace\)|<unnamed>|\{anonymous\})::", "", plain)
    return re.sub(r"<.*|\(.*", "", plain).split("::")[-1].removeprefix("void ")[:40]
