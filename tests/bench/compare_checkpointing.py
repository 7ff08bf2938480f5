#!/usr/bin/env python3
"""What each mode and switch of activation checkpointing costs, next to PyTorch's checkpoint and save_on_cpu.

Always true: a row's cost is the median over steps of its time over that of the same step of its base, which came just before
it: the two take their steps in turn (in_turn.py). Waits and bytes are those of a run alone, since a process that is
stopped counts the pause. Every number was measured by this very run. The exit status is 1 if anything is missing, never
because of a speed. (What it costs to divide optimizer states: optimizer_state.py.)
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from compare import GIB, ROOT, attempt, processor_name, run_child
from in_turn import Training, steps_in_turn

COLUMNS = [
    "precision",
    "what",
    "s/step, median",
    "against",
    "cost",
    "exposed waits, ms/step",
    "device arena, MiB",
    "host arena, MiB",
    "peak RSS, GiB",
]


@dataclass(frozen=True)
class Contender:
    """A row. Its cost is measured against the row named `base`; reach is the most that cost should be."""

    name: str
    words: tuple[str, ...]  # of recollect train, or of torch_model.py
    base: str | None = None
    reach: float | None = None
    torch: bool = False


def ac(**keys: object) -> tuple[str, ...]:
    return tuple(f"activation_checkpointing.{key}={str(value).lower()}" for key, value in keys.items())


TWO_RANKS = ("parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2")
MOVED = {"cpu_checkpointing": True, "partition_activations": True}

CONTENDERS = [
    Contender("none", ()),
    Contender("selective", ac(mode="selective"), "none", 0.03),
    Contender("full", ac(mode="full"), "none", 0.15),
    Contender("sqrt", ac(mode="sqrt"), "none"),
    Contender("full + host", ac(mode="full", cpu_checkpointing=True), "full", 0.02),
    Contender("2 ranks, none", TWO_RANKS),
    Contender("2 ranks, full", TWO_RANKS + ac(mode="full"), "2 ranks, none", 0.15),
    Contender(
        "2 ranks, full + partition",
        TWO_RANKS + ac(mode="full", partition_activations=True),
        "2 ranks, full",
        0.02,
    ),
    Contender(
        "2 ranks, full + partition + host, pool",
        TWO_RANKS + ac(mode="full", contiguous_checkpointing=False, **MOVED),
        "2 ranks, full",
    ),
    Contender(
        "2 ranks, full + partition + host + arena",
        TWO_RANKS + ac(mode="full", **MOVED),
        "2 ranks, full",
        0.02,
    ),
    Contender("torch eager", (), torch=True),
    Contender("torch checkpoint", ("--checkpoint",), "torch eager", torch=True),
    Contender("torch save_on_cpu", ("--save-on-cpu",), "torch eager", torch=True),
    Contender("torch checkpoint + save_on_cpu", ("--checkpoint", "--save-on-cpu"), "torch eager", torch=True),
]


@dataclass
class Row:
    steps: list[float] = field(default_factory=list)  # seconds
    ratios: list[float] = field(default_factory=list)  # over the base's steps
    exposed: float | None = None  # ms a step
    device: int | None = None
    host: int | None = None
    rss: int = 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=Path, default=ROOT / "build/cpu")
    parser.add_argument("--config", type=Path, default=ROOT / "configs/gpt2-124m.yaml")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4, help="timed steps per run")
    parser.add_argument("--warmup", type=int, default=1, help="untimed steps before them, one at least")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--precisions", nargs="+", choices=["fp32", "bf16"], default=["fp32", "bf16"])
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--only", default="", help="rows whose name contains this, and their bases")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds for one run")
    args = parser.parse_args()
    if args.rounds < 1 or args.steps < 1 or args.warmup < 1:
        parser.error("--rounds, --steps and --warmup must be at least 1")
    return args


def training(args: argparse.Namespace, contender: Contender, precision: str, folder: str) -> Training:
    metrics = Path(folder) / "metrics.jsonl"
    if contender.torch:
        command = [sys.executable, str(Path(__file__).with_name("torch_model.py")), str(args.config)]
        command += ["--precision", precision, "--threads", str(args.threads), "--metrics", str(metrics)]
        command += ["--steps", str(args.steps), "--warmup", str(args.warmup), *contender.words]
        return Training(command, metrics, args.threads)
    threads = max(1, args.threads // (2 if contender.words[:2] == TWO_RANKS else 1))
    command = [str(args.build / "recollect"), "train", str(args.config), f"training.precision={precision}"]
    command += [f"training.max_steps={args.warmup + args.steps}", f"device.threads={threads}"]
    command += [f"output_dir={folder}", "logging.progress=off", *contender.words]
    return Training(command, metrics, threads)


def run_alone(args: argparse.Namespace, contender: Contender, precision: str, row: Row) -> None:
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as folder:
        alone = training(args, contender, precision, folder)
        output, row.rss = run_child(alone.command, alone.threads, args.timeout)
        if contender.torch:
            row.rss = json.loads(output.splitlines()[-1])["peak_rss_bytes"]
            return
        memory = json.loads((Path(folder) / "memory.rank0.json").read_text(encoding="utf-8"))
    row.exposed = 1e3 * memory["step"]["measured"]["exposed"]
    row.device, row.host = memory["measured"]["arena"], memory["measured"]["host_arena"]


def run_in_turn(
    args: argparse.Namespace, base: Contender, contender: Contender, precision: str, of_base: Row, row: Row
) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="recollect-bench-") as beside,
        tempfile.TemporaryDirectory(prefix="recollect-bench-") as own,
    ):
        both = [training(args, base, precision, beside), training(args, contender, precision, own)]
        theirs, mine = steps_in_turn(both, args.warmup, args.steps, args.timeout)
    of_base.steps += theirs.seconds
    row.steps += mine.seconds
    row.ratios += [step / other for step, other in zip(mine.seconds, theirs.seconds)]


def chosen(args: argparse.Namespace) -> list[Contender]:
    wanted = [c for c in CONTENDERS if args.only in c.name and not (args.no_torch and c.torch)]
    names = {c.name for c in wanted} | {c.base for c in wanted}
    names |= {c.base for c in CONTENDERS if c.name in names}
    return [c for c in CONTENDERS if c.name in names]


def table_row(contender: Contender, precision: str, rows: dict[tuple[str, str], Row]) -> str:
    row = rows[contender.name, precision]
    cells = [precision, contender.name]
    cells.append(f"{statistics.median(row.steps):.3f}" if row.steps else "-")
    cells.append(contender.base or "-")
    extra = statistics.median(row.ratios) - 1 if row.ratios else None
    reach = f" (reach {100 * contender.reach:.0f} %)" if contender.reach is not None else ""
    cells.append(f"{100 * extra:+.1f} %{reach}" if extra is not None else "-")
    cells.append(f"{row.exposed:.1f}" if row.exposed is not None else "-")
    cells.append(f"{row.device / 2**20:.1f}" if row.device is not None else "-")
    cells.append(f"{row.host / 2**20:.1f}" if row.host is not None else "-")
    cells.append(f"{row.rss / GIB:.2f}" if row.rss else "-")
    return "| " + " | ".join(cells) + " |"


def measure(args: argparse.Namespace, contenders: list[Contender], rows: dict[tuple[str, str], Row]) -> list[str]:
    """Fills the rows; returns what is missing."""
    missing: list[str] = []
    of_name = {contender.name: contender for contender in contenders}
    for precision in args.precisions:
        for contender in contenders:
            row = rows[contender.name, precision]
            attempt(f"{precision} {contender.name} alone", lambda: run_alone(args, contender, precision, row), missing)
    for number, precision, contender in itertools.product(range(args.rounds), args.precisions, contenders):
        if contender.base is not None:
            base, both = of_name[contender.base], (rows[contender.base, precision], rows[contender.name, precision])
            what = f"round {number + 1} {precision} {contender.name}"
            attempt(what, lambda: run_in_turn(args, base, contender, precision, *both), missing)
    return missing


def main() -> int:
    args = parse_arguments()
    contenders = chosen(args)
    rows = {(c.name, p): Row() for p in args.precisions for c in contenders}
    missing = measure(args, contenders, rows)
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + "---|" * len(COLUMNS))
    for precision in args.precisions:
        for contender in contenders:
            print(table_row(contender, precision, rows))
    print(f"\n{args.rounds} rounds of {args.steps} steps after {args.warmup} to warm up,", end=" ")
    print(f"{args.threads} threads; {processor_name()}.")
    for text in missing:
        print(f"Not measured: {text}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
