#!/usr/bin/env python3
"""Calibrates this machine, then predicts and measures steps of GPT-2, BERT and Llama in every mode, and prints one markdown table.

Always true: predictions come from `recollect estimate` with device files that this very run has calibrated, before
and after every round of measurements; nothing measured goes back into a prediction. A shared machine's speed changes
from minute to minute: a round's prediction is the mean of those by the calibrations around it, what is measured the
mean of the fastest tenth of its steps, as in a calibration, and what counts is the median over rounds of their ratio. The
exit status is 1 if anything is missing, never because of a difference.
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

from compare import ROOT, Unavailable, processor_name, run_child

CONFIG = str(ROOT / "configs/gpt2-tiny.yaml")


@dataclass(frozen=True)
class Shape:
    name: str
    words: tuple[str, ...]
    split: str  # what two ranks divide: tensor or data
    config: str = CONFIG  # "": one that says nothing


def gpt2(layers: int, width: int, heads: int, vocabulary: int, samples: int, sequence: int) -> tuple[str, ...]:
    return (
        f"model.n_layer={layers}",
        f"model.n_embd={width}",
        f"model.n_head={heads}",
        f"model.vocab_size={vocabulary}",
        f"model.n_positions={sequence}",
        f"training.micro_batch_size={samples}",
        f"data.sequence_length={sequence}",
        "data.format=random",
        "data.path=[]",
    )


def other(family: str, task: str, layers: int, width: int, heads: int, inner: int, samples: int, sequence: int) -> tuple[str, ...]:
    return (
        f"task={task}",
        f"model.type={family}",
        f"model.num_hidden_layers={layers}",
        f"model.hidden_size={width}",
        f"model.num_attention_heads={heads}",
        f"model.intermediate_size={inner}",
        "model.vocab_size=4096",
        f"model.max_position_embeddings={sequence}",
        f"training.micro_batch_size={samples}",
        "data.format=random",
    )


SHAPES = [
    Shape("tiny: 4 x 128", (), "tensor"),  # configs/gpt2-tiny.yaml as it is
    Shape("4 x 256", gpt2(4, 256, 8, 1024, 8, 128), "data"),
    Shape("4 x 512", gpt2(4, 512, 8, 4096, 2, 256), "tensor"),
    Shape("3 x 768", gpt2(3, 768, 12, 16384, 2, 512), "data"),
    Shape("BERT 4 x 256", other("bert", "sequence_classification", 4, 256, 4, 1024, 8, 128), "data", ""),
    Shape("BERT 3 x 768", other("bert", "masked_lm", 3, 768, 12, 3072, 2, 512) + ("data.mask_token=0",), "tensor", ""),
    Shape("Llama 4 x 256", (*other("llama", "causal_lm", 4, 256, 4, 688, 8, 128), "model.num_key_value_heads=2"), "tensor", ""),
    Shape("Llama 3 x 768", other("llama", "causal_lm", 3, 768, 12, 2048, 2, 512), "data", ""),
]
MODES = {
    "none": ("mode=none",),
    "selective": ("mode=selective",),
    "full": ("mode=full",),
    "full + host": ("mode=full", "cpu_checkpointing=true"),
}


@dataclass
class Case:
    shape: Shape
    precision: str
    mode: str
    ranks: int
    config: str
    words: list[str]
    predicted: list[float]  # seconds, by calibration
    predicted_exposed: list[float]
    measured: list[float]  # seconds, by round
    exposed: list[float]

    @property
    def name(self) -> str:
        return f"{self.shape.name}, {self.precision}, {self.mode}, {self.ranks} rank{'s' * (self.ranks > 1)}"

    @property
    def complete(self) -> bool:
        return len(self.predicted) == len(self.measured) + 1 > 1

    def ratios(self) -> list[float]:
        """Predicted over measured, by round."""
        around = [statistics.mean(pair) for pair in zip(self.predicted, self.predicted[1:])]
        return [p / m for p, m in zip(around, self.measured)]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/cpu")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="of steps in one run, about")
    parser.add_argument("--calibration", type=float, default=15.0, help="seconds of one calibration")
    parser.add_argument("--disk", type=Path, help="also full + disk, in this folder")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--device", type=Path, help="an existing device file; calibrate nothing")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for one run")
    return parser.parse_args()


def cases(args: argparse.Namespace, folder: str) -> list[Case]:
    empty = Path(folder) / "defaults.yaml"
    empty.write_text("{}\n", encoding="utf-8")
    modes = dict(MODES)
    if args.disk:
        modes["full + disk"] = ("mode=full", f"disk_checkpointing.path={args.disk}")
    found = []
    for shape in SHAPES:
        for precision in ("fp32", "bf16"):
            for mode, keys in modes.items():
                for ranks in (1, 2):
                    tensor = ranks if shape.split == "tensor" else 1
                    words = [*shape.words, f"training.precision={precision}", "checkpoint.save_model=false"]
                    words += [f"activation_checkpointing.{key}" for key in keys]
                    words += [f"parallelism.tensor_parallel_size={tensor}", f"parallelism.ranks_per_process={ranks}"]
                    case = Case(shape, precision, mode, ranks, shape.config or str(empty), words, [], [], [], [])
                    if args.only in case.name:
                        found.append(case)
    return found


def recollect(args: argparse.Namespace, *words: str) -> str:
    return run_child([str(args.build / "recollect"), *words], len(os.sched_getaffinity(0)), args.timeout)[0]


def calibrate(args: argparse.Namespace, folder: str, number: int) -> str:
    if args.device:
        return str(args.device)
    path = f"{folder}/device{number}.yaml"
    words = ["calibrate", "--out", path, "--seconds", str(args.calibration)]
    recollect(args, *words, *(["--disk", str(args.disk)] if args.disk else []))
    return path


def predict(args: argparse.Namespace, case: Case, device: str) -> None:
    words = ["estimate", case.config, "--json", f"device.model={device}", *case.words]
    estimate = json.loads(recollect(args, *words))
    case.predicted.append(estimate["step_seconds"])
    case.predicted_exposed.append(estimate["exposed_seconds"])


def measure(args: argparse.Namespace, case: Case) -> None:
    steps = max(6, min(200, int(args.seconds / case.predicted[0])))
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as output:
        recollect(args, "train", case.config, f"training.max_steps={steps}",
                  "memory_report.formats=json", f"output_dir={output}", *case.words)  # fmt: skip
        lines = (Path(output) / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        memory = json.loads((Path(output) / "memory.rank0.json").read_text(encoding="utf-8"))
    case.measured.append(fastest([json.loads(line)["step_seconds"] for line in lines][1:]))
    case.exposed.append(memory["step"]["measured"]["exposed"])


def fastest(seconds: list[float]) -> float:
    return statistics.mean(sorted(seconds)[: max(1, len(seconds) // 10)])


def table_row(case: Case) -> str:
    ratios = case.ratios()
    cells = [case.name, f"{1e3 * statistics.median(case.predicted):.2f}", f"{1e3 * statistics.median(case.measured):.2f}"]
    cells += [f"{100 * (statistics.median(ratios) - 1):+.0f} %", f"{100 * (min(ratios) - 1):+.0f} to {100 * (max(ratios) - 1):+.0f} %"]
    cells += [f"{1e3 * statistics.median(case.predicted_exposed):.2f}", f"{1e3 * statistics.median(case.exposed):.2f}"]
    return "| " + " | ".join(cells) + " |"


def main() -> int:
    args = parse_arguments()
    missing: list[str] = []

    def attempt(case: Case, work) -> None:
        try:
            work()
        except Unavailable as why:
            missing.append(f"{case.name}: {why}")

    with tempfile.TemporaryDirectory(prefix="recollect-predict-") as folder:
        todo = cases(args, folder)
        for number in range(args.rounds + 1):
            device = calibrate(args, folder, number)
            for case in todo:
                attempt(case, lambda: predict(args, case, device))
            for case in todo if number < args.rounds else []:
                attempt(case, lambda: measure(args, case))
            print(f"{number} of {args.rounds} rounds are done", file=sys.stderr)
    columns = ["layers x width, GPT-2 where nothing else is said", "predicted, ms", "measured, ms", "difference, median", "difference, range"]
    columns += ["exposed, predicted", "exposed, measured"]
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    done = [case for case in todo if case.complete]
    for case in done:
        print(table_row(case))
    errors = [abs(statistics.median(c.ratios()) - 1) for c in done]
    if errors:
        within = sum(error <= 0.15 for error in errors)
        print(f"\n{within} of {len(errors)} within 15 %; median difference {100 * statistics.median(errors):.0f} %, "
              f"largest {100 * max(errors):.0f} %.")  # fmt: skip
    print(f"{args.rounds} rounds, {len(os.sched_getaffinity(0))} cores; {processor_name()}; "
          f"load average {os.getloadavg()[0]:.1f}.")  # fmt: skip
    for text in missing:
        print(f"Not measured: {text}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
