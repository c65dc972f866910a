"""What an operator must do at least: floating-point operations, and bytes from and to memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from pilotlight.trace.detail import Operator

_BYTES = {
    "float": 4, "float32": 4, "double": 8, "c10::bfloat16": 2, "bfloat16": 2, "c10::half": 2,
    "half": 2, "long int": 8, "long": 8, "int": 4, "signed char": 1, "unsigned char": 1, "bool": 1,
    "c10::float8_e4m3fn": 1, "c10::float8_e5m2": 1,
}  # fmt: skip
_PEAK_OF_TYPE = {
    "float": "fp32", "float32": "fp32", "double": "fp64", "c10::bfloat16": "bf16",
    "bfloat16": "bf16", "c10::half": "fp16", "half": "fp16", "c10::float8_e4m3fn": "fp8",
    "c10::float8_e5m2": "fp8",
}  # fmt: skip

Shape = tuple[int, ...]


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
    kind = next((t.lower() for t in operator.types if t.lower() in _PEAK_OF_TYPE), None)
    if kind is None:
        return None
    try:
        if name in _SETTINGS:
            flops, elements = _convolution(operator.shapes, _settings(name, operator))
        else:
            flops, elements = rule(operator.shapes)
    except (IndexError, ValueError):
        return None
    if elements <= 0:
        return None
    return Cost(flops, elements * _BYTES[kind], _PEAK_OF_TYPE[kind])


def _product(m: int, k: int, n: int, batch: int = 1) -> tuple[float, float]:
    return 2.0 * batch * m * k * n, float(batch) * (m * k + k * n + m * n)


def _mm(shapes: list[Shape] | tuple[Shape, ...]) -> tuple[float, float]:
    (m, k), (_, n) = shapes[0], shapes[1]
    return _product(m, k, n)


def _addmm(shapes: tuple[Shape, ...]) -> tuple[float, float]:
    return _mm(shapes[1:3])


def _bmm(shapes: tuple[Shape, ...]) -> tuple[float, float]:
    (batch, m, k), (_, _, n) = shapes[0], shapes[1]
    return _product(m, k, n, batch)


def _baddbmm(shapes: tuple[Shape, ...]) -> tuple[float, float]:
    return _bmm(shapes[1:3])


@dataclass(frozen=True)
class _Settings:
    """Of a convolution, one number a side of the image, or one for all."""

    stride: Shape
    padding: Shape
    dilation: Shape
    is_transposed: bool


def _settings(name: str, operator: Operator) -> _Settings | None:
    """None where the trace does not tell them."""
    places, values = _SETTINGS[name], operator.values
    if len(values) <= max(places) or not all(values[place] for place in places):
        return None
    stride, padding, dilation = (values[place] for place in places)
    is_transposed = name == "convolution" and values[6:7] == ((1,),)
    return _Settings(stride, padding, dilation, is_transposed)


def _convolution(
    shapes: tuple[Shape, ...], settings: _Settings | None = None
) -> tuple[float, float]:
    """Stride 1 and same padding are assumed where nothing else is told."""
    batch, _, *image = shapes[0]
    out_channels, per_group, *kernel = shapes[1]
    if not image or len(kernel) != len(image):
        raise ValueError
    positions = made = prod(image)
    if settings is not None and settings.is_transposed:
        out_channels, made = per_group, made * prod(_sides(settings.stride, image))
    elif settings is not None:
        positions = made = _positions(image, kernel, settings)
    flops = 2.0 * batch * prod(shapes[1]) * positions
    return flops, float(prod(shapes[0]) + prod(shapes[1]) + batch * out_channels * made)


def _positions(image: list[int], kernel: list[int], settings: _Settings) -> int:
    """How often the kernel is laid on the image."""
    lists = (settings.stride, settings.padding, settings.dilation)
    strides, paddings, dilations = (_sides(values, image) for values in lists)
    counts = []
    for i, side in enumerate(image):
        reach = dilations[i] * (kernel[i] - 1) + 1
        counts.append((side + 2 * paddings[i] - reach) // max(strides[i], 1) + 1)
    if min(counts) < 1:
        raise ValueError
    return prod(counts)


def _sides(values: Shape, image: list[int]) -> Shape:
    return values * len(image) if len(values) == 1 else values


def _attention(shapes: tuple[Shape, ...]) -> tuple[float, float]:
    """Not causal: twice the arithmetic of a causal one. Fused: no scores in memory."""
    (batch, heads, queries, width), (_, _, keys, _) = shapes[0], shapes[1]
    flops = 4.0 * batch * heads * queries * keys * width
    return flops, float(2 * batch * heads * width * (queries + keys))


def _elementwise(shapes: tuple[Shape, ...]) -> tuple[float, float]:
    inputs = [prod(shape) for shape in shapes if shape]
    return float(max(inputs)), float(sum(inputs) + max(inputs))


def _norm(shapes: tuple[Shape, ...]) -> tuple[float, float]:
    size = prod(shapes[0])
    return 8.0 * size, 2.0 * size


def _reduction(shapes: tuple[Shape, ...]) -> tuple[float, float]:
    size = prod(shapes[0])
    return float(size), float(size)


def _copy(shapes: tuple[Shape, ...]) -> tuple[float, float]:
    size = prod(shapes[0])
    return 0.0, 2.0 * size


def _embedding(shapes: tuple[Shape, ...]) -> tuple[float, float]:
    """Rows that are read and written; the table as a whole is not."""
    (_, width), rows = shapes[0], prod(shapes[1])
    return 0.0, 2.0 * rows * width


def _convolution_backward(shapes: tuple[Shape, ...]) -> tuple[float, float]:
    """Two products, each as large as the forward one; the output's size is known here."""
    output, image, weight = shapes[0], shapes[1], shapes[2]
    if not weight[2:] or not output[2:]:
        raise ValueError
    forward = 2.0 * prod(output) * weight[1] * prod(weight[2:])
    return 2 * forward, 2.0 * (prod(output) + prod(image) + prod(weight))


