#!/usr/bin/env python3
"""Trains GPT-2 124M and BERT-base on sequences of SWAG's lengths within memory budgets, and prints one markdown table.

Always true: every row of a model trains on the same samples in the same order, and beside a training of its base, step by step
in turn (in_turn.py); the device's rates are calibrated by this very run, before anything is measured, and nothing measured
goes back into a prediction. An overhead is the median over steps of a step's time over that of the same step of the base, which
came just before it. The base is mode none; PyTorch's rows have their own: torch.compile with
torch._functorch.config.activation_memory_budget, a share of the saved activations and no bytes, against torch.compile without.
The exit status is 1 if anything is missing, never because of a speed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from compare import ROOT, Unavailable, processor_name, run_child
from in_turn import Training, steps_in_turn

MIB = 2.0**20
LOW, HIGH, MULTIPLE = 40, 142, 8  # SWAG's lengths; micro-batches are padded to multiples
BERT_BASE = ("model.num_hidden_layers=12", "model.hidden_size=768", "model.num_attention_heads=12", "model.intermediate_size=3072")
MODELS = {
    "GPT-2 124M": (ROOT / "configs/gpt2-124m.yaml", (), "model.n_layer=3"),
    "BERT-base": (ROOT / "configs/bert-large.yaml", BERT_BASE, "model.num_hidden_layers=3"),
}
COLUMNS = [
    "model",
    "budget, MiB",
    "what",
    "ms/step",
    "its base in turn",
    "overhead",
    "predicted overhead",
    "arena measured, MiB",
    "budget unused",
    "peak RSS, MiB",
]


def ac(**keys: object) -> tuple[str, ...]:
    return tuple(f"activation_checkpointing.{key}={value}" for key, value in keys.items())


@dataclass
class Row:
    model: str
    what: str
    words: tuple[str, ...] = ()
    budget: int = 0
    share: float | None = None  # of PyTorch's saved activations
    base: Row | None = None  # None: it is one
    steps: list[list[float]] = field(default_factory=list)  # seconds, by round
    in_turn: list[list[float]] = field(default_factory=list)  # of the base, beside these
    predicted: float = 0  # seconds of the mean step
    arena: int = 0
    rss: int = 0

    @property
    def name(self) -> str:
        return f"{self.model} {self.what}" + (f" in {self.budget / MIB:.0f} MiB" if self.budget else "")

    def overhead(self) -> float | None:
        if self.base is None:
            return None
        ratios = [mine / base for steps, beside in zip(self.steps, self.in_turn) for mine, base in zip(steps, beside)]
        return statistics.median(ratios) - 1 if ratios else None

    def predicted_overhead(self) -> float | None:
        if self.base is None or not self.predicted or not self.base.predicted:
            return None
        return self.predicted / self.base.predicted - 1


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/cpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6, help="timed steps per run")
    parser.add_argument("--warmup", type=int, default=2, help="untimed steps before them, one at least")
    parser.add_argument("--samples", type=int, default=8, help="of a micro-batch")
    parser.add_argument("--budgets", type=int, default=5, help="from the smallest that works towards that of mode none")
    parser.add_argument("--shares", type=float, nargs="*", default=[0.5, 0.0], help="of saved activations, for PyTorch")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--device", type=Path, help="an existing device file; calibrate nothing")
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--quick", action="store_true", help="a trial: three layers, two budgets, one round of three steps")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds for one run")
    args = parser.parse_args()
    if args.rounds < 1 or args.steps < 1 or args.warmup < 1:
        parser.error("--rounds, --steps and --warmup must be at least 1")
    if args.quick:
        args.rounds = 1
        args.steps, args.warmup, args.budgets, args.shares, args.samples = 3, 1, 2, args.shares[:1], 4
    return args


class Bench:
    def __init__(self, args: argparse.Namespace, folder: str) -> None:
        self.args, self.folder = args, folder
        self.missing: list[str] = []
        source = random.Random(3)
        count = args.samples * (args.warmup + args.steps)
        self.lengths = [source.randint(LOW, HIGH) for _ in range(count)]
        self.lengths[args.warmup * args.samples] = HIGH  # the longest is measured in every row
        self.samples = {model: self.write_samples(model, source) for model in MODELS}
        self.device = args.device or Path(folder) / "device.yaml"
        if not args.device:
            self.recollect("calibrate", "--out", str(self.device), "--seconds", "5" if args.quick else "20")

    def write_samples(self, model: str, source: random.Random) -> Path:
        path = Path(self.folder) / f"{MODELS[model][0].stem}.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for length in self.lengths:
                sample: dict[str, object] = {"input_ids": [source.randrange(30522) for _ in range(length)]}
                if model == "BERT-base":  # the label of its class; the other predicts its own tokens
                    sample["labels"] = length % 2
                file.write(json.dumps(sample) + "\n")
        return path

    def padded(self) -> list[int]:
        """The lengths of the timed steps."""
        each = self.args.samples
        tops = [max(self.lengths[i : i + each]) for i in range(self.args.warmup * each, len(self.lengths), each)]
        return [min(HIGH, -(-top // MULTIPLE) * MULTIPLE) for top in tops]

    def recollect(self, *words: str) -> tuple[str, int]:
        return run_child([str(self.args.build / "recollect"), *words], self.args.threads, self.args.timeout)

    def words(self, model: str) -> list[str]:
        _, sizes, trial = MODELS[model]
        words = [word for word in sizes if not (self.args.quick and word.startswith(trial.split("=")[0]))]
        return [*words, *([trial] if self.args.quick else [])]

    def run_words(self, model: str) -> list[str]:
        args = self.args
        words = [f"training.precision={args.precision}", f"training.micro_batch_size={args.samples}"]
        words += [f"training.max_steps={args.warmup + args.steps}", "training.compile=ahead", f"device.threads={args.threads}"]
        words += [f"device.model={self.device}", "data.format=jsonl", f"data.path={self.samples[model]}", "data.shuffle=false"]
        words += [f"data.sequence_length={HIGH}", "data.padding=longest", f"data.pad_to_multiple_of={MULTIPLE}"]
        return [str(MODELS[model][0]), *words, *self.words(model)]

    def budgets(self, model: str) -> list[int]:
        """In equal steps, the first the smallest that works; that of mode none would be one behind the last."""
        text, _ = self.recollect("estimate", *self.run_words(model), "--pareto", "--json")
        found = [row["budget"] for row in json.loads(text)]
        return [found[0] + (found[-1] - found[0]) * i // self.args.budgets for i in range(self.args.budgets)]

    def rows(self, model: str) -> list[Row]:
        none = Row(model, "none")
        rows = [none] + [Row(model, mode, ac(mode=mode), base=none) for mode in ("full", "sqrt")]
        for budget in self.budgets(model):
            for policy in ("dynamic", "static"):
                words = ac(mode="auto", memory_budget=budget, budget_policy=policy)
                rows.append(Row(model, policy, words, budget, base=none))
        if not self.args.no_torch:
            compiled = Row(model, "torch compile", share=1.0)
            shares = [Row(model, f"torch compile, memory budget {s}", share=s, base=compiled) for s in self.args.shares]
            rows += [compiled, *shares]
        return rows

    def our_training(self, row: Row, output: str) -> Training:
        own = ["memory_report.at=[end]", "memory_report.formats=[json]", "logging.progress=off", f"output_dir={output}"]
        command = [str(self.args.build / "recollect"), "train", *self.run_words(row.model), *own, *row.words]
        return Training(command, Path(output) / "metrics.jsonl", self.args.threads)

    def torch_training(self, row: Row, output: str) -> Training:
        args, lengths = self.args, self.torch_warmup() + self.padded()
        metrics = Path(output) / "metrics.jsonl"
        command = [sys.executable, str(Path(__file__).with_name("torch_model.py")), str(MODELS[row.model][0])]
        command += [*self.words(row.model), f"training.micro_batch_size={args.samples}", "--compile"]
        command += ["--precision", args.precision, "--threads", str(args.threads), "--memory-budget", str(row.share)]
        command += ["--steps", str(args.steps), "--warmup", str(len(self.torch_warmup())), "--metrics", str(metrics)]
        return Training([*command, "--lengths", ",".join(map(str, lengths))], metrics, args.threads)

    def torch_warmup(self) -> list[int]:
        """Each length once before the clock starts: it may be compiled for."""
        return sorted(set(self.padded()), reverse=True)

    def measure_pair(self, row: Row, base: Row) -> None:
        args, torch = self.args, row.share is not None
        warmup = len(self.torch_warmup()) if torch else args.warmup
        with tempfile.TemporaryDirectory(dir=self.folder) as beside, tempfile.TemporaryDirectory(dir=self.folder) as own:
            make = self.torch_training if torch else self.our_training
            taken = steps_in_turn([make(base, beside), make(row, own)], warmup, args.steps, args.timeout)
            for one, output, what in zip((base, row), (beside, own), taken):
                rss = what.rss
                if torch:
                    result = json.loads(what.output.splitlines()[-1])
                    rss = result["steady_peak_rss_bytes"] or result["peak_rss_bytes"]
                else:
                    report = json.loads((Path(output) / "memory.rank0.json").read_text(encoding="utf-8"))
                    one.predicted, one.arena = report["step"]["predicted"]["step"], report["measured"]["arena"]
                one.rss = max(one.rss, rss)
                one.steps.append(what.seconds)
            row.in_turn.append(taken[0].seconds)

    def measure(self, row: Row, number: int) -> None:
        if row.base is None:  # it is measured beside its rows
            return
        try:
            self.measure_pair(row, row.base)
        except Unavailable as why:
            self.missing.append(f"{row.name}, round {number + 1}: {why}")
            return
        seconds, beside = (1e3 * statistics.mean(steps[-1]) for steps in (row.steps, row.in_turn))
        print(f"round {number + 1} {row.name}: {seconds:.0f} ms (base {beside:.0f}), load {os.getloadavg()[0]:.1f}", file=sys.stderr)


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:+.1f} %"


def table_row(row: Row) -> str:
    seconds, beside = ([second for steps in rounds for second in steps] for rounds in (row.steps, row.in_turn))
    cells = [row.model, f"{row.budget / MIB:.1f}" if row.budget else "-", row.what]
    cells.append(f"{1e3 * statistics.mean(seconds):.0f}" if seconds else "-")
    cells.append(f"{1e3 * statistics.mean(beside):.0f}" if beside else "-")
    cells += [percent(row.overhead()), percent(row.predicted_overhead())]
    cells.append(f"{row.arena / MIB:.1f}" if row.arena else "-")
    cells.append(f"{100 * (1 - row.arena / row.budget):.2f} %" if row.budget and row.arena else "-")
    cells.append(f"{row.rss / MIB:.0f}" if row.rss else "-")
    return "| " + " | ".join(cells) + " |"


def main() -> int:
    args = parse_arguments()
    with tempfile.TemporaryDirectory(prefix="recollect-budgets-") as folder:
        try:
            bench = Bench(args, folder)
            rows = [row for model in MODELS if args.only in model for row in bench.rows(model)]
        except Unavailable as why:
            print(f"budgets.py: {why}", file=sys.stderr)
            return 1
        for number in range(args.rounds):
            for row in rows:
                bench.measure(row, number)
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + "---|" * len(COLUMNS))
    for row in rows:
        print(table_row(row))
    print(f"\nLengths {LOW} to {HIGH}, micro-batches of {args.samples} padded to multiples of {MULTIPLE}; {args.precision};", end=" ")
    print(f"{args.rounds} rounds of {args.steps} steps after {args.warmup} to warm up, {args.threads} threads;", end=" ")
    print(f"{processor_name()}; load average at the end {os.getloadavg()[0]:.1f}.")
    for text in bench.missing:
        print(f"Not measured: {text}")
    return 1 if bench.missing else 0


if __name__ == "__main__":
    sys.exit(main())
