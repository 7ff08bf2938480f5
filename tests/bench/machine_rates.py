#!/usr/bin/env python3
"""Predicted beside measured steps by the rates that a first run measures, as a markdown table.

Every run has a cache folder of its own, so that each measures the machine first, and predicts before its first step. A run
that finds the machine too busy to be measured is tried again, some seconds later; a row that never finds it idle enough has a dash.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from compare import ROOT, processor_name

DECODER = "n_embd: 768, n_layer: 12, n_head: 12, n_positions: 1024, vocab_size: 50257"
MODELS = {  # name: (model, samples, tokens, steps)
    "gpt2, 4 x 128": ("type: gpt2, n_embd: 128, n_layer: 4, n_head: 4, n_positions: 128, vocab_size: 256", 8, 128, 25),
    "bert, 2 x 128": (
        "type: bert, hidden_size: 128, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 512, vocab_size: 30522",
        8, 128, 6,
    ),
    "llama, 4 x 128": (
        "type: llama, hidden_size: 128, num_hidden_layers: 4, num_attention_heads: 4, num_key_value_heads: 2, "
        "intermediate_size: 344, vocab_size: 1024, max_position_embeddings: 256",
        8, 128, 25,
    ),
    "gpt2 124M": ("type: gpt2, " + DECODER, 1, 128, 3),
    "gpt2 124M, longer": ("type: gpt2, " + DECODER, 1, 512, 3),
    "bert base": ("type: bert, hidden_size: 768, num_hidden_layers: 12, num_attention_heads: 12, vocab_size: 30522", 1, 128, 3),
    "llama 160M": (
        "type: llama, hidden_size: 768, num_hidden_layers: 12, num_attention_heads: 12, num_key_value_heads: 12, "
        "intermediate_size: 3072, vocab_size: 32000",
        1, 128, 3,
    ),
}


def step_of(args: argparse.Namespace, model: str, precision: str, folder: str) -> dict:
    keys, samples, tokens, steps = MODELS[model]
    data = f"format: random, sequence_length: {tokens}" + (", mask_token: 0" if "bert" in model else "")
    config = Path(folder) / "run.yaml"
    config.write_text(
        f"model: {{{keys}}}\ndevice: {{threads: {args.threads}}}\ndata: {{{data}}}\n"
        f"training: {{micro_batch_size: {samples}, max_steps: {steps}, precision: {precision}}}\noutput_dir: {folder}/out\n",
        encoding="utf-8",
    )
    subprocess.run(
        [str(args.build / "recollect"), "train", str(config), "logging.progress=off"],
        check=True, capture_output=True, timeout=args.timeout, env={**os.environ, "XDG_CACHE_HOME": folder},
    )
    return json.loads((Path(folder) / "out/memory.rank0.json").read_text(encoding="utf-8"))["step"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one run")
    args = parser.parse_args()
    print(f"{processor_name()}, {args.threads} threads, load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores\n")
    print("| model | samples x tokens | precision | predicted ms | measured ms | measured / predicted |\n|---|---|---|---|---|---|")
    for model in MODELS:
        for precision in ("fp32", "bf16"):
            if args.only not in model:
                continue
            row = "- | - | -"
            for _ in range(args.tries):
                with tempfile.TemporaryDirectory() as folder:
                    step = step_of(args, model, precision, folder)
                if step["device_model"] != "cpu":
                    predicted, measured = step["predicted"]["step"], step["measured"]["step"]
                    row = f"{1e3 * predicted:.1f} | {1e3 * measured:.1f} | {measured / predicted:.2f}"
                    break
                time.sleep(5)
            print(f"| {model} | {MODELS[model][1]} x {MODELS[model][2]} | {precision} | {row} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
