#!/usr/bin/env python3
"""Hugging Face's Trainer on BERT-large with random tokens on one GPU: seconds per step and peak bytes, as one JSON line.

Always true: a timed step lies between two synchronisations around all that the Trainer does for it: loading the batch aside,
forward, backward, clipping, the optimizer. Settings are the Trainer's defaults; fp32 is without TF32, as ours is.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time

import torch
import transformers
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments


class Samples(torch.utils.data.Dataset):
    def __init__(self, count: int, length: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.tokens = torch.randint(100, 30000, (count, length), generator=generator)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, i: int) -> dict:
        return {"input_ids": self.tokens[i], "labels": i % 2}


class Clock(TrainerCallback):
    def __init__(self, warmup: int) -> None:
        self.warmup, self.start, self.seconds, self.steps = warmup, 0.0, [], 0

    def on_step_begin(self, *_args: object, **_more: object) -> None:
        torch.cuda.synchronize()
        if self.steps == self.warmup:
            torch.cuda.reset_peak_memory_stats()
        self.start = time.perf_counter()

    def on_step_end(self, *_args: object, **_more: object) -> None:
        torch.cuda.synchronize()
        self.steps += 1
        if self.steps > self.warmup:
            self.seconds.append(time.perf_counter() - self.start)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--warmup", type=int, default=8)
    parser.add_argument("--bf16", action="store_true")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    config = BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096, num_labels=2)
    clock = Clock(options.warmup)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=options.batch,
            max_steps=options.warmup + options.steps,
            bf16=options.bf16,
            tf32=False,
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        )
        samples = Samples((options.warmup + options.steps) * options.batch, options.length)
        Trainer(
            model=BertForSequenceClassification(config).cuda(), args=arguments, train_dataset=samples, callbacks=[clock]
        ).train()
    print(json.dumps({"seconds": clock.seconds, "peak_bytes": torch.cuda.max_memory_reserved()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
