#!/usr/bin/env python3
"""Makes the golden files of this folder with PyTorch and Transformers.

Run without arguments it writes next to itself.

Always true of what it writes: weights are seeded and nowhere trivial (no zero bias, no unit norm weight);
dropout is zero, attention is eager; "loss" and "grad/..." are computed in fp64 from exactly the weights saved
beside them. The loss is the mean cross-entropy over the valid shifted labels. It is computed here from the
logits, because Transformers' own loss function casts the logits to fp32 first; the script asserts that both
agree to fp32's precision.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy
import safetensors
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.trainer_pt_utils import get_parameter_names

IGNORED = -100
OPTIMIZER_STEPS = 5
MAX_GRAD_NORM = 1.0
# The patterns of transformers.Trainer.get_decay_parameter_names: with GPT-2 every bias and every LayerNorm is
# left out and both embeddings are decayed.
NOT_DECAYED = [r"bias", r"layernorm", r"rmsnorm", r"(?:^|\.)norm(?:$|\.)", r"_norm(?:$|\.)"]

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Case:
    """One tiny model with its batch. `ignored_tail[i]` labels at the end of row i are -100."""

    name: str
    seed: int
    layers: int
    hidden: int
    heads: int
    vocab: int
    positions: int
    sequence: int
    batch: int
    inner: int | None = None
    ignored_tail: tuple[int, ...] = field(default=())


CASES = [
    Case("plain", 11, layers=2, hidden=24, heads=4, vocab=61, positions=16, sequence=12, batch=2),
    Case("odd", 12, 1, 20, 4, 37, positions=9, sequence=7, batch=3, inner=36, ignored_tail=(0, 3, 7)),
    Case("deep", 13, 3, 32, 4, 97, positions=10, sequence=10, batch=4, inner=40),
]


@dataclass(frozen=True)
class OptimizerCase:
    """One optimizer with the hyper-parameters that tests must repeat, as written to optimizers.json."""

    name: str
    weight_decay: float
    eps: float | None = None
    betas: tuple[float, float] | None = None
    momentum: float | None = None
    learning_rate: float = 1e-2


OPTIMIZERS = [
    OptimizerCase("adamw", weight_decay=0.1, eps=1e-8, betas=(0.9, 0.999)),
    OptimizerCase("adamw_hf", weight_decay=0.1, eps=1e-6, betas=(0.9, 0.999)),
    OptimizerCase("adam", weight_decay=0.01, eps=1e-8, betas=(0.9, 0.999)),
    OptimizerCase("sgd", weight_decay=0.01, momentum=0.9),
]


class OldTransformersAdamW(torch.optim.Optimizer):
    """Transformers' own AdamW of 4.x: eps joins the uncorrected sqrt(v), the decay follows the update."""

    def __init__(
        self, params, lr: float, betas: tuple[float, float], eps: float, weight_decay: float
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for param in group["params"]:
                state = self.state[param]
                if not state:
                    state.update(t=0, exp_avg=torch.zeros_like(param), exp_avg_sq=torch.zeros_like(param))
                state["t"] += 1
                state["exp_avg"].mul_(beta1).add_(param.grad, alpha=1.0 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(param.grad, param.grad, value=1.0 - beta2)
                denom = state["exp_avg_sq"].sqrt() + group["eps"]
                step_size = group["lr"] * (1.0 - beta2 ** state["t"]) ** 0.5 / (1.0 - beta1 ** state["t"])
                param.sub_(step_size * state["exp_avg"] / denom)
                param.sub_(group["lr"] * group["weight_decay"] * param)


def build_model(case: Case) -> GPT2LMHeadModel:
    """The case's model in fp64, every parameter redrawn at a scale that gives gradients of ordinary size."""
    config = GPT2Config(
        n_layer=case.layers,
        n_embd=case.hidden,
        n_head=case.heads,
        vocab_size=case.vocab,
        n_positions=case.positions,
        n_inner=case.inner,
        activation_function="gelu_new",
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation="eager",
    )
    model = GPT2LMHeadModel(config).to(torch.float64).eval()
    generator = torch.Generator().manual_seed(case.seed)
    with torch.no_grad():
        for name, param in model.named_parameters():
            noise = torch.randn(param.shape, generator=generator, dtype=torch.float64)
            if ".ln_" in name and name.endswith("weight"):
                param.copy_(1.0 + 0.2 * noise)
            elif param.ndim == 1:
                param.copy_(0.2 * noise)
            elif name.endswith(("wte.weight", "wpe.weight")):
                param.copy_(0.4 * noise)
            else:  # Conv1D: (in, out)
                param.copy_(noise / param.shape[0] ** 0.5)
    return model


def make_batch(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and labels, both (batch, sequence); a label is its own token (the model shifts) or -100."""
    generator = torch.Generator().manual_seed(1000 + case.seed)
    tokens = torch.randint(case.vocab, (case.batch, case.sequence), generator=generator)
    labels = tokens.clone()
    for row, tail in enumerate(case.ignored_tail):
        labels[row, case.sequence - tail :] = IGNORED
    return tokens, labels


def compute_loss(model: GPT2LMHeadModel, tokens: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy over valid shifted labels, in the model's own precision throughout."""
    output = model(input_ids=tokens, labels=labels, use_cache=False)
    logits = output.logits[:, :-1].reshape(-1, output.logits.shape[-1])
    loss = torch.nn.functional.cross_entropy(logits, labels[:, 1:].reshape(-1), ignore_index=IGNORED)
    assert abs(loss.item() - output.loss.item()) <= 1e-6 * abs(loss.item()), (loss.item(), output.loss.item())
    return loss


def loss_and_gradients(
    model: GPT2LMHeadModel, tokens: torch.Tensor, labels: torch.Tensor
) -> tuple[float, Tensors]:
    model.zero_grad(set_to_none=True)
    loss = compute_loss(model, tokens, labels)
    loss.backward()
    return loss.item(), {name: param.grad.clone() for name, param in model.named_parameters()}


def check_gradients_are_ordinary(case: Case, gradients: Tensors) -> None:
    """A golden full of near-zeros proves nothing: every tensor's gradient must have an RMS that matters."""
    for name, gradient in gradients.items():
        rms = gradient.square().mean().sqrt().item()
        assert rms > 1e-3, f"{case.name}: gradient of {name} has RMS {rms:.1e}"
        print(f"  {name:42s} {str(list(gradient.shape)):10s} gradient RMS {rms:.2e}")


def make_optimizer(case: OptimizerCase, model: GPT2LMHeadModel) -> torch.optim.Optimizer:
    decayed = set(get_parameter_names(model, [torch.nn.LayerNorm], NOT_DECAYED))
    named = list(model.named_parameters())
    for name, param in named:
        assert (name in decayed) == (param.ndim >= 2), (
            f"{name}: decay is not the same as having two dimensions"
        )
    groups = [
        {"params": [p for n, p in named if n in decayed], "weight_decay": case.weight_decay},
        {"params": [p for n, p in named if n not in decayed], "weight_decay": 0.0},
    ]
    if case.name == "sgd":
        return torch.optim.SGD(groups, lr=case.learning_rate, momentum=case.momentum)
    classes: dict[str, Callable[..., torch.optim.Optimizer]] = {
        "adamw": torch.optim.AdamW,
        "adam": torch.optim.Adam,
        "adamw_hf": OldTransformersAdamW,
    }
    return classes[case.name](
        groups, lr=case.learning_rate, betas=case.betas, eps=case.eps, weight_decay=case.weight_decay
    )


def optimizer_golden(
    case: OptimizerCase, directory: Path, tokens: torch.Tensor, labels: torch.Tensor
) -> Tensors:
    """Five clipped steps on one batch: loss and unclipped gradient norm of each, parameters after the last.

    The parameters are rounded to fp32 when stored, to keep the file small: 6e-8 is far below the 1e-6 that
    they are compared to. Losses and norms stay in fp64, and the fifth depends on all parameters after step 4.
    """
    model = load_fp64(directory)
    optimizer = make_optimizer(case, model)
    losses, norms = [], []
    for _ in range(OPTIMIZER_STEPS):
        optimizer.zero_grad(set_to_none=True)
        loss = compute_loss(model, tokens, labels)
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM).item())
        losses.append(loss.item())
        optimizer.step()
    print(
        f"  {case.name:9s} loss {losses[0]:.4f} -> {losses[-1]:.4f}, norm {norms[0]:.4f} -> {norms[-1]:.4f}"
    )
    assert norms[0] > MAX_GRAD_NORM, "clipping would have no effect"
    golden = {f"{case.name}/step5/{n}": p.detach().to(torch.float32) for n, p in model.named_parameters()}
    golden[f"{case.name}/loss"] = torch.tensor(losses, dtype=torch.float64)
    golden[f"{case.name}/grad_norm"] = torch.tensor(norms, dtype=torch.float64)
    return golden


def load_fp64(directory: Path) -> GPT2LMHeadModel:
    """Loads what was saved and widens it to fp64, so that stored rounding is kept and none is added."""
    model, info = GPT2LMHeadModel.from_pretrained(
        directory, dtype=torch.float64, attn_implementation="eager", output_loading_info=True
    )
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    return model.eval()


def save_model(model: GPT2LMHeadModel, directory: Path, **options: str) -> None:
    """save_pretrained, less the generation settings, which training has no use for."""
    shutil.rmtree(directory, ignore_errors=True)
    model.save_pretrained(directory, **options)
    (directory / "generation_config.json").unlink(missing_ok=True)


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def write_batch(path: Path, tokens: torch.Tensor, labels: torch.Tensor) -> None:
    rows = zip(tokens.tolist(), labels.tolist(), strict=True)
    lines = [json.dumps({"input_ids": row_tokens, "labels": row_labels}) for row_tokens, row_labels in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def make_case(case: Case, root: Path, optimizers: list[OptimizerCase]) -> None:
    print(f"{case.name}:")
    directory = root / case.name
    model = build_model(case)
    tokens, labels = make_batch(case)
    save_model(model, directory)
    assert all(t.dtype == torch.float64 for t in load_file(directory / "model.safetensors").values())
    write_batch(directory / "batch.jsonl", tokens, labels)

    loss, gradients = loss_and_gradients(model, tokens, labels)
    check_gradients_are_ordinary(case, gradients)
    loss32, gradients32 = loss_and_gradients(model.to(torch.float32), tokens, labels)
    golden = {"loss": torch.tensor([loss], dtype=torch.float64), "fp32/loss": torch.tensor([loss32])}
    golden |= {f"grad/{name}": gradient for name, gradient in gradients.items()}
    golden |= {f"fp32/grad/{name}": gradient for name, gradient in gradients32.items()}
    for optimizer in optimizers:
        golden |= optimizer_golden(optimizer, directory, tokens, labels)
    save_file(golden, directory / "golden.safetensors")
    print(f"  loss {loss:.17g}, in fp32 {loss32:.9g}")


def rewrite_names(directory: Path, rename: Callable[[Tensors], Tensors]) -> None:
    """Passes the tensors of a saved directory through `rename` and stores the result in their place."""
    path = directory / "model.safetensors"
    save_file(rename(load_file(path)), path, metadata={"format": "pt"})


def without_prefix(tensors: Tensors) -> Tensors:
    return {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}


def like_the_hub(tensors: Tensors) -> Tensors:
    """As the published gpt2 is stored: no prefix, and every layer's causal mask saved like a weight."""
    renamed = without_prefix(tensors)
    positions = renamed["wpe.weight"].shape[0]
    mask = torch.ones(positions, positions, dtype=torch.float32).tril().reshape(1, 1, positions, positions)
    layers = {name.split(".")[1] for name in renamed if name.startswith("h.")}
    return renamed | {f"h.{layer}.attn.bias": mask.clone() for layer in layers}


def with_explicit_head(tensors: Tensors) -> Tensors:
    """As converters write it that ignore the tie: the head is stored again under its own name."""
    return tensors | {"lm_head.weight": tensors["transformer.wte.weight"].clone()}


def make_sources(case: Case, root: Path) -> None:
    """The same weights stored in the ways a loader meets; loss.json has their fp64 loss as stored."""
    dtypes = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
    variants: dict[str, tuple[str, dict[str, str], Callable[[Tensors], Tensors] | None]] = {
        "f32": ("f32", {}, None),
        "bf16": ("bf16", {}, None),
        "f16": ("f16", {}, None),
        "sharded": ("f32", {"max_shard_size": "9KB"}, None),
        "no_prefix": ("f32", {}, without_prefix),
        "hub_gpt2": ("bf16", {}, like_the_hub),
        "explicit_head": ("bf16", {}, with_explicit_head),
    }
    shutil.rmtree(root / "sources", ignore_errors=True)
    tokens, labels = make_batch(case)
    for name, (dtype, options, rename) in variants.items():
        directory = root / "sources" / name
        save_model(build_model(case).to(dtypes[dtype]), directory, **options)
        if rename:
            rewrite_names(directory, rename)
        loss = compute_loss(load_fp64(directory), tokens, labels).item()
        write_json(directory / "loss.json", {"loss": loss, "batch": f"{case.name}/batch.jsonl"})
        print(
            f"sources/{name:14s} loss {loss:.17g} {sorted(p.name for p in directory.glob('*.safetensors'))}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path(__file__).resolve().parent)
    root = parser.parse_args().output
    # One thread: sums come out in the same order whatever the machine.
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for case in CASES:
        make_case(case, root, OPTIMIZERS if case.name == "plain" else [])
    make_sources(next(case for case in CASES if case.name == "odd"), root)
    write_json(
        root / "optimizers.json",
        {"max_grad_norm": MAX_GRAD_NORM, "optimizers": [vars(o) for o in OPTIMIZERS]},
    )
    versions = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "safetensors": safetensors.__version__,
        "numpy": numpy.__version__,
    }
    write_json(root / "versions.json", versions)


if __name__ == "__main__":
    main()
