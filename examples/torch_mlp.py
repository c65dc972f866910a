"""Trains a small network with PyTorch; nothing in it knows of pilotlight.

pilotlight run -- python examples/torch_mlp.py --steps 200
"""

from __future__ import annotations

import argparse

import torch
from torch import nn


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--compile", action="store_true", help="compile the model")
    args = parser.parse_args()
    torch.manual_seed(0)
    model: nn.Module = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    if args.compile:
        model = torch.compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    truth = torch.randn(64, 10)
    loss = torch.tensor(0.0)
    for _ in range(args.steps):
        x = torch.randn(32, 64)
        y = (x @ truth).argmax(1)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    print(f"loss after {args.steps} steps: {loss.item():.3f}")


if __name__ == "__main__":
    main()
