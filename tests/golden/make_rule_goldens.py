#!/usr/bin/env python3
"""Writes rules.json and plain/rules.safetensors: five clipped steps of the model in plain/, as others train it.

A case is the words of a configuration and the optimizer that they mean: of PyTorch, of Transformers, or of the package
that the rule was published in (pip install lion-pytorch). Losses and norms are in fp64, parameters after
the last step rounded to fp32, as in make_goldens.py, whose model and batch these are.
"""

from __future__ import annotations

import fnmatch
import inspect
import json
import pathlib

import make_goldens
import torch
import transformers
from safetensors.torch import save_file

ROOT = pathlib.Path(__file__).resolve().parent
CASE = make_goldens.CASES[0]
RATE, DECAY = 1e-2, 0.1


def is_named(name, patterns):
    return any(fnmatch.fnmatchcase(name.removeprefix("transformer."), pattern) for pattern in patterns)


def grouped(model, decay):
    """Matrices are decayed, vectors are not."""
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]


def with_groups(model):
    """h.0 and the embedding are frozen, other biases have a rate and a decay of their own."""
    frozen, biases, others = [], [], []
    for name, parameter in model.named_parameters():
        if is_named(name, ["h.0.*", "wte.weight"]):
            frozen.append(parameter.requires_grad_(False))
        else:
            (biases if is_named(name, ["*.bias"]) else others).append(parameter)
    return torch.optim.AdamW(
        [
            {"params": biases, "lr": RATE / 4, "weight_decay": 0.05},
            {"params": [p for p in others if p.ndim >= 2], "weight_decay": DECAY},
            {"params": [p for p in others if p.ndim < 2], "weight_decay": 0.0},
        ],
        lr=RATE,
    )


def with_layer_decay(model):
    """Embeddings are layer 0, the final norm is behind the last layer."""
    groups = []
    for name, parameter in model.named_parameters():
        short = name.removeprefix("transformer.")
        layer = int(short.split(".")[1]) + 1 if short.startswith("h.") else 0 if short.startswith("w") else CASE.layers + 1
        rate = RATE * 0.6 ** (CASE.layers + 1 - layer)
        groups.append({"params": [parameter], "lr": rate, "weight_decay": DECAY if parameter.ndim >= 2 else 0.0})
    return torch.optim.AdamW(groups, lr=RATE)


def with_adafactor(model):
    return torch.optim.Adafactor(grouped(model, DECAY), lr=RATE, foreach=False)


def with_adafactor_hf(model):
    return transformers.optimization.Adafactor(
        grouped(model, DECAY), lr=RATE, clip_threshold=0.8, scale_parameter=True, relative_step=False
    )


def with_relative_adafactor(model):
    return transformers.optimization.Adafactor(
        grouped(model, DECAY), beta1=0.9, decay_rate=-0.7, scale_parameter=False, relative_step=True
    )


def with_warm_adafactor(model):
    return transformers.optimization.Adafactor(grouped(model, DECAY), relative_step=True, warmup_init=True)


class Several:
    """Optimizers of which each has some of the parameters."""

    def __init__(self, *optimizers):
        self.optimizers = optimizers

    def zero_grad(self, **options):
        for optimizer in self.optimizers:
            optimizer.zero_grad(**options)

    def step(self):
        for optimizer in self.optimizers:
            optimizer.step()


def with_muon(model, **settings):
    """The matrices of layers are Muon's, all else is AdamW's."""
    matrices, others = [], []
    for name, parameter in model.named_parameters():
        (matrices if ".h." in name and parameter.ndim == 2 else others).append(parameter)
    groups = [
        {"params": [p for p in others if p.ndim >= 2], "weight_decay": DECAY},
        {"params": [p for p in others if p.ndim < 2], "weight_decay": 0.0},
    ]
    muon = torch.optim.Muon(matrices, lr=RATE, weight_decay=DECAY, **settings)
    return Several(muon, torch.optim.AdamW(groups, lr=RATE))


