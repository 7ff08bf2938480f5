#!/usr/bin/env python3
"""Prints where the time of a step of GPT-2 goes on one H200, as the preset predicts it, beside a floor: losses.py PROGRAM

The steps are those of docs/gpus.md, in bf16, mode none, without dropout. Any build's program will do. Work is FLOPs by the formulas
below (attention of a causal model, both ways: 7 h s a token and layer); of what moves memory it is the bytes that the preset's
3.5 TB/s move in the predicted time without its launches, and for AdamW 32 bytes a parameter. The floor is that work at the 736
TFLOP/s of a large product, or at the data sheet's 4.8 TB/s, without launches.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LAUNCH, MEMORY, SHEET, PRODUCT = 4.6e-3, 3.5, 4.8, 736e12  # ms; TB/s; TB/s; FLOP/s
KINDS = {"linear": "products of layers", "lm_head_loss": "head and loss", "attention": "attention", "bias_gelu": "GELU, both ways",
         "layer_norm": "norms and residuals", "residual_norm": "norms and residuals", "adamw": "AdamW, norm of gradients",
         "squared_norm": "AdamW, norm of gradients", "clip_factor": "AdamW, norm of gradients"}
BACKWARD = ("_backward_input", "_backward_weight", "_backward")


def kind_of(op: str) -> str:
    for end in BACKWARD:
        op = op.removesuffix(end)
    return KINDS.get(op, "embedding")


def predicted(program: str, layers: int, width: int, heads: int, samples: int) -> list[dict]:
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        model = [f"model.n_layer={layers}", f"model.n_embd={width}", f"model.n_head={heads}"]
        model += [f"model.{dropout}_pdrop=0" for dropout in ("resid", "embd", "attn")]
        run = [f"training.micro_batch_size={samples}", "training.gradient_accumulation_steps=1", "training.precision=bf16"]
        run += ["data.sequence_length=1024", "device.backend=cuda", "device.model=h200"]
        command = [program, "estimate", str(ROOT / "configs/gpt2-124m.yaml"), *model, *run, "--trace", str(trace)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return [event for event in json.loads(trace.read_text())["traceEvents"] if event.get("cat") == "op"]


def print_table(name: str, program: str, layers: int, width: int, heads: int, samples: int) -> None:
    milliseconds, launches, floors = defaultdict(float), defaultdict(int), {}
    for op in predicted(program, layers, width, heads, samples):
        kind = kind_of(op["args"]["kind"])
        milliseconds[kind] += op["dur"] / 1e3
        launches[kind] += 1
    tokens, parameters = samples * 1024, 12 * layers * width * width + 50257 * width
    flops = {"products of layers": 3 * 24 * width * width * layers * tokens, "head and loss": 6 * 50257 * width * tokens,
             "attention": 7 * width * 1024 * layers * tokens}
    print(f"\n| {name} | launches | work | predicted, ms | floor, ms |\n|---|---|---|---|---|")
    for kind in sorted(milliseconds, key=lambda kind: -milliseconds[kind]):
        if kind in flops:
            floors[kind], work = flops[kind] / PRODUCT * 1e3, f"{flops[kind] / 1e12:.1f} TFLOP"
        else:
            moved = 32e-9 * parameters if "AdamW" in kind else (milliseconds[kind] - launches[kind] * LAUNCH) * MEMORY
            floors[kind], work = moved / SHEET, f"{moved:.1f} GB"
        print(f"| {kind} | {launches[kind]} | {work} | {milliseconds[kind]:.1f} | {floors[kind]:.1f} |")
    print(f"| **sum** | {sum(launches.values())} | | **{sum(milliseconds.values()):.1f}** | **{sum(floors.values()):.1f}** |")


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print_table("124M, 32 x 1024", sys.argv[1], 12, 768, 12, 32)
    print_table("1.5B, 8 x 1024", sys.argv[1], 48, 1600, 25, 8)


if __name__ == "__main__":
    main()
