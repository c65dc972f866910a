"""What an operator must do at least: floating-point operations, and bytes from and to memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pilotlight.model import operator_work as work
from pilotlight.trace.detail import Operator

_BYTES = {
    "float": 4, "float32": 4, "double": 8, "c10::bfloat16": 2, "bfloat16": 2, "c10::half": 2,
    "half": 2, "long int": 8, "long": 8, "int": 4, "signed char": 1, "unsigned char": 1, "bool": 1,
    "c10::float8_e4m3fn": 1, "c10::float8_e5m2": 1, "c10::float8_e4m3fnuz": 1,
    "c10::float8_e5m2fnuz": 1,
}  # fmt: skip
_PEAK_OF_TYPE = {
    "float": "fp32", "float32": "fp32", "double": "fp64", "c10::bfloat16": "bf16",
    "bfloat16": "bf16", "c10::half": "fp16", "half": "fp16", "c10::float8_e4m3fn": "fp8",
    "c10::float8_e5m2": "fp8", "c10::float8_e4m3fnuz": "fp8", "c10::float8_e5m2fnuz": "fp8",
}  # fmt: skip
# Of other operators integers are indices, masks and counts.
_PEAK_OF_INTEGERS = {"_int_mm": {"signed char": "int8", "unsigned char": "int8"}}


@dataclass(frozen=True)
class Cost:
    """`peak` is the column of the hardware table that the arithmetic runs at."""

    flops: float
    bytes: float
    peak: str


def cost_of(operator: Operator) -> Cost | None:
    """None for operators without a model, and where shapes or types are missing."""
    name = operator.name.removeprefix("aten::")
    rule = _RULES.get(name)
    if rule is None or not operator.shapes or not operator.types:
        return None
    peaks = _PEAK_OF_INTEGERS.get(name, _PEAK_OF_TYPE)
    kind = next((t.lower() for t in operator.types if t.lower() in peaks), None)
    if kind is None:
        return None
    try:
        if name in work.SETTINGS:
            flops, elements = work.convolution(operator.shapes, work.settings_of(name, operator))
        else:
            flops, elements = rule(operator.shapes)
    except (IndexError, ValueError):
        return None
    if elements <= 0:
        return None
    if work.is_causal(name, operator):
        flops /= 2
    return Cost(flops, elements * _BYTES[kind], peaks[kind])


_NORMS = (
    "native_layer_norm _fused_rms_norm native_group_norm native_batch_norm cudnn_batch_norm"
    " miopen_batch_norm _softmax _log_softmax"
)
_NORMS_BACKWARD = (
    "native_layer_norm_backward _fused_rms_norm_backward native_group_norm_backward"
    " native_batch_norm_backward cudnn_batch_norm_backward miopen_batch_norm_backward"
    " _softmax_backward_data _log_softmax_backward_data"
)
_SCALED_DOT_PRODUCT = tuple(
    f"_scaled_dot_product_{how}_attention" for how in ("flash", "efficient", "cudnn")
)
_REDUCTIONS = (
    "sum mean prod max min amax amin argmax argmin any all norm linalg_vector_norm var std"
    " var_mean logsumexp"
)
_SCANS = "cumsum cumprod logcumsumexp sort topk"
# By how many tensors they read at most: some are given the one that they write, too.
_UNARY = (
    "gelu silu silu_ relu relu_ leaky_relu hardtanh sigmoid tanh exp log log1p sqrt rsqrt neg abs"
    " reciprocal sin cos erf floor round clamp clamp_ clamp_min clamp_min_ clamp_max logical_not"
    " softplus elu tril triu native_dropout"
)
_BINARY = (
    "add add_ sub sub_ rsub mul mul_ div div_ pow maximum minimum masked_fill masked_fill_"
    " bitwise_and bitwise_or eq ne lt le gt ge mse_loss native_dropout_backward gelu_backward"
    " silu_backward threshold_backward sigmoid_backward tanh_backward"
)
_TERNARY = "where lerp lerp_ addcmul addcmul_ addcdiv addcdiv_"
_RULES: dict[str, Callable[[work.Shapes], work.Work]] = {
    "mm": work.mm,
    "_scaled_mm": work.mm,
    "_int_mm": work.mm,
    "addmm": work.addmm,
    "linear": work.linear,
    "mv": work.mv,
    "bmm": work.bmm,
    "baddbmm": work.baddbmm,
    "convolution_backward": work.convolution_backward,
    "embedding": work.embedding,
    "index_select": work.embedding,
    "_embedding_bag": work.embedding_bag,
    "embedding_dense_backward": work.embedding_backward,
    "gather": work.gather,
    "scatter_add_": work.gather,
    "copy_": work.copy,
    "fill_": work.fill,
    "zero_": work.fill,
    "FlashAttnFunc": work.flash_attention,
    "flash_attn::_flash_attn_forward": work.flash_attention,
    **dict.fromkeys(work.SETTINGS, work.convolution),
    **dict.fromkeys(_SCALED_DOT_PRODUCT, work.attention),
    **{f"{name}_backward": work.attention_backward for name in _SCALED_DOT_PRODUCT},
    **dict.fromkeys(_NORMS.split(), work.norm),
    **dict.fromkeys(_NORMS_BACKWARD.split(), work.norm_backward),
    **dict.fromkeys(_REDUCTIONS.split(), work.reduction),
    **dict.fromkeys(_SCANS.split(), work.scan),
    **{
        name: partial(work.elementwise, most=most)
        for most, names in enumerate((_UNARY, _BINARY, _TERNARY), 1)
        for name in names.split()
    },
}
