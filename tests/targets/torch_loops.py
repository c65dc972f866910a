"""Training loops of many kinds, each in a forked process that says its name by a mark."""

from __future__ import annotations

import copy
import io
import os
import pickle
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

import torch
import torch._dynamo  # here once: the first optimizer of a process imports it, for seconds
from torch import nn

import pilotlight
from pilotlight import _probe

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


@loop
def plain() -> None:
    model = network()
    train(model, torch.optim.Adam(model.parameters()), 10)


@loop
def many_small_modules() -> None:
    model = nn.Sequential(*(nn.Identity() for _ in range(40)), nn.Linear(8, 4))
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), 400)


@loop
def two_optimizers() -> None:
    model = network()
    first = torch.optim.SGD(model[0].parameters(), lr=0.1)
    second = torch.optim.Adam(model[2].parameters())
    for _ in range(10):
        model(batch()).square().mean().backward()
        first.step()
        second.step()


@loop
def accumulation() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        for _ in range(4):
            model(batch()).square().mean().backward()
        optimizer.step()


@loop
def adversarial() -> None:
    maker, judge = network(), nn.Linear(4, 1)
    of_maker = torch.optim.Adam(maker.parameters())
    of_judge = torch.optim.Adam(judge.parameters())
    for _ in range(10):
        made = maker(batch())
        (judge(made.detach()).mean() - judge(torch.randn(4, 4)).mean()).backward()
        of_judge.step()
        judge(made).mean().backward()
        of_maker.step()


@loop
def several_judge_steps() -> None:
    maker, judge = network(), nn.Linear(4, 1)
    of_maker = torch.optim.Adam(maker.parameters())
    of_judge = torch.optim.Adam(judge.parameters())
    for _ in range(20):
        for _ in range(5):
            judge(maker(batch()).detach()).mean().backward()
            of_judge.step()
        judge(maker(batch())).mean().backward()
        of_maker.step()


@loop
def one_after_another() -> None:
    for _ in range(3):
        model = network()
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), 5)


@loop
def first_one_then_the_other() -> None:
    model, other = network(), network()
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, other)]
    train(model, optimizers[0], 20)
    train(other, optimizers[1], 9)


@loop
def one_that_never_steps() -> None:
    model, other = network(), network()
    unused = torch.optim.SGD(other.parameters(), lr=0.1)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), 9)
    unused.zero_grad()


@loop
def evaluated_first() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.no_grad():
        for _ in range(40):
            model.eval()(batch())
    train(model.train(), optimizer, 6)


@loop
def evaluated_only() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.no_grad():
        for _ in range(12):
            model.eval()(batch())
    optimizer.zero_grad()


@loop
def warmed_up_with_another() -> None:
    small, model = nn.Linear(8, 4).eval(), network().eval()
    with torch.no_grad():
        for _ in range(3):
            small(batch())
        for _ in range(80):
            model(batch())


@loop
def one_optimizer_a_parameter() -> None:
    model = network()
    for parameter in model.parameters():
        optimizer = torch.optim.SGD([parameter], lr=0.1)
        parameter.register_post_accumulate_grad_hook(lambda _, o=optimizer: o.step())
    for _ in range(10):
        model(batch()).square().mean().backward()


@loop
def scaled() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    for step in range(10):
        optimizer.zero_grad()
        loss = model(batch()).square().mean() * (float("inf") if step in (3, 4) else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


@loop
def closure() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def compute() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(batch()).square().mean()
        loss.backward()
        return loss

    for _ in range(10):
        optimizer.step(compute)


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
def explicit() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(5):
        pilotlight.step(100 + epoch)
        train(model, optimizer, 3)


@loop
def evaluating_without_eval_mode() -> None:
    model = network()
    for _ in range(30):
        model(batch())


@loop
def encoder_and_decoder() -> None:
    encoder, decoder = network().eval(), nn.Linear(4, 8).eval()
    with torch.no_grad():
        for _ in range(10):
            decoder(encoder(batch()))


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


@loop
def scheduled() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for _ in range(5):
        train(model, optimizer, 1)
        scheduler.step()
    again = pickle.loads(pickle.dumps(optimizer.state_dict()))
    optimizer.load_state_dict(again)


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


def main() -> None:
    torch.set_num_threads(1)
    failed = 0
    for name in sys.argv[1:] or LOOPS:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                _probe.mark(f"loop {name}", 0)
                LOOPS[name]()
                code = 0
            except BaseException:
                traceback.print_exc()
            _probe.stop(None)
            os._exit(code)
        _, status = os.waitpid(pid, 0)
        if status != 0:
            print(f"loop {name} failed", file=sys.stderr)
            failed += 1
    sys.exit(failed)


if __name__ == "__main__":
    main()
