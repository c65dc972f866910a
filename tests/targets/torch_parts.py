"""What the loops of torch_loops.py and of those beside it are made of."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

LOOPS: dict[str, Callable[[], None]] = {}


def loop(function: Callable[[], None]) -> Callable[[], None]:
    LOOPS[function.__name__] = function
    return function


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def batch() -> torch.Tensor:
    return torch.randn(4, 8)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        model(batch()).square().mean().backward()
        optimizer.step()
