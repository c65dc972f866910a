"""What to do in the words of the framework: rules speak of PyTorch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pilotlight.insights.finding import Finding
from pilotlight.insights.job import Job
from pilotlight.trace.trace import Trace

_JAX_NAMES = ("PjitFunction", "PjRt", "jax.")
_OF_CUDA = "CUDA_LAUNCH_BLOCKING"  # advice that holds whatever the framework
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


def in_words_of(job: Job, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings with advice for the framework that the job runs."""
    if not any(map(is_jax, job.traces)):
        return tuple(findings)
    return tuple(
        replace(one, fix=one.fix if _OF_CUDA in one.fix else _JAX_FIXES.get(one.rule, one.fix))
        for one in findings
    )


def is_jax(trace: Trace) -> bool:
    return trace.format == "xplane" or any(name.startswith(_JAX_NAMES) for name in trace.names)
