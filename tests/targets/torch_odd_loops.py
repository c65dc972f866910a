"""Loops with faults, odd modules, checks that the framework looks untouched, and the examples."""

from __future__ import annotations

import copy
import io
import pickle
import runpy
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch_parts import batch, loop, network, train

from pilotlight import _probe


@loop
def raising() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(torch.randn(40, 8), batch_size=4)
    for step, x in enumerate(loader):
        model(x).square().mean().backward()
        try:
            optimizer.step(lambda s=step: 1 / (s != 5))
        except ZeroDivisionError:
            optimizer.step()


@loop
def checkpointed_activations() -> None:
    from torch.utils.checkpoint import checkpoint

    model, head = network(), nn.Linear(4, 1)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
    for _ in range(5):
        head(checkpoint(model, batch(), use_reentrant=False)).mean().backward()
        optimizer.step()


@loop
def annotated() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        with torch.profiler.record_function("mine"):
            train(model, optimizer, 1)


@loop
def annotated_late() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, optimizer, 4)
    with torch.autograd.profiler.record_function(name="by keyword"):
        train(model, optimizer, 1)

    @torch.profiler.record_function("decorated")
    def step() -> None:
        train(model, optimizer, 1)

    step()
    step()


def by_hand(model: nn.Module, count: int) -> None:
    for _ in range(count):
        model(batch()).square().mean().backward()
        with torch.no_grad():
            for each in model.parameters():
                each -= 0.1 * each.grad
                each.grad = None


@loop
def without_optimizer() -> None:
    by_hand(network(), 20)


@loop
def few_without_optimizer() -> None:
    by_hand(network(), 3)


@loop
def optimizer_made_late() -> None:
    model = network()
    by_hand(model, 3)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), 10)


@loop
def saved() -> None:
    model = network()
    with tempfile.TemporaryDirectory() as folder:
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), 2)
        torch.save(model, f"{folder}/model.pt")
        torch.load(f"{folder}/model.pt", weights_only=False)
        assert b"pilotlight" not in Path(folder, "model.pt").read_bytes()


@loop
def looks_untouched() -> None:
    import inspect

    model = network()
    assert pickle.loads(pickle.dumps(torch.save)) is torch.save
    assert copy.deepcopy(torch.save) is torch.save
    assert "pilotlight" not in pickle.dumps(model).decode("latin-1")
    copy.deepcopy(model)(batch())
    assert inspect.signature(torch.save).parameters["f"]
    assert torch.save.__name__ == "save" and torch.save.__module__ == "torch.serialization"
    scripted = torch.jit.script(model)
    scripted(batch())
    torch.fx.symbolic_trace(model)(batch())

    @torch.jit.script
    def labelled(x: torch.Tensor) -> torch.Tensor:
        with torch.autograd.profiler.record_function("scripted"):
            return x + 1

    labelled(batch())
    buffer = io.BytesIO()
    torch.save(scripted.state_dict(), buffer)
    _probe.mark("untouched", 1)


@loop
def faulty() -> None:
    from pilotlight.probe.adapters import adapter

    mine = adapter("torch")

    def broken(*_: object) -> None:
        raise ValueError("a hook of ours")

    mine.replace(
        nn.Linear, "extra_repr", lambda f: _probe.around_call(f, mine.fault, broken, broken)
    )
    linear = nn.Linear(2, 3)
    for _ in range(12):
        assert linear.extra_repr() == "in_features=2, out_features=3, bias=True"
    assert mine.is_off and mine.faults == 10
    assert type(vars(nn.Module)["__call__"]).__name__ == "function"
    train(network(), torch.optim.SGD(network().parameters(), lr=0.1), 3)


@loop
def patches_removed() -> None:
    from pilotlight.probe.adapters import adapter

    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, optimizer, 3)
    torch.optim.SGD.step = torch.optim.SGD.step.__wrapped__
    train(model, optimizer, 3)
    assert adapter("torch").told()["changed_by_others"] == ["SGD.step"]
    adapter("torch").turn_off("the test says so")
    train(model, optimizer, 3)


class Inner(nn.Module):
    """Two layers, and one between them that passes on what it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.none, self.second = nn.Linear(8, 16), nn.Identity(), network()
        self.second[0] = nn.Linear(16, 16)
        self.fails = False

    def forward(self, x: torch.Tensor) -> dict[str, list[torch.Tensor]]:
        hidden = self.none(self.first(x))
        if self.fails:
            raise ValueError("a module of the program's own")
        return {"results": [self.second(hidden)]}


class Wrapper(nn.Module):
    """As DistributedDataParallel holds a module."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: torch.Tensor) -> dict[str, list[torch.Tensor]]:
        return self.module(x)  # type: ignore[no-any-return]


@loop
def odd_modules() -> None:
    model = Wrapper(Inner())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        model.module.fails = True
        try:
            model(batch())
        except ValueError:
            model.module.fails = False
        model(batch())["results"][0].mean().backward()
        optimizer.step()


class Twice(torch.optim.SGD):
    """An optimizer whose step is another's with more around it."""

    def step(self, closure: object = None) -> None:
        super().step()


@loop
def inherited_step() -> None:
    model = network()
    train(model, Twice(model.parameters(), lr=0.1), 5)


@loop
def interrupted() -> None:
    from pilotlight.probe.adapters import adapter

    mine = adapter("torch")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    mine.replace(
        nn.Linear, "extra_repr", lambda f: _probe.around_call(f, mine.fault, interrupt, interrupt)
    )
    try:
        nn.Linear(2, 3).extra_repr()
    except KeyboardInterrupt:
        _probe.mark("interrupt passed", 1)


def example(name: str, *options: str) -> None:
    program = str(Path(__file__).parents[2] / "examples" / f"{name}.py")
    sys.argv = [program, *options]
    runpy.run_path(program, run_name="__main__")


@loop
def example_mlp() -> None:
    example("torch_mlp", "--steps", "20")


@loop
def example_dataloader_bound() -> None:
    example("torch_dataloader_bound", "--steps", "12", "--workers", "1", "--item-ms", "2")


@loop
def example_infer() -> None:
    example("torch_infer", "--steps", "12")


@loop
def example_generate() -> None:
    example("torch_infer", "--steps", "6", "--generate")


def in_threads(work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@loop
def trainings_in_threads() -> None:
    def work() -> None:
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(12):
            # Backwards of other threads go on meanwhile.
            hidden = model(batch())
            hidden.register_hook(lambda _: time.sleep(0.002))
            hidden.square().mean().backward()
            optimizer.step()

    in_threads(work)


@loop
def trainings_in_one_thread_after_another() -> None:
    def work() -> None:
        model = network()
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), 6)

    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()


@loop
def inference_in_threads() -> None:
    def work() -> None:
        model = network()
        for _ in range(24):
            model(batch())
            time.sleep(0.001)

    in_threads(work)
