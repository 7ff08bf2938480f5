#!/usr/bin/env python3
"""Does a step's time grow in proportion to layers and to tokens, and do activations stay where they are? A markdown table.

Always true: all sizes of an axis take their steps in turn (in_turn.py), so that a slow minute meets all of them. "off the
line" is a size's median step over the straight line through all of the axis' (least squares, each weighed by its own time), 0 %
where time is a fixed part and a part for each layer or token. Tokens grow by samples, as attention's time grows with the square
of a sequence. Activations are what a run's arena holds beside parameters, gradients and optimizer states, measured. The
exit status is 1 if anything is missing, never because of a figure.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from compare import ROOT, attempt, close
from in_turn import Training, steps_in_turn

LAYERS, SAMPLES = (12, 24, 48, 96), (1, 2, 4, 8, 16)
SEQUENCE, VOCABULARY = 512, 8192
MODES = {
    "none": (),
    "full": ("mode=full",),
    "full + host": ("mode=full", "cpu_checkpointing=true"),
    "full + disk": ("mode=full", "disk_checkpointing.path={folder}"),
}


@dataclass(frozen=True)
class Axis:
    name: str
    values: tuple[int, ...]

    def words(self, value: int) -> list[str]:
        layers, samples = (value, 1) if self.name == "layers" else (LAYERS[0], value // SEQUENCE)
        return [f"model.n_layer={layers}", f"training.micro_batch_size={samples}"]


AXES = (Axis("layers", LAYERS), Axis("tokens", tuple(SEQUENCE * samples for samples in SAMPLES)))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/cpu")
    parser.add_argument("--steps", type=int, default=8, help="timed steps of each size")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--precisions", nargs="+", choices=["fp32", "bf16"], default=["fp32", "bf16"])
    parser.add_argument("--modes", nargs="+", choices=list(MODES), default=list(MODES))
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="on the disk for full + disk")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds for the runs of one axis")
    return parser.parse_args()


def training(args: argparse.Namespace, precision: str, mode: str, words: list[str], output: Path) -> Training:
    output.mkdir()
    empty = output.with_suffix(".yaml")
    empty.write_text("{}\n", encoding="utf-8")
    command = [str(args.build / "recollect"), "train", str(empty), "model.type=gpt2", *words]
    command += [f"model.n_embd={args.width}", f"model.n_head={args.width // 64}", f"model.vocab_size={VOCABULARY}"]
    command += [f"model.n_positions={SEQUENCE}", f"data.sequence_length={SEQUENCE}", "data.format=random"]
    command += [f"training.precision={precision}", f"training.max_steps={args.steps + 2}", f"device.threads={args.threads}"]
    command += [f"activation_checkpointing.{word.format(folder=args.folder)}" for word in MODES[mode]]
    command += [f"output_dir={output}", "logging.progress=off"]
    return Training(command, output / "metrics.jsonl", args.threads)


def off_the_line(values: tuple[int, ...], seconds: list[float]) -> list[float]:
    """Of each size, its time over that of the line for which the sum of the squared relative distances is least."""
    weights = [1 / second**2 for second in seconds]
    total = sum(weights)
    mean = sum(w * v for w, v in zip(weights, values)) / total
    height = sum(w * s for w, s in zip(weights, seconds)) / total
    slope = sum(w * (v - mean) * (s - height) for w, v, s in zip(weights, values, seconds))
    slope /= sum(w * (v - mean) ** 2 for w, v in zip(weights, values))
    return [second / (height + slope * (value - mean)) - 1 for value, second in zip(values, seconds)]


def activations(folder: Path) -> int:
    measured = json.loads((folder / "memory.rank0.json").read_text(encoding="utf-8"))["measured"]
    return measured["arena"] - measured["persistent"]


def measure(args: argparse.Namespace, axis: Axis, precision: str, mode: str) -> None:
    """Prints the rows of one axis."""
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as folder:
        folders = [Path(folder) / str(value) for value in axis.values]
        runs = [training(args, precision, mode, axis.words(v), each) for v, each in zip(axis.values, folders)]
        taken = steps_in_turn(runs, 2, args.steps, args.timeout)
        held = [activations(each) for each in folders]
    medians = [statistics.median(run.seconds) for run in taken]
    for value, second, off, memory in zip(axis.values, medians, off_the_line(axis.values, medians), held):
        print(f"| {precision} | {mode} | {value} {axis.name} | {1e3 * second:.1f} | {100 * off:+.1f} % | {memory / 2**20:.2f} |")
    sys.stdout.flush()


def main() -> int:
    args = parse_arguments()
    missing: list[str] = []
    print("| precision | checkpointing | size | ms/step, median | off the line | activations, MiB |\n|---|---|---|---|---|---|")
    for precision in args.precisions:
        for mode in args.modes:
            for axis in AXES:
                attempt(f"{precision} {mode} {axis.name}", lambda: measure(args, axis, precision, mode), missing)
    sizes = f"layers with {SEQUENCE} tokens, tokens with {LAYERS[0]} layers; {args.steps} steps each, {args.threads} threads"
    return close(f"GPT-2, {args.width} wide, sequences of {SEQUENCE}, vocabulary {VOCABULARY}; {sizes}", missing)


if __name__ == "__main__":
    sys.exit(main())
