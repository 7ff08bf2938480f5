#!/usr/bin/env python3
"""Trains a model with snapshots, and writes as many bytes with dd, and prints two markdown tables.

Always true: rows in turn, round by round, on the same folder's disk, whose pages are written back before every run. A save is
written beside the first half of the steps up to the next one, and done by then, or the script says so: what it costs is that
half less the mean of the second halves before and behind it, so that a machine which changes from minute to minute changes
all three; the copy, for which training waits between two steps, is told apart by the run itself, and so is the processor
time that the thread which writes takes from those that compute, a bound that no noise hides. The throughput of saves is that of the run's own results, from the beginning of a save to
its name; dd writes as many bytes, with conv=fsync.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from compare import ROOT, Unavailable, processor_name, run_child

MIB = 1 << 20


@dataclass
class Row:
    steps: list[float] = field(default_factory=list)  # seconds, of steps that nothing is written beside
    costs: list[float] = field(default_factory=list)  # seconds that a save adds to the steps beside it
    copies: list[float] = field(default_factory=list)  # seconds of one
    threads: list[float] = field(default_factory=list)  # seconds of a processor, of one
    rates: list[float] = field(default_factory=list)  # bytes a second


def train(args: argparse.Namespace, folder: Path, steps: int, every: int, row: Row) -> int:
    """Adds a run to the row; returns the bytes of one of its saves."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        words = [
            f"training.micro_batch_size={args.micro_batch}",
            f"training.precision={args.precision}",
            f"training.max_steps={steps}",
            *([f"snapshot.every_steps={every}", "snapshot.keep=1"] if every else []),
            "memory_report.at=[]",
            "logging.progress=off",
            f"output_dir={name}/run",
            *args.words,
        ]
        os.sync()
        command = [str(args.build / "recollect"), "train", str(ROOT / f"configs/{args.model}.yaml"), *words]
        run_child(command, args.threads, 1800)
        lines = (Path(name) / "run/metrics.jsonl").read_text().splitlines()
        saves = json.loads((Path(name) / "run/train_results.json").read_text()).get("snapshots")
    seconds = [line["step_seconds"] for line in map(json.loads, lines) if "step_seconds" in line]
    half = every // 2
    for save in range(every, steps - every + 1, every):  # behind so many steps
        before, beside, after = (sum(seconds[first : first + half]) for first in (save - half, save, save + half))
        row.costs.append(beside - (before + after) / 2)
        row.steps += seconds[save - half : save] + seconds[save + half : save + every]
    if not saves:
        return 0
    row.copies.append(saves["copy_seconds"] / saves["saved"])
    row.threads.append(saves["thread_seconds"] / saves["saved"])
    row.rates.append(saves["bytes"] / saves["seconds"])
    if row.costs and saves["seconds"] / saves["saved"] > half * statistics.median(row.steps):
        raise Unavailable(f"a save takes more than {half} steps: let there be more between two, with --every")
    return saves["bytes"] // saves["saved"]


def dd(folder: Path, size: int) -> float:
    """Bytes a second, of so many in pieces of 1 MiB, until they are durable."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        os.sync()
        start = time.perf_counter()
        command = ["dd", "if=/dev/zero", f"of={name}/bytes", f"bs={MIB}", f"count={-(-size // MIB)}", "conv=fsync"]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        return size / (time.perf_counter() - start)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/cpu")
    parser.add_argument("--folder", type=Path, default=ROOT / "build", help="on the disk to be measured")
    parser.add_argument("--model", default="gpt2-124m")
    parser.add_argument("--micro-batch", type=int, default=4)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=24, help="per run")
    parser.add_argument("--every", type=int, default=4, help="steps from save to save, an even number")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("words", nargs="*", metavar="section.key=value")
    args = parser.parse_args()
    if args.every < 2 or args.every % 2:
        parser.error("half of the steps between two saves are beside one: --every is even")
    return args


def spread(values: list[float], scale: float, digits: int) -> str:
    low, middle, high = (scale * value for value in (min(values), statistics.median(values), max(values)))
    return f"{middle:.{digits}f} | {low:.{digits}f}-{high:.{digits}f}"


def main() -> int:
    args = parse_arguments()
    beside, alone, disk = Row(), Row(), Row()
    args.folder.mkdir(parents=True, exist_ok=True)
    size = 0
    try:
        for _ in range(args.rounds):
            train(args, args.folder, args.steps, args.every, beside)
            # Of the last step alone, which no other is computed beside.
            size = train(args, args.folder, 1, MIB, alone)
            disk.rates.append(dd(args.folder, size))
            print(f"{len(beside.costs)} saves; load average {os.getloadavg()[0]:.1f}", file=sys.stderr)
    except Unavailable as error:
        print(error, file=sys.stderr)
        return 1
    step, cost = statistics.median(beside.steps), statistics.median(beside.costs)
    thread = statistics.median(beside.threads)
    print("| saves | copy, s | thread, s | of a step | a step, s, median | range | the steps beside a save, s more, median | range | of a step |")
    print("|---|---|---|---|---|---|---|---|---|")
    print(f"| {len(beside.costs)} | {statistics.median(beside.copies):.3f} | {thread:.3f} | {100 * thread / step:.2f} % |", end="")
    print(f" {spread(beside.steps, 1, 3)} | {spread(beside.costs, 1, 3)} | {100 * cost / step:.1f} % |")
    print("\n| bytes written | MB/s, median | range | of dd, median of rounds |")
    print("|---|---|---|---|")
    print(f"| dd, conv=fsync | {spread(disk.rates, 1e-6, 0)} | - |")
    for name, row in ("save after the last step", alone), ("save beside steps", beside):
        share = statistics.median(a / b for a, b in zip(row.rates, disk.rates))
        print(f"| {name} | {spread(row.rates, 1e-6, 0)} | {100 * share:.0f} % |")
    print(
        f"\n{args.model}, {args.precision}, micro-batch {args.micro_batch}; a save has {size} bytes; {args.rounds} rounds of "
        f"{args.steps} steps; {args.threads} threads; {processor_name()}."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
