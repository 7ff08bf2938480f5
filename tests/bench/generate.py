#!/usr/bin/env python3
"""Tokens a second of `recollect generate` beside Transformers' generate() with its key/value cache: one sequence,
greedily, GPT-2 of 124 M parameters that are random. Each side takes its turn so many rounds; the fastest counts.

A token needs all weights but the positions' once: bytes of these x tokens/s is what the memory was made to give, and
is told beside what reading 1 GiB with as many threads gives."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recollect", default=str(ROOT / "build/cpu/recollect"))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--prompt", type=int, default=64, help="tokens")
    parser.add_argument("--tokens", type=int, default=128, help="new ones")
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


def ours(options: argparse.Namespace, folder: str, precision: str) -> dict[str, object]:
    words = [options.recollect, "generate", "--model", folder, "--tokenizer", "bytes", "--json",
             "--prompt", "x" * options.prompt, "--max-new-tokens", str(options.tokens),
             f"training.precision={precision}", f"device.threads={options.threads}"]  # fmt: skip
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


class Timer:
    """A streamer that notes when the first new token comes: the prompt is put first."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def put(self, _: object) -> None:
        self.times.append(time.perf_counter())

    def end(self) -> None:
        pass


def theirs(options: argparse.Namespace, model: object) -> dict[str, object]:
    import torch

    ids = torch.full((1, options.prompt), ord("x"))
    timer, start = Timer(), time.perf_counter()
    with torch.no_grad():
        made = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=options.tokens,
                              eos_token_id=None, pad_token_id=0, streamer=timer)  # fmt: skip
    first, last = timer.times[1], timer.times[-1]
    return {"ids": made[0, options.prompt:].tolist(), "seconds_to_first_token": first - start,
            "tokens_per_second": (options.tokens - 1) / (last - first)}  # fmt: skip


def read_rate(threads: int) -> float:
    """Bytes a second of reading memory."""
    import torch

    torch.set_num_threads(threads)
    memory = torch.ones(1 << 28)
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        memory.sum()
        best = min(best, time.perf_counter() - start)
    return memory.nbytes / best


def main() -> None:
    options = arguments()
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.manual_seed(0)
    config = transformers.GPT2Config(bos_token_id=None, eos_token_id=None)
    model = transformers.GPT2LMHeadModel(config).eval()
    read = sum(p.numel() for p in model.parameters()) - model.transformer.wpe.weight.numel()
    print(f"{options.threads} threads, memory read at {read_rate(options.threads) / 1e9:.1f} GB/s, load {os.getloadavg()[0]:.1f}")
    print("| precision | what | first token, s | tokens/s | weights x tokens/s, GB/s |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        for precision, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
            model.to(dtype)
            rounds = [(ours(options, folder, precision), theirs(options, model)) for _ in range(options.rounds)]
            for side, what in enumerate(("recollect", "transformers")):
                best = max(rounds, key=lambda r: r[side]["tokens_per_second"])[side]
                first = min(r[side]["seconds_to_first_token"] for r in rounds)
                rate = best["tokens_per_second"]
                print(f"| {precision} | {what} | {first:.3f} | {rate:.1f} | {read * dtype.itemsize * rate / 1e9:.1f} |")
            if precision == "fp32":
                same = rounds[0][0]["ids"] == rounds[0][1]["ids"]
                assert same, "fp32: not the same tokens"
        memory = rounds[0][0]
        print(f"bf16: cache {memory['cache_bytes']}, arena {memory['arena_bytes']}")


if __name__ == "__main__":
    main()
