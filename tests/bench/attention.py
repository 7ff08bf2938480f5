#!/usr/bin/env python3
"""Attention from 512 to 16384 tokens against PyTorch's scaled_dot_product_attention, forward and backward: a markdown table.

Always true: both sides compute the same heads of the same lengths on the same threads, in turn in every round, the best of each
round's runs; a ratio is the median of the rounds'. "causal" is one sample whose tokens look back; "padded" are two of which the
second ends at three quarters, which PyTorch is told by a mask, as Transformers does. The exit status is 1 if anything is
missing, never because of a speed.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
import time
from pathlib import Path
from typing import Callable

import torch
import torch.nn.functional as functional

from compare import attempt, close, run_child
from workload import ROOT, Unavailable

HEADS, HEAD_SIZE = 12, 64
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
KINDS = ("causal", "padded")
PASSES = ("forward", "backward")
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
COLUMNS = ["precision", "what", "tokens", "pass", "ms", "PyTorch, ms", "PyTorch over ours", "of the time at half the length"]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/cpu", help="holds bench_kernels")
    parser.add_argument("--isa", default="auto", help="what device.isa takes; PyTorch does not know of it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--longest", type=int, default=LENGTHS[-1], help="tokens")
    parser.add_argument("--precisions", nargs="+", choices=list(DTYPES), default=list(DTYPES))
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error("--rounds must be at least 1")
    return args


def best_seconds(run: Callable[[], object]) -> float:
    """As bench_kernels: of the runs that fit into half a second, three at least, after one to warm up."""
    run()
    best, spent, runs = float("inf"), 0.0, 0
    while runs < 3 or (spent < 0.5 and runs < 2000):
        begun = time.perf_counter()
        run()
        seconds = time.perf_counter() - begun
        best, spent, runs = min(best, seconds), spent + seconds, runs + 1
    return best


def ours(args: argparse.Namespace, precision: str, kind: str, length: int) -> dict[str, float]:
    """Seconds of each pass."""
    end = f" of {length}, {kind}"
    output, _ = run_child([str(args.build / "bench_kernels"), end, precision, args.isa], args.threads, 600)
    rows = re.findall(rf"^long attention( backward)?{end} +([0-9.]+)", output, re.MULTILINE)
    if len(rows) != len(PASSES):
        raise Unavailable(f"bench_kernels has no rows{end}")
    return {"backward" if backward else "forward": 1e-3 * float(ms) for backward, ms in rows}


def torch_seconds(precision: str, kind: str, length: int) -> dict[str, float]:
    samples = 1 if kind == "causal" else 2
    # Queries, keys and values as a model's one projection leaves them: heads beside each other in a token.
    packed = torch.randn(samples, length, 3, HEADS, HEAD_SIZE, dtype=DTYPES[precision])
    query, key, value = (part.transpose(1, 2).detach().requires_grad_() for part in packed.unbind(2))
    mask = None
    if kind == "padded":
        mask = torch.ones(samples, 1, 1, length, dtype=torch.bool)
        mask[1, :, :, length // 4 * 3 :] = False

    def forward() -> torch.Tensor:
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=kind == "causal")

    with torch.no_grad():
        seconds = {"forward": best_seconds(forward)}
    out = forward()
    upstream = torch.randn_like(out)
    inputs = (query, key, value)
    seconds["backward"] = best_seconds(lambda: torch.autograd.grad(out, inputs, upstream, retain_graph=True))
    return seconds


Row = tuple[str, str, int]


def table_row(row: Row, name: str, pairs: list[tuple[float, float]], shorter: list[tuple[float, float]]) -> str:
    precision, kind, length = row
    cells = [precision, kind, str(length), name]
    if pairs:
        cells += [f"{1e3 * statistics.median(side):.2f}" for side in zip(*pairs)]
        cells.append(f"{statistics.median(theirs / mine for mine, theirs in pairs):.2f}")
        cells.append(f"{min(pairs)[0] / min(shorter)[0]:.2f}" if shorter else "-")
    return "| " + " | ".join(cells + ["-"] * (len(COLUMNS) - len(cells))) + " |"


def main() -> int:
    args = parse_arguments()
    torch.set_num_threads(args.threads)
    rows = [(p, kind, length) for p in args.precisions for kind in KINDS for length in LENGTHS if length <= args.longest]
    found: dict[tuple[Row, str], list[tuple[float, float]]] = {(row, name): [] for row in rows for name in PASSES}
    missing: list[str] = []

    def take(row: Row) -> None:
        mine, theirs = ours(args, *row), torch_seconds(*row)
        for name in PASSES:
            found[row, name].append((mine[name], theirs[name]))

    for number in range(args.rounds):
        for row in rows:
            attempt(f"round {number + 1} {' '.join(map(str, row))}", lambda: take(row), missing)
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + "---|" * len(COLUMNS))
    for row in rows:
        for name in PASSES:
            shorter = found.get(((row[0], row[1], row[2] // 2), name), [])
            print(table_row(row, name, found[row, name], shorter))
    sides = f"{args.rounds} rounds, {args.threads} threads, kernels {args.isa}, PyTorch {torch.__version__}"
    return close(f"{HEADS} heads of {HEAD_SIZE}; {sides}", missing)


if __name__ == "__main__":
    sys.exit(main())
