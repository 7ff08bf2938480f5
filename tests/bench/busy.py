#!/usr/bin/env python3
"""Trains small models while other processes want the same cores, and prints a markdown table.

Always true: rows in turn, round by round, under each number of competitors, which are loops without end in Python. What
differs between rows is how OpenMP's threads wait for each other: 300000 spins is what GNU's OpenMP does where nobody says
anything, passive sleeps at once, and "as it is" leaves the choice to Recollect, which decides by what it finds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from compare import ROOT, processor_name

WAITS = {
    "300000 spins": {"GOMP_SPINCOUNT": "300000"},
    "20000 spins": {"GOMP_SPINCOUNT": "20000"},
    "2000 spins": {"GOMP_SPINCOUNT": "2000"},
    "500 spins": {"GOMP_SPINCOUNT": "500"},
    "passive": {"OMP_WAIT_POLICY": "passive"},
    "as it is": {},
}
MODELS = {  # width, layers, heads, sequence, micro-batch
    "tiny": (32, 2, 2, 16, 2),
    "small": (128, 4, 4, 128, 8),
}


def words(model: str, steps: int, folder: str) -> list[str]:
    width, layers, heads, sequence, batch = MODELS[model]
    return [
        f"model.n_embd={width}", f"model.n_layer={layers}", f"model.n_head={heads}",
        f"model.n_positions={sequence}", "model.vocab_size=256", "data.format=random",
        f"data.sequence_length={sequence}", f"training.micro_batch_size={batch}", f"training.max_steps={steps}",
        "training.seed=1", "device.backend=cpu", "memory_report.at=[]", "profiling.step=0", "logging.progress=off",
        f"output_dir={folder}/run",
    ]  # fmt: skip


def train(args: argparse.Namespace, model: str, steps: int, waits: dict[str, str]) -> list[float]:
    """Seconds of the steps behind the first two."""
    environment = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")} | waits
    with tempfile.TemporaryDirectory() as folder:
        configuration = Path(folder) / "c.yaml"
        configuration.write_text("model: {type: gpt2}\n")
        command = [args.recollect, "train", str(configuration), *words(model, steps, folder)]
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=600)
        lines = map(json.loads, (Path(folder) / "run/metrics.jsonl").read_text().splitlines())
        return [line["step_seconds"] for line in lines][2:]


class Competitors:
    def __init__(self, count: int) -> None:
        self.running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]

    def __enter__(self) -> Competitors:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running:
            process.kill()
            process.wait()


def cell(rounds: list[list[float]]) -> str:
    """The mean step of a round, of which the median: what is rare and long counts."""
    return f"{1e3 * statistics.median(statistics.fmean(seconds) for seconds in rounds):.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recollect", default=str(ROOT / "build/cpu/recollect"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--competitors", type=int, nargs="+", default=[0, 2, 8])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--only", nargs="+", choices=WAITS, default=list(WAITS), metavar="WAITS")
    parser.add_argument("--steps", type=int, default=60, help="of a run of the small model with no competitor")
    args = parser.parse_args()
    measured: dict[tuple[str, int, str], list[list[float]]] = {}
    for _ in range(args.rounds):
        for model in args.models:
            for count in args.competitors:
                for name in args.only:
                    steps = max(12, args.steps // (1 if count == 0 else 3)) * (5 if model == "tiny" else 1)
                    with Competitors(count):
                        seconds = train(args, model, steps, WAITS[name])
                    measured.setdefault((model, count, name), []).append(seconds)
                    print(f"{model} {count} {name}: {cell(measured[model, count, name])} ms", file=sys.stderr)
    columns = [(model, count) for model in args.models for count in args.competitors]
    print("| waits | " + " | ".join(f"{model}, {count} competitors" for model, count in columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name in args.only:
        print(f"| {name} | " + " | ".join(cell(measured[model, count, name]) for model, count in columns) + " |")
    print(f"\nms a step, means of a run, the median of {args.rounds} rounds; {processor_name()}, {os.cpu_count()} cores; "
          f"load average at the end {os.getloadavg()[0]:.1f}.")  # fmt: skip


if __name__ == "__main__":
    main()
