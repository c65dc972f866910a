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
# kernels carry several. Plain search is ten times as fast here as regular expressions.
_WORDS: tuple[tuple[Category, str], ...] = (
    (Category.COMMUNICATION, "nccldev ncclkernel nccl_ rccl msccl nvshmem cross_device_reduce"
     " oneshotallreduce twoshotallreduce allreduce_kernel all_reduce_kernel allreduce_fusion"
     " deep_ep deepep all-reduce all-gather reduce-scatter all-to-all collective-permute"
     " collective-broadcast"),
    (Category.ATTENTION, "flash fmha attention attn mha_ paged_kv pagedkv mla_"),
    (Category.OPTIMIZER, "adam sgd_kernel sgdkernel lamb_ fused_optim fusedoptim optimizer"),
    (Category.NORM, "layernorm layer_norm rmsnorm rms_norm batchnorm batch_norm groupnorm"
     " group_norm bn_fw bn_bw bnorm"),
    (Category.SOFTMAX, "softmax"),
    (Category.CONVOLUTION, "conv wgrad dgrad fprop winograd implicit_gemm cudnn nchwtonhwc"
     " nhwctonchw im2col miopen"),
    (Category.GEMM, "gemm gemv cutlass cublas matmul cijk_ nvjet _mm_ splitk hmma dot_kernel"
     " fc-dtype"),
    (Category.EMBEDDING, "embedding indexselect index_select gather scatter indexing index_put"
     " index_elem"),
    (Category.REDUCTION, "reduce reduction cumsum scan sort topk argmax norm_kernel"),
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
_COPY_STARTS = ("memcpy", "memset", "dma")
# What XLA calls operations of a TPU that are elementwise.
_ELEMENTWISE_ENDS = ("(loop fusion)", "(data formatting)")

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
    if start.startswith(_COPY_STARTS):
        return Category.COPY
    if start.startswith("nccl"):
        return Category.COMMUNICATION
    if start.endswith(_ELEMENTWISE_ENDS):
        return Category.ELEMENTWISE
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
    return bool(_FP32_GEMM.search(name)) and not _TENSOR_CORE.search(name)


def short_name(name: str) -> str:
    """Without template arguments and namespaces."""
    plain = re.sub(r"^std::enable_if<[^>]*>::type ", "", name)
    plain = re.sub(r"(?:\(anonymous namespace\)|<unnamed>|\{anonymous\})::", "", plain)
    return re.sub(r"<.*|\(.*", "", plain).split("::")[-1].removeprefix("void ")[:40]
