#!/usr/bin/env python3
"""GPT-2 training steps in PyTorch on one GPU: seconds per step and peak bytes, as one JSON line.

Always true: a timed step is zero_grad, forward, backward and the optimizer's step between two synchronisations; bf16
is autocast over fp32 weights, attention is SDPA, the optimizer the fused AdamW.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time

import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gemm", action="store_true", help="only the rate of a large product in bf16")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--sequence", type=int, default=1024)
    parser.add_argument("--micro-batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--warmup", type=int, default=8)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--checkpoint", action="store_true", help="gradient checkpointing, non-reentrant")
    parser.add_argument("--save-on-cpu", action="store_true", help="saved tensors in pinned host memory")
    return parser.parse_args()


def gemm_tflops(size: int = 8192, repeats: int = 50) -> float:
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    for _ in range(10):
        a @ b
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        a @ b
    torch.cuda.synchronize()
    return repeats * 2 * size**3 / (time.perf_counter() - start) / 1e12


def build(args: argparse.Namespace) -> GPT2LMHeadModel:
    config = GPT2Config(
        n_layer=args.layers,
        n_embd=args.hidden,
        n_head=args.heads,
        n_positions=args.sequence,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
        attn_implementation="sdpa",
    )
    model = GPT2LMHeadModel(config).cuda()
    model.train()
    if args.checkpoint:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model


def main() -> int:
    args = parse_arguments()
    if args.gemm:
        print(json.dumps({"gemm_tflops": gemm_tflops()}))
        return 0
    transformers.logging.set_verbosity_error()
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = build(args)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    step_model = torch.compile(model) if args.compile else model
    tokens = torch.randint(50257, (args.micro_batch, args.sequence), device="cuda")
    seconds = []
    for step in range(args.warmup + args.steps):
        if step == args.warmup:
            torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
        start = time.perf_counter()
        with contextlib.ExitStack() as scopes:
            if args.save_on_cpu:
                scopes.enter_context(torch.autograd.graph.save_on_cpu(pin_memory=True))
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = step_model(input_ids=tokens, labels=tokens, use_cache=False).loss
            loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        if step >= args.warmup:
            seconds.append(time.perf_counter() - start)
    print(
        json.dumps(
            {
                "seconds": seconds,
                "peak_bytes": torch.cuda.max_memory_reserved(),
                "torch": torch.__version__,
                "device": torch.cuda.get_device_name(),
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
