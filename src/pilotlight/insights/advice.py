"""What to do in the words of the framework: rules speak of PyTorch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pilotlight.insights.feed import WITHIN_DEVICE_FIX
from pilotlight.insights.finding import Finding
from pilotlight.insights.job import Job
from pilotlight.trace.trace import Trace

_JAX_NAMES = ("PjitFunction", "PjRt", "jax.")
_TORCH_NAMES = ("aten::", "c10d::", "ProfilerStep", "nn.Module:", "autograd::", "torch")
_JAX_FIXES = {
    "A01": "jax.jit around the whole step, lax.scan over steps or layers, command buffers"
    " (--xla_gpu_enable_command_buffer), larger micro-batches",
    "A02": "jax.jit around the whole step, less Python between dispatches, fewer CPU neighbours",
    "A03": "no block_until_ready, device_get, float() or print of arrays in the step; log every n"
    " steps",
    "A06": "padded or bucketed shapes, hashable static arguments, jax_compilation_cache_dir on"
    " shared disk",
    "A08": "more loader workers (grain, tf.data with AUTOTUNE), prefetch to the device",
    "A13": "jax.jit around them so that XLA fuses, or a Pallas kernel",
    "A14": "jax_default_matmul_precision tensorfloat32 or bfloat16; bf16 parameters or activations",
    "A18": "jax.nn.dot_product_attention(implementation='cudnn') or a flash kernel of Pallas",
    "A19": "the update within the jit of the step; optax.flatten for many small parameters",
    "A31": "larger buckets (--xla_gpu_all_reduce_combine_threshold_bytes); look at"
    " NCCL_DEBUG=INFO for NET/Socket, disabled P2P or SHM, and the wrong network card",
    "A35": "leave XLA_PYTHON_CLIENT_PREALLOCATE on, a larger XLA_PYTHON_CLIENT_MEM_FRACTION",
    "A36": "jax.checkpoint, a smaller batch, donate_argnums; look for kept arrays",
}


# Of programs that use neither.
_PLAIN_FIXES = {
    "A01": "CUDA or HIP graphs, kernels that do more, several streams",
    "A02": "less work of the host between launches, launches from another thread, graphs",
    "A03": "wait for events instead of the whole device, fewer blocking copies, pinned memory",
    "A11": "page-locked memory (cudaMallocHost) and asynchronous copies on a stream of their own;"
    " keep the data on the device",
    "A13": "one kernel for them: keep values in registers between the operations",
    "A14": "matrix products on tensor cores (cuBLAS or hipBLASLt with TF32, FP16 or BF16)",
    "A18": "a fused attention kernel (FlashAttention, cuDNN, composable kernels)",
    "A35": "allocate once, or cudaMallocAsync with a pool that keeps its memory",
}


def in_words_of(job: Job, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings with advice for the framework that the job runs."""
    if any(map(is_jax, job.traces)):
        words = _JAX_FIXES
    elif any(map(is_torch, job.traces)):
        words = {}
    else:
        words = _PLAIN_FIXES
    return tuple(
        one if _holds_anywhere(one.fix) else replace(one, fix=words.get(one.rule, one.fix))
        for one in findings
    )


def _holds_anywhere(fix: str) -> bool:
    return "CUDA_LAUNCH_BLOCKING" in fix or "trace later steps" in fix or fix == WITHIN_DEVICE_FIX


def is_torch(trace: Trace) -> bool:
    return any(name.startswith(_TORCH_NAMES) or "at::native::" in name for name in trace.names)


def is_jax(trace: Trace) -> bool:
    return trace.format == "xplane" or any(name.startswith(_JAX_NAMES) for name in trace.names)
