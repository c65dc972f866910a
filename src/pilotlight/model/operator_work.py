"""Operations and elements that an operator works on, from its shapes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from pilotlight.trace.detail import Operator

Shape = tuple[int, ...]
Shapes = tuple[Shape, ...]
Work = tuple[float, float]
# Which inputs of convolutions are stride, padding and dilation.
SETTINGS = {
    "convolution": (3, 4, 5),
    "cudnn_convolution": (3, 2, 4),
    "miopen_convolution": (4, 3, 5),
}
# Where attention is told that queries see earlier keys only; flash-attn 2 and 3 differ.
CAUSAL = {
    "_scaled_dot_product_flash_attention": (4,),
    "_scaled_dot_product_efficient_attention": (6,),
    "_scaled_dot_product_cudnn_attention": (6,),
    "_scaled_dot_product_flash_attention_backward": (11,),
    "_scaled_dot_product_efficient_attention_backward": (11,),
    "_scaled_dot_product_cudnn_attention_backward": (14,),
    "FlashAttnFunc": (4, 5),
}


def is_causal(name: str, operator: Operator) -> bool:
    """Whether half of the products need not be computed; False where the trace does not tell."""
    values = operator.values
    return any(values[place : place + 1] == ((1,),) for place in CAUSAL.get(name, ()))


def product(m: int, k: int, n: int, batch: int = 1) -> Work:
    return 2.0 * batch * m * k * n, float(batch) * (m * k + k * n + m * n)


def mm(shapes: Shapes) -> Work:
    (m, k), (_, n) = shapes[0], shapes[1]
    return product(m, k, n)


def addmm(shapes: Shapes) -> Work:
    return mm(shapes[1:3])


def linear(shapes: Shapes) -> Work:
    """The weight has a row for each output."""
    (*rows, k), (n, _) = shapes[0], shapes[1]
    return product(prod(rows), k, n)


def mv(shapes: Shapes) -> Work:
    (m, k), _ = shapes[0], shapes[1]
    return product(m, k, 1)


def bmm(shapes: Shapes) -> Work:
    (batch, m, k), (_, _, n) = shapes[0], shapes[1]
    return product(m, k, n, batch)


def baddbmm(shapes: Shapes) -> Work:
    return bmm(shapes[1:3])


@dataclass(frozen=True)
class Settings:
    """Of a convolution, one number a side of the image, or one for all."""

    stride: Shape
    padding: Shape
    dilation: Shape
    is_transposed: bool


def settings_of(name: str, operator: Operator) -> Settings | None:
    """None where the trace does not tell them."""
    places, values = SETTINGS[name], operator.values
    if len(values) <= max(places) or not all(values[place] for place in places):
        return None
    stride, padding, dilation = (values[place] for place in places)
    is_transposed = name == "convolution" and values[6:7] == ((1,),)
    return Settings(stride, padding, dilation, is_transposed)


def convolution(shapes: Shapes, settings: Settings | None = None) -> Work:
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


def _positions(image: list[int], kernel: list[int], settings: Settings) -> int:
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


def attention(shapes: Shapes) -> Work:
    """Fused: no scores in memory."""
    (batch, heads, queries, width), (_, _, keys, _) = shapes[0], shapes[1]
    flops = 4.0 * batch * heads * queries * keys * width
    return flops, float(2 * batch * heads * width * (queries + keys))


def flash_attention(shapes: Shapes) -> Work:
    """As the package flash-attn has them: the heads come after the queries and keys."""
    (batch, queries, heads, width), (_, keys, groups, _) = shapes[0], shapes[1]
    flops = 4.0 * batch * heads * queries * keys * width
    return flops, float(2 * batch * width * (heads * queries + groups * keys))


def elementwise(shapes: Shapes, most: int) -> Work:
    """Of the first `most` tensors, which are read; the result is as large as the largest."""
    inputs = [prod(shape) for shape in shapes if shape][:most]
    return float(max(inputs)), float(sum(inputs) + max(inputs))


def norm(shapes: Shapes) -> Work:
    size = prod(shapes[0])
    return 8.0 * size, 2.0 * size


def reduction(shapes: Shapes) -> Work:
    size = prod(shapes[0])
    return float(size), float(size)


def copy(shapes: Shapes) -> Work:
    size = prod(shapes[0])
    return 0.0, 2.0 * size


def embedding(shapes: Shapes) -> Work:
    """Rows that are read and written; the table as a whole is not."""
    (_, width), rows = shapes[0], prod(shapes[1])
    return 0.0, 2.0 * rows * width


def gather(shapes: Shapes) -> Work:
    """As many elements as there are indices, read and written."""
    size = max(prod(shape) for shape in shapes[1:] if shape)
    return 0.0, 2.0 * size


def embedding_bag(shapes: Shapes) -> Work:
    """All rows are read and added up, one for each bag is written."""
    (_, width), rows, bags = shapes[0], prod(shapes[1]), prod(shapes[2])
    return float(rows * width), float((rows + bags) * width)


def embedding_backward(shapes: Shapes) -> Work:
    """The gradient of each row is read, and added to the row of its table."""
    size = prod(shapes[0])
    return float(size), 3.0 * size


def scan(shapes: Shapes) -> Work:
    size = prod(shapes[0])
    return float(size), 2.0 * size


def fill(shapes: Shapes) -> Work:
    return 0.0, float(prod(shapes[0]))


def convolution_backward(shapes: Shapes) -> Work:
    """Two products, each as large as the forward one; the output's size is known here."""
    output, image, weight = shapes[0], shapes[1], shapes[2]
    if not weight[2:] or not output[2:]:
        raise ValueError
    forward = 2.0 * prod(output) * weight[1] * prod(weight[2:])
    return 2 * forward, 2.0 * (prod(output) + prod(image) + prod(weight))


def attention_backward(shapes: Shapes) -> Work:
    """Five products where the forward has two."""
    flops, elements = attention(shapes[1:3])
    return 2.5 * flops, 2 * elements


def norm_backward(shapes: Shapes) -> Work:
    size = prod(shapes[0])
    return 12.0 * size, 3.0 * size
