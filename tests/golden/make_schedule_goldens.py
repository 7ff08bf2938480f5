#!/usr/bin/env python3
"""Writes schedules.json: the learning rate of each step as Transformers' and PyTorch's schedulers have it.

A case is what a configuration says in sections scheduler, optimizer and training, and the rates of its steps. Cases
without a warm-up, with one, and with settings other than their defaults; steps behind the end are not asked for.
"""

import json
import pathlib

import torch
import transformers

RATE, WARMUP, STEPS = 1e-3, 4, 20


def optimizer():
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=RATE)


def rates_of(make):
    of = optimizer()
    scheduler = make(of)
    rates = []
    for _ in range(STEPS):
        rates.append(scheduler.get_last_lr()[0])
        of.step()
        scheduler.step()
    return rates


def of_transformers(theirs, there, warmup=WARMUP, **settings):
    def make(of):
        return transformers.get_scheduler(theirs, of, warmup, STEPS, scheduler_specific_kwargs=there)

    return {"settings": {"warmup_steps": warmup, **settings}, "rates": rates_of(make)}


def of_torch(make, **settings):
    return {"settings": settings, "rates": rates_of(make)}


def stepped(size, gamma):
    return lambda of: torch.optim.lr_scheduler.StepLR(of, size, gamma)


def warm_then(make):
    """PyTorch's way to say it: the second scheduler counts from where the first ends."""

    def both(of):
        rise = torch.optim.lr_scheduler.LambdaLR(of, lambda step: step / WARMUP)
        return torch.optim.lr_scheduler.SequentialLR(of, [rise, make(of)], [WARMUP])

    return both


def cycle(**settings):
    return lambda of: torch.optim.lr_scheduler.OneCycleLR(
        of, max_lr=RATE, total_steps=STEPS, cycle_momentum=False, **settings
    )


def cases():
    yield of_transformers("constant", {}, 0, name="constant")
    yield of_transformers("constant_with_warmup", {}, name="constant")
    yield of_transformers("linear", {}, name="linear")
    yield of_transformers("cosine", {}, name="cosine")
    yield of_transformers("cosine_with_min_lr", {"min_lr": 1e-4}, name="cosine", min_lr=1e-4)
    yield of_transformers("cosine_with_restarts", {"num_cycles": 3}, name="cosine_with_restarts", num_cycles=3)
    yield of_transformers("cosine_with_restarts", {"num_cycles": 2}, 0, name="cosine_with_restarts", num_cycles=2)
    yield of_transformers("polynomial", {"lr_end": 1e-5, "power": 2.0}, name="polynomial", power=2, min_lr=1e-5)
    yield of_transformers("polynomial", {"lr_end": 0.0, "power": 0.5}, 0, name="polynomial", power=0.5)
    yield of_transformers("inverse_sqrt", {}, name="inverse_sqrt")
    yield of_transformers("inverse_sqrt", {}, 0, name="inverse_sqrt")
    yield of_transformers("inverse_sqrt", {"timescale": 9}, name="inverse_sqrt", timescale=9)
    for shape in ("cosine", "linear", "1-sqrt"):
        there = {"num_decay_steps": 7, "decay_type": shape, "min_lr_ratio": 0.1}
        here = {"name": "warmup_stable_decay", "decay_shape": shape, "min_lr": 1e-4}
        yield of_transformers("warmup_stable_decay", there, **here, decay_steps=7)
        yield of_transformers("warmup_stable_decay", there, 0, **here, decay_ratio=0.35)
    longer = {"num_decay_steps": 18, "decay_type": "linear"}  # than what the warm-up leaves
    yield of_transformers("warmup_stable_decay", longer, name="warmup_stable_decay", decay_steps=18, decay_shape="linear")
    yield of_torch(cycle(), name="one_cycle")
    yield of_torch(cycle(pct_start=0.0), name="one_cycle", pct_start=0)
    yield of_torch(
        cycle(pct_start=0.45, anneal_strategy="linear", div_factor=10.0, final_div_factor=50.0),
        name="one_cycle",
        pct_start=0.45,
        decay_shape="linear",
        div_factor=10,
        final_div_factor=50,
    )
    yield of_torch(stepped(6, 0.1), name="step", step_size=6)
    yield of_torch(warm_then(stepped(5, 0.5)), name="step", step_size=5, gamma=0.5, warmup_steps=WARMUP)


if __name__ == "__main__":
    made = {"learning_rate": RATE, "max_steps": STEPS, "cases": list(cases())}
    text = json.dumps(made, indent=1)
    pathlib.Path(__file__).with_name("schedules.json").write_text(text + "\n", encoding="utf-8")
