#!/usr/bin/env python3
"""Training steps of a configuration's model in PyTorch on CPU: seconds per step, losses, peak memory as one JSON line.

Always true: model and batch have the sizes of the file, the weights Transformers' initialisation; a timed step is
zero_grad, forward, backward and the optimizer's step, nothing less; the tokens of every step are drawn before its clock
starts; standard output carries exactly one line, the JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import time
from pathlib import Path

import torch
import torch._functorch.config
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification

from workload import Workload, read_workload

# Of a task: Transformers' class, and the labels of these tokens.
TASKS = {
    "causal_lm": (AutoModelForCausalLM, lambda tokens, config: tokens),
    "sequence_classification": (
        AutoModelForSequenceClassification,
        lambda tokens, config: torch.randint(config.num_labels, tokens.shape[:1]),
    ),
}


def memory_status_bytes(field: str) -> int:
    """Reads one kB field of /proc/self/status (VmRSS, VmHWM) in bytes."""
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def reset_peak_rss() -> bool:
    """Makes the kernel forget VmHWM so that a later reading covers only what follows; False if it refuses."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as clear:
            clear.write("5")
    except OSError:
        return False
    return True


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config", type=Path, help="of the engine, such as configs/gpt2-124m.yaml")
    parser.add_argument("words", nargs="*", help="section.key=value; model, batch and optimizer matter here")
    parser.add_argument(
        "--precision", choices=["fp32", "bf16"], default="fp32", help="bf16 is torch.autocast"
    )
    parser.add_argument("--attention", choices=["sdpa", "eager"], default="sdpa")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--checkpoint", action="store_true", help="gradient checkpointing, non-reentrant")
    parser.add_argument(
        "--save-on-cpu", action="store_true", help="torch.autograd.graph.save_on_cpu around the step"
    )
    parser.add_argument(
        "--memory-budget", type=float, default=1.0, help="share of saved activations that --compile keeps; 1: its own choice"
    )
    parser.add_argument(
        "--lengths", type=lambda text: [int(n) for n in text.split(",")], default=[], help="of the steps' sequences, in turn"
    )
    parser.add_argument("--adamw", choices=["fused", "foreach"], default="fused")
    parser.add_argument("--steps", type=int, default=5, help="timed steps")
    parser.add_argument("--warmup", type=int, default=2, help="steps before the timed ones")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--metrics", type=Path, help="one line of JSON as soon as a step is done")
    parser.add_argument("--seed", type=int, default=1234)
    return parser.parse_args()


def build_model(work: Workload, args: argparse.Namespace) -> torch.nn.Module:
    sizes = {key: value for key, value in work.keys["model"].items() if key not in ("type", "config", "pretrained")}
    config = AutoConfig.for_model(
        work.key("model", "type"),
        **sizes,
        use_cache=False,
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation=args.attention,
    )
    model = TASKS[work.task][0].from_config(config)
    model.train()
    if args.checkpoint:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model


def training_step(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    tokens: torch.Tensor,
    labels: torch.Tensor,
    args: argparse.Namespace,
) -> float:
    """Runs one optimizer step on `tokens` (micro-batch, sequence) and returns its loss."""
    with contextlib.ExitStack() as scopes:
        if args.save_on_cpu:
            scopes.enter_context(torch.autograd.graph.save_on_cpu())
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.precision == "bf16"):
            loss = model(input_ids=tokens, labels=labels).loss
        loss.backward()
        optimizer.step()
    return loss.item()


def main() -> int:
    args = parse_arguments()
    work = read_workload(args.config, args.words)
    if work.task not in TASKS:
        raise SystemExit(f"{args.config}: task {work.task}: only {', '.join(TASKS)} are measured here")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    baseline = memory_status_bytes("VmRSS")

    model = build_model(work, args)
    rates = {"lr": work.key("optimizer", "learning_rate"), "weight_decay": work.key("optimizer", "weight_decay")}
    optimizer = torch.optim.AdamW(model.parameters(), **rates, **{args.adamw: True})
    torch._functorch.config.activation_memory_budget = args.memory_budget
    step_model = torch.compile(model, dynamic=True if args.lengths else None) if args.compile else model

    seconds: list[float] = []
    losses: list[float] = []
    warmup_seconds: list[float] = []
    peak_so_far = 0
    steady_reset = False
    for step in range(args.warmup + args.steps):
        if step == args.warmup:
            peak_so_far = memory_status_bytes("VmHWM")
            steady_reset = reset_peak_rss()
        length = args.lengths[step % len(args.lengths)] if args.lengths else work.sequence
        tokens = torch.randint(model.config.vocab_size, (work.micro_batch, length))
        labels = TASKS[work.task][1](tokens, model.config)
        start = time.perf_counter()
        loss = training_step(step_model, optimizer, tokens, labels, args)
        elapsed = time.perf_counter() - start
        (seconds if step >= args.warmup else warmup_seconds).append(elapsed)
        losses.append(loss)
        if args.metrics:
            line = {"step": step + 1, "step_seconds": elapsed, "loss": loss, "tokens": tokens.numel()}
            with args.metrics.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    steady_peak = memory_status_bytes("VmHWM")
    peak = max(peak_so_far, steady_peak)
    result = {
        "seconds": seconds,
        "median_seconds": statistics.median(seconds),
        "warmup_seconds": warmup_seconds,
        "losses": losses,
        "peak_rss_bytes": peak,
        "peak_rss_growth_bytes": peak - baseline,
        "steady_peak_rss_bytes": steady_peak if steady_reset else None,
        "baseline_rss_bytes": baseline,
        "parameters": sum(p.numel() for p in model.parameters()),
        "tokens_per_step": work.tokens,
        "settings": vars(args) | {"config": str(args.config), "metrics": str(args.metrics)},
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
