#!/usr/bin/env python3
"""Trains a BERT on sequences of changing length, padded to one length or to their micro-batch's, and prints a markdown table.

Always true: every row of one range of lengths trains on the same samples for the same number of steps, rows in turn, round
by round; samples per second are those that the run itself closes with, programs of new lengths and everything else
included. "For its real tokens" is a row's speed over that of the first row, divided by what it would be if time went with
real tokens alone: padded length over mean length. 1.00 is a run that pays nothing for padding.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
from pathlib import Path

from compare import ROOT, Unavailable, processor_name, run_child

RANGES = {"SWAG's lengths, 40-142": (40, 142, 8), "SQuAD's lengths, 146-516": (146, 516, 4)}
WAYS = {
    "max": (),
    "longest": ("data.padding=longest",),
    "longest, grouped": ("data.padding=longest", "data.group_by_length=true"),
    "bucket, grouped": ("data.padding=bucket", "data.group_by_length=true"),
}
VOCABULARY = 30522


def write_samples(path: Path, lengths: list[int]) -> None:
    source = random.Random(7)
    with path.open("w") as file:
        for length in lengths:
            ids = [source.randrange(VOCABULARY) for _ in range(length)]
            file.write(json.dumps({"input_ids": ids, "labels": length % 2}) + "\n")


def measure(args: argparse.Namespace, data: Path, longest: int, samples: int, steps: int, way: tuple[str, ...]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        words = [
            "task=sequence_classification",
            "model.type=bert",
            f"model.num_hidden_layers={args.layers}",
            f"model.hidden_size={args.width}",
            f"model.num_attention_heads={args.width // 64}",
            f"model.intermediate_size={4 * args.width}",
            f"model.max_position_embeddings={longest}",
            f"training.precision={args.precision}",
            f"training.micro_batch_size={samples}",
            f"training.max_steps={steps}",
            "data.format=jsonl",
            f"data.path={data}",
            f"data.sequence_length={longest}",
            "memory_report.at=[]",
            "logging.progress=off",
            f"output_dir={folder}/run",
            *way,
        ]
        empty = Path(folder) / "empty.yaml"
        empty.write_text("{}\n")
        run_child([str(args.build / "recollect"), "train", str(empty), *words], args.threads, 1800)
        return json.loads((Path(folder) / "run/train_results.json").read_text())["train_samples_per_second"]


def parse_arguments(purpose: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=purpose, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/cpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=400, help="of each range")
    parser.add_argument("--only", default="", help="ranges whose name contains this")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def chosen_ranges(args: argparse.Namespace) -> dict[str, tuple[int, int, int]]:
    return {name: shape for name, shape in RANGES.items() if args.only in name}


def print_rows(name: str, speeds: dict[str, list[float]], ideal: float) -> None:
    """One for each way, of its samples a second; the first is what the others are held against."""
    first = statistics.median(next(iter(speeds.values())))
    for way, measured in speeds.items():
        median = statistics.median(measured)
        print(
            f"| {name} | {way} | {median:.1f} | {min(measured):.1f}-{max(measured):.1f} "
            f"| {median / first:.2f}x | {median / first / ideal:.2f} |"
        )
    print(f"| | real tokens alone | | | {ideal:.2f}x | 1.00 |")


def print_conditions(args: argparse.Namespace) -> None:
    print(
        f"\nBERT of {args.layers} layers, {args.width} wide, {args.precision}; {args.rounds} rounds of {args.samples} samples; "
        f"{args.threads} threads; {processor_name()}."
    )


def main() -> int:
    args = parse_arguments(__doc__)
    print("| lengths | padding | samples/s, median | range | against max | for its real tokens |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, (low, high, samples) in chosen_ranges(args).items():
            source = random.Random(3)
            lengths = [source.randint(low, high) for _ in range(args.samples // samples * samples)]
            data = Path(folder) / "samples.jsonl"
            write_samples(data, lengths)
            speeds: dict[str, list[float]] = {way: [] for way in WAYS}
            for _ in range(args.rounds):
                for way, words in WAYS.items():
                    try:
                        speeds[way].append(measure(args, data, high, samples, len(lengths) // samples, words))
                    except Unavailable as error:
                        print(f"{name}, {way}: {error}", file=sys.stderr)
                        return 1
            print_rows(name, speeds, high / statistics.mean(lengths))
    print_conditions(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