def with_muon_like_adamw(model):
    return with_muon(model, adjust_lr_fn="match_rms_adamw")


def with_muon_as_published(model):
    return with_muon(model, adjust_lr_fn="original", momentum=0.8, nesterov=False, ns_steps=3)


def make_muon_exact():
    """Its iteration in the precision of the gradient, where PyTorch's is in bf16."""
    module = torch.optim._muon
    source = inspect.getsource(module._zeropower_via_newtonschulz)
    assert "torch.bfloat16" in source
    exec(source.replace("torch.bfloat16", "grad.dtype"), module.__dict__)


def with_lion(model):
    import lion_pytorch

    return lion_pytorch.Lion(grouped(model, DECAY), lr=1e-3, betas=(0.9, 0.99))


RATE_WORD = f"optimizer.learning_rate={RATE}"
CASES = {
    "groups": (
        with_groups,
        [
            RATE_WORD,
            "optimizer.groups=[{match: [h.0.*, wte.weight], frozen: true}, "
            f'{{match: "*.bias", learning_rate: {RATE / 4}, weight_decay: 0.05}}]'
        ],
    ),
    "layer_decay": (with_layer_decay, [RATE_WORD, "optimizer.layer_decay=0.6"]),
    "lion": (with_lion, ["optimizer.name=lion", "optimizer.learning_rate=1e-3"]),
    "muon": (with_muon_like_adamw, [RATE_WORD, "optimizer.name=muon"]),
    "muon_as_published": (
        with_muon_as_published,
        [
            RATE_WORD,
            "optimizer.name=muon",
            "optimizer.adjust_lr_fn=original",
            "optimizer.momentum=0.8",
            "optimizer.nesterov=false",
            "optimizer.ns_steps=3",
        ],
    ),
    "adafactor": (with_adafactor, [RATE_WORD, "optimizer.name=adafactor"]),
    "adafactor_hf": (with_adafactor_hf, [RATE_WORD, "optimizer.name=adafactor_hf", "optimizer.clip_threshold=0.8"]),
    "adafactor_hf_relative": (
        with_relative_adafactor,
        [
            "optimizer.name=adafactor_hf",
            "optimizer.relative_step=on",
            "optimizer.scale_parameter=false",
            "optimizer.beta1=0.9",
            "optimizer.beta2_decay=-0.7",
        ],
    ),
    "adafactor_hf_warmup": (with_warm_adafactor, ["optimizer.name=adafactor_hf", "optimizer.relative_step=warmup"]),
}


def five_steps(make):
    model = make_goldens.load_fp64(ROOT / CASE.name)
    tokens, labels = make_goldens.make_batch(CASE)
    optimizer = make(model)
    losses, norms = [], []
    for _ in range(make_goldens.OPTIMIZER_STEPS):
        optimizer.zero_grad(set_to_none=True)
        loss = make_goldens.compute_loss(model, tokens, labels)
        loss.backward()
        trained = [p for p in model.parameters() if p.grad is not None]
        norms.append(torch.nn.utils.clip_grad_norm_(trained, make_goldens.MAX_GRAD_NORM).item())
        losses.append(loss.item())
        optimizer.step()
    assert norms[0] > make_goldens.MAX_GRAD_NORM, "clipping would have no effect"
    return model, losses, norms


def main():
    make_muon_exact()
    tensors, described = {}, []
    common = [f"optimizer.weight_decay={DECAY}", "optimizer.max_grad_norm=1"]
    for name, (make, words) in CASES.items():
        model, losses, norms = five_steps(make)
        print(f"  {name:12s} loss {losses[0]:.4f} -> {losses[-1]:.4f}, norm {norms[0]:.4f} -> {norms[-1]:.4f}")
        described.append({"name": name, "words": common + words, "losses": losses, "norms": norms})
        for parameter, value in model.named_parameters():
            tensors[f"{name}/{parameter}"] = value.detach().to(torch.float32)
    save_file(tensors, ROOT / CASE.name / "rules.safetensors")
    (ROOT / "rules.json").write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    main()
