#!/usr/bin/env python3
"""One GPT-2 training step in PyTorch on CPU: seconds per step, loss and peak memory as one JSON line.

Always true: a timed step is zero_grad, forward, backward and the optimizer's step, nothing less; the
tokens of every step are drawn before its clock starts; standard output carries exactly one line, the JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import time

import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel


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
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=50257)
    parser.add_argument("--positions", type=int, default=1024, help="rows of the position table")
    parser.add_argument("--sequence", type=int, default=512)
    parser.add_argument("--micro-batch", type=int, default=2)
    parser.add_argument(
        "--precision", choices=["fp32", "bf16"], default="fp32", help="bf16 is torch.autocast"
    )
    parser.add_argument("--attention", choices=["sdpa", "eager"], default="sdpa")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--checkpoint", action="store_true", help="gradient checkpointing, non-reentrant")
    parser.add_argument(
        "--save-on-cpu", action="store_true", help="torch.autograd.graph.save_on_cpu around the step"
    )
    parser.add_argument("--adamw", choices=["fused", "foreach"], default="fused")
    parser.add_argument("--steps", type=int, default=5, help="timed steps")
    parser.add_argument("--warmup", type=int, default=2, help="steps before the timed ones")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seed", type=int, default=1234)
    return parser.parse_args()


def build_model(args: argparse.Namespace) -> GPT2LMHeadModel:
    """GPT-2 with Transformers' own initialisation, all dropouts zero, in training mode."""
    config = GPT2Config(
        n_layer=args.layers,
        n_embd=args.hidden,
        n_head=args.heads,
        vocab_size=args.vocab,
        n_positions=args.positions,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation=args.attention,
    )
    model = GPT2LMHeadModel(config)
    model.train()
    if args.checkpoint:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model


def training_step(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, tokens: torch.Tensor, args: argparse.Namespace
) -> float:
    """Runs one optimizer step on `tokens` (micro-batch, sequence) and returns its loss."""
    with contextlib.ExitStack() as scopes:
        if args.save_on_cpu:
            scopes.enter_context(torch.autograd.graph.save_on_cpu())
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.precision == "bf16"):
            loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
        loss.backward()
        optimizer.step()
    return loss.item()


def main() -> int:
    args = parse_arguments()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    baseline = memory_status_bytes("VmRSS")

    model = build_model(args)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, **{args.adamw: True})
    step_model = torch.compile(model) if args.compile else model

    seconds: list[float] = []
    losses: list[float] = []
    warmup_seconds: list[float] = []
    peak_so_far = 0
    steady_reset = False
    for step in range(args.warmup + args.steps):
        if step == args.warmup:
            peak_so_far = memory_status_bytes("VmHWM")
            steady_reset = reset_peak_rss()
        tokens = torch.randint(args.vocab, (args.micro_batch, args.sequence))
        start = time.perf_counter()
        loss = training_step(step_model, optimizer, tokens, args)
        elapsed = time.perf_counter() - start
        (seconds if step >= args.warmup else warmup_seconds).append(elapsed)
        losses.append(loss)

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
        "tokens_per_step": args.micro_batch * args.sequence,
        "settings": vars(args),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
