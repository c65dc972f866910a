"""Loops with more in a step than a training: answers by `generate`, trainings inside a training."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch_parts import loop, network, train


class Answering(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)

    @torch.no_grad()
    def generate(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = self(x)
        return x


@loop
def trained_on_its_answers() -> None:
    model = Answering()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        model.generate(torch.randn(4, 8))
    for _ in range(4):
        model.generate(torch.randn(4, 8))
        train(model, optimizer, 3)


@loop
def answers_beside_an_optimizer() -> None:
    model = Answering()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        model.generate(torch.randn(4, 8))
    optimizer.zero_grad()


@loop
def learning_to_learn() -> None:
    model = network()
    outer = torch.optim.Adam(model.parameters())
    for _ in range(20):
        for _ in range(4):
            learner = copy.deepcopy(model)
            train(learner, torch.optim.SGD(learner.parameters(), lr=0.1), 3)
            for parameter, learned in zip(model.parameters(), learner.parameters(), strict=True):
                parameter.grad = parameter.detach() - learned.detach()
        outer.step()
