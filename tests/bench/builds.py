#!/usr/bin/env python3
"""Trains the same in two builds, step by step in turn, and prints how long the second one's steps take: a markdown table.

    python3 tests/bench/builds.py build/cpu build/bundle          # a native build, and the one that runs on every x86-64

Always true: both take the same steps of the same data on the same threads, in turn (in_turn.py); a figure is the median over all
steps of the second one's time over the first one's just before it. Losses that differ are told: kernels of the same level
give the same bits. The exit status is 1 if anything is missing, never because of a figure.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from compare import ROOT, attempt, close
from in_turn import Training, steps_in_turn


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("builds", nargs=2, type=Path, help="folders, each with a recollect")
    parser.add_argument("words", nargs="*", metavar="section.key=value")
    parser.add_argument("--models", nargs="+", default=["gpt2-124m"], help="files of configs/")
    parser.add_argument("--precisions", nargs="+", choices=["fp32", "bf16"], default=["fp32", "bf16"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5, help="timed steps per run")
    parser.add_argument("--together", type=int, default=1, help="each of them is the mean of so many, for steps of milliseconds")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds for one pair of runs")
    args = parser.parse_intermixed_args()
    args.builds = [build.resolve() for build in args.builds]
    return args


def losses(folder: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def run_pair(args: argparse.Namespace, model: str, precision: str, seconds: list[tuple[float, float]]) -> None:
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as folder:
        runs, folders = [], []
        for number, build in enumerate(args.builds):
            folders.append(Path(folder) / str(number))
            command = [str(build / "recollect"), "train", str(ROOT / f"configs/{model}.yaml"), f"training.precision={precision}"]
            command += ["parallelism.tensor_parallel_size=1", f"training.max_steps={args.steps * args.together + 2}", "logging.progress=off"]
            command += [f"device.threads={args.threads}", f"output_dir={folders[-1]}", *args.words]
            runs.append(Training(command, folders[-1] / "metrics.jsonl", args.threads))
        taken = steps_in_turn(runs, 2, args.steps, args.timeout, args.together)
        if losses(folders[0]) != losses(folders[1]):
            print(f"{model} {precision}: the losses differ", file=sys.stderr)
    seconds += zip(taken[0].seconds, taken[1].seconds)


def main() -> int:
    args = parse_arguments()
    rows = {(model, precision): [] for model in args.models for precision in args.precisions}
    missing: list[str] = []
    for number in range(args.rounds):
        for row, seconds in rows.items():
            attempt(f"round {number + 1} {' '.join(row)}", lambda: run_pair(args, *row, seconds), missing)
    print("| model | precision | first, s/step | second, s/step | second over first |\n|---|---|---|---|---|")
    for (model, precision), seconds in rows.items():
        if seconds:
            first, second = (statistics.median(side) for side in zip(*seconds))
            ratio = statistics.median(b / a for a, b in seconds)
            print(f"| {model} | {precision} | {first:.4f} | {second:.4f} | {ratio:.3f} |")
    return close(f"{args.rounds} rounds of {args.steps} steps after 2 to warm up, {args.threads} threads", missing)


if __name__ == "__main__":
    sys.exit(main())