def _attention_backward(shapes: tuple[Shape, ...]) -> tuple[float, float]:
    """Five products where the forward has two."""
    flops, elements = _attention(shapes[1:3])
    return 2.5 * flops, 2 * elements


def _norm_backward(shapes: tuple[Shape, ...]) -> tuple[float, float]:
    size = prod(shapes[0])
    return 12.0 * size, 3.0 * size


# Which inputs are stride, padding and dilation.
_SETTINGS = {"convolution": (3, 4, 5), "cudnn_convolution": (3, 2, 4)}
Rule = Callable[[tuple[Shape, ...]], tuple[float, float]]
_RULES: dict[str, Rule] = {
    "mm": _mm,
    "addmm": _addmm,
    "bmm": _bmm,
    "baddbmm": _baddbmm,
    "convolution": _convolution,
    "cudnn_convolution": _convolution,
    "_scaled_dot_product_flash_attention": _attention,
    "_scaled_dot_product_efficient_attention": _attention,
    "_scaled_dot_product_cudnn_attention": _attention,
    "native_layer_norm": _norm,
    "_fused_rms_norm": _norm,
    "_softmax": _norm,
    "_log_softmax": _norm,
    "native_layer_norm_backward": _norm_backward,
    "_softmax_backward_data": _norm_backward,
    "native_batch_norm": _norm,
    "cudnn_batch_norm": _norm,
    "native_batch_norm_backward": _norm_backward,
    "cudnn_batch_norm_backward": _norm_backward,
    "convolution_backward": _convolution_backward,
    "_scaled_dot_product_flash_attention_backward": _attention_backward,
    "_scaled_dot_product_efficient_attention_backward": _attention_backward,
    "_scaled_dot_product_cudnn_attention_backward": _attention_backward,
    "embedding": _embedding,
    "index_select": _embedding,
    "native_dropout": _elementwise,
    "sum": _reduction,
    "mean": _reduction,
    "copy_": _copy,
    **dict.fromkeys(
        (
            "add",
            "add_",
            "sub",
            "mul",
            "mul_",
            "div",
            "gelu",
            "silu",
            "relu",
            "relu_",
            "sigmoid",
            "tanh",
        ),
        _elementwise,
    ),
}
