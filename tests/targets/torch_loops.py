"""Training loops of many kinds, each in a forked process that says its name by a mark."""

from __future__ import annotations

import os
import pickle
import sys
import traceback

import torch
import torch._dynamo  # here once: the first optimizer of a process imports it, for seconds
import torch_odd_loops  # noqa: F401  they add themselves
import torch_rollouts  # noqa: F401
from torch import nn
from torch_parts import LOOPS, batch, loop, network, train

import pilotlight
from pilotlight import _probe


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
def evaluated_before_closures() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.no_grad():
        for _ in range(3):
            model.eval()(batch())
    model.train()

    def compute() -> torch.Tensor:
        loss = model(batch()).square().mean()
        loss.backward()
        return loss

    for _ in range(5):
        optimizer.step(compute)


@loop
def compiled_function() -> None:
    weight = torch.randn(8, 4, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)

    @torch.compile(backend="eager")
    def loss(x: torch.Tensor) -> torch.Tensor:
        return (x @ weight).square().mean()

    update = torch.compile(optimizer.step, backend="eager")
    for _ in range(6):
        optimizer.zero_grad()
        loss(batch()).backward()
        update()
        with torch.no_grad():
            loss(batch())


@loop
def compiled_decoding() -> None:
    weight = torch.randn(8, 8)

    @torch.compile(backend="eager")
    def decode(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ weight)

    x = batch()
    with torch.no_grad():
        for _ in range(30):
            x = decode(x)


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
def scheduled() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for _ in range(5):
        train(model, optimizer, 1)
        scheduler.step()
    again = pickle.loads(pickle.dumps(optimizer.state_dict()))
    optimizer.load_state_dict(again)


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
