"""Inference: a classifier that is called in a loop, or a tiny language model that generates.

pilotlight run -- python examples/torch_infer.py --generate
"""

from __future__ import annotations

import argparse

import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())
        self.head = nn.Linear(256, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))


class Language(nn.Module):
    """Predicts the next token from the last; generates by doing so again and again."""

    def __init__(self, tokens: int = 100) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens, 64)
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
        self.head = nn.Linear(64, tokens)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.head(x)

    def generate(self, tokens: torch.Tensor, length: int) -> torch.Tensor:
        for _ in range(length):
            following = self(tokens[:, -1:]).argmax(-1)
            tokens = torch.cat([tokens, following], dim=1)
        return tokens


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--generate", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    if args.generate:
        language = Language().eval()
        for _ in range(args.steps):
            language.generate(torch.zeros(2, 1, dtype=torch.long), length=16)
    else:
        classifier = Classifier().eval()
        for _ in range(args.steps):
            classifier(torch.randn(8, 64)).argmax(1)
    print(f"{args.steps} requests done")


if __name__ == "__main__":
    main()
