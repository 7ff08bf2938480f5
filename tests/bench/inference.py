#!/usr/bin/env python3
"""Asks a BERT about sequences of changing length, padded and back to back, and prints a markdown table.

Always true: every row answers the same samples with the same weights, rows in turn, round by round. Padded rows are
evaluations in file order, whose own seconds count; the packed row is `recollect predict`, whose own seconds count: neither
includes starting the program or reading the file. "For its real tokens" is a row's speed over that of the first row, divided
by padded length over mean length, which is what the samples' real tokens alone would give.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from padding import chosen_ranges, parse_arguments, print_conditions, print_rows, write_samples


def model_words(args: argparse.Namespace, longest: int) -> list[str]:
    return [
        "task=sequence_classification",
        "model.type=bert",
        f"model.num_hidden_layers={args.layers}",
        f"model.hidden_size={args.width}",
        f"model.num_attention_heads={args.width // 64}",
        f"model.intermediate_size={4 * args.width}",
        f"model.max_position_embeddings={longest}",
        f"training.precision={args.precision}",
        "data.format=jsonl",
        f"data.sequence_length={longest}",
        "memory_report.at=[]",
        "overwrite=true",
        f"device.threads={args.threads}",
    ]


def run(args: argparse.Namespace, folder: Path, words: list[str]) -> str:
    command = [str(args.build / "recollect"), words[0], str(folder / "empty.yaml"), *words[1:]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}: {done.stderr}")
    return done.stderr


def padded(args: argparse.Namespace, folder: Path, data: Path, longest: int, way: tuple[str, ...]) -> float:
    words = [*model_words(args, longest), f"model.pretrained={folder}/saved", f"evaluation.path={data}"]
    words += ["evaluation.every_steps=1", "training.max_steps=0", "training.micro_batch_size=8"]
    run(args, folder, ["train", *words, f"output_dir={folder}/evaluated", *way])
    last = (folder / "evaluated/metrics.jsonl").read_text().splitlines()[-1]
    return json.loads(last)["eval_seconds"]


def packed(args: argparse.Namespace, folder: Path, data: Path, longest: int) -> float:
    words = [*model_words(args, longest), f"model.pretrained={folder}/saved", f"output_dir={folder}/predicted", f"data.path={data}"]
    said = run(args, folder, ["predict", *words, "--data", str(data), "--output", f"{folder}/answers", "--verbose"])
    number, unit = re.search(r"tokens in ([0-9.]+) (ms|s|min):", said).groups()
    return float(number) * {"ms": 1e-3, "s": 1, "min": 60}[unit]


def main() -> int:
    args = parse_arguments(__doc__)
    print("| lengths | inference | samples/s, median | range | against max | for its real tokens |")
    print("|---|---|---|---|---|---|")
    for name, (low, high, _) in chosen_ranges(args).items():
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            (folder / "empty.yaml").write_text("{}\n")
            source = random.Random(3)
            lengths = [source.randint(low, high) for _ in range(args.samples)]
            data = folder / "samples.jsonl"
            write_samples(data, lengths)
            words = [*model_words(args, high), f"data.path={data}", f"output_dir={folder}/saved"]
            run(args, folder, ["train", *words, "training.max_steps=1", "checkpoint.save_model=true"])
            ways = {
                "padded to one length": lambda: padded(args, folder, data, high, ()),
                "padded to the longest of 8": lambda: padded(args, folder, data, high, ("data.padding=longest",)),
                "packed": lambda: packed(args, folder, data, high),
            }
            speeds: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(args.rounds):
                for way, measure in ways.items():
                    speeds[way].append(len(lengths) / measure())
            print_rows(name, speeds, high / statistics.mean(lengths))
    print_conditions(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
