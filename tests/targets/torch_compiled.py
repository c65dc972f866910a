"""torch.compile beside the adapter: compiles, compiles again for a new shape, breaks a graph."""

from __future__ import annotations

import io

import torch
from torch import nn


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layer(x))


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()
        self.head = nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.inner(x))


def main() -> None:
    torch.set_num_threads(1)
    # fullgraph: an adapter that a compiler stumbles over would raise here.
    model = Outer()
    whole = torch.compile(model, backend="eager", fullgraph=True, dynamic=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for size in (4, 4, 6, 6):
        whole(torch.randn(size, 8)).sum().backward()
        optimizer.step()

    hooked = Outer()
    hooked.inner.register_forward_hook(lambda module, args, output: output * 2)
    torch.compile(hooked, backend="eager", fullgraph=True)(torch.randn(4, 8))

    @torch.compile(backend="eager", fullgraph=True)
    def calls_a_module(x: torch.Tensor) -> torch.Tensor:
        return model(x) + 1

    calls_a_module(torch.randn(4, 8))

    @torch.compile(backend="eager")
    def breaks(x: torch.Tensor) -> torch.Tensor:
        x = model.inner(x)
        print("graph break")
        return model.head(x)

    breaks(torch.randn(4, 8))
    torch.compile(optimizer.step, backend="eager")()

    @torch.compile(backend="eager")
    def whole_step(x: torch.Tensor) -> None:
        model(x).sum().backward()
        optimizer.step()

    for _ in range(3):
        whole_step(torch.randn(4, 8))

    @torch.compile(backend="eager")
    def breaks_and_saves(x: torch.Tensor) -> None:
        model(x * 2)
        torch.save(model.state_dict(), io.BytesIO())
        torch.optim.SGD(model.parameters(), lr=0.1)
        type("Made", (nn.Module,), {})

    for _ in range(3):
        breaks_and_saves(torch.randn(4, 8))

    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
    )
    parallel = torch.compile(nn.parallel.DistributedDataParallel(model), backend="eager")
    for _ in range(3):
        parallel(torch.randn(4, 8)).sum().backward()
    torch.distributed.destroy_process_group()

    torch.export.export(Outer(), (torch.randn(4, 8),), strict=True)
    print("compiled")


if __name__ == "__main__":
    main()
