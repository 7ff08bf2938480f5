#!/usr/bin/env python3
"""Trains a model on two data ranks with optimizer states divided, on the disk, and of several rules, and prints a markdown table.

Always true: every row is two processes of `recollect run` with half of the threads each. Once it runs alone, and is asked for
bytes, exposed time and the rate of its update; in every round it runs beside stage 0 with AdamW, step by step in turn
(in_turn.py), and its cost is the median over all steps of its time over that of stage 0's, which came just before. Predicted
bytes are those that the run printed before it began. The rate of the update counts what an update reads and what it writes, as
STREAM counts its triad, which is measured just before on all threads; of both ranks together, in the step that each recorded. The exit status is 1 if anything is missing or took other bytes than predicted, never because of a speed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compare import GIB, ROOT, Unavailable, attempt, processor_name, run_child
from in_turn import Training, steps_in_turn

MIB = 2.0**20
RANKS = 2
BASE = "stage 0"
# What a rule that is one op keeps of a number of a matrix, in bytes; the 8-bit rules have 4 more for each 256 of a state.
STATE_BYTES = {"adamw": 8.0, "sgd": 4.0, "lion": 4.0, "adamw8bit": 2 + 8 / 256, "lion8bit": 1 + 4 / 256}
COLUMNS = [
    "what",
    "s/step, median",
    "range",
    "against stage 0",
    "exposed, ms/step",
    "of it for the disk",
    "arena a rank, MiB, predicted",
    "measured",
    "states and masters a rank, MiB",
    "on the disk",
    "resident, both ranks, GiB, predicted",
    "measured",
    "update, GB/s",
    "of triad",
]


@dataclass(frozen=True)
class Contender:
    """A row; reach is the most that its cost should be."""

    name: str
    words: tuple[str, ...] = ()
    disk: bool = False
    reach: float | None = None


def stage(number: int) -> tuple[str, ...]:
    return (f"parallelism.zero_stage={number}",) if number else ()


def rule(name: str, *words: str) -> tuple[str, ...]:
    return (f"optimizer.name={name}", *words)


CONTENDERS = [
    Contender(BASE),
    Contender("stage 1", stage(1), reach=0.02),
    Contender("stage 2", stage(2), reach=0.02),
    Contender("stage 3", stage(3), reach=0.10),
    Contender("stage 0, disk", disk=True),
    Contender("stage 1, disk", stage(1), disk=True),
    Contender("stage 3, disk", stage(3), disk=True),
    Contender("stage 0, adamw8bit", rule("adamw8bit")),
    Contender("stage 3, adamw8bit", stage(3) + rule("adamw8bit")),
    Contender("stage 0, adamw8bit, disk", rule("adamw8bit"), disk=True),
    Contender("stage 0, lion", rule("lion")),
    Contender("stage 0, lion8bit", rule("lion8bit")),
    Contender("stage 0, sgd", rule("sgd", "optimizer.momentum=0.9")),
    Contender("stage 0, adafactor", rule("adafactor")),
    Contender("stage 0, muon", rule("muon")),
]


@dataclass
class Row:
    """What all rounds gave, and of the run by itself the rest."""

    steps: list[float] = field(default_factory=list)  # seconds
    in_turn: list[float] = field(default_factory=list)  # of stage 0, beside these
    exposed: float = 0  # ms a step, of the rank with the most
    disk_exposed: float = 0
    rate: float | None = None  # bytes a second
    triad: float | None = None  # just before
    ranks: list[dict[str, Any]] = field(default_factory=list)  # memory reports


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/cpu", help="holds recollect and bench_rates")
    parser.add_argument("--model", default="gpt2-124m", help="a file of configs/, without its ending")
    parser.add_argument("--folder", type=Path, default=ROOT / "build", help="on the disk that states are kept on")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4, help="timed steps per run")
    parser.add_argument("--warmup", type=int, default=1, help="untimed steps before them, one at least")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of both ranks together")
    parser.add_argument("--only", default="", help="rows whose name contains this, and stage 0")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds for one run")
    parser.add_argument("words", nargs="*", metavar="section.key=value", help="settings of all rows")
    args = parser.parse_args()
    if args.rounds < 1 or args.steps < 1 or args.warmup < 1:
        parser.error("--rounds, --steps and --warmup must be at least 1")
    return args


def config_of(args: argparse.Namespace) -> str:
    return str(ROOT / f"configs/{args.model}.yaml")


def measure_triad(args: argparse.Namespace) -> float:
    """Bytes a second, of all threads."""
    output, _ = run_child([str(args.build / "bench_rates")], args.threads, args.timeout)
    return float(json.loads(output)["triad"])


def update_rate(report: dict[str, Any], precision: str) -> float | None:
    """Bytes a second of a rank's updates; None where a rule goes over a matrix more than once."""
    moved = seconds = 0.0
    copy = 2 if precision == "bf16" else 0  # of the master, into the parameter
    for kind in report["profile"]["kinds"]:
        if kind["phase"] != "optimizer" or kind["class"] == "collective" or kind["kind"] in ("squared_norm", "clip_factor"):
            continue
        if kind["kind"] not in STATE_BYTES:
            return None
        updated = 4 + STATE_BYTES[kind["kind"]]  # the gradient, also of 4 bytes, is only read
        moved += kind["touched"] * (4 + 2 * updated + copy) / (4 + updated + copy)
        seconds += kind["seconds"]
    return moved / seconds if seconds > 0 else None


def training(args: argparse.Namespace, contender: Contender, folder: str) -> Training:
    threads = max(1, args.threads // RANKS)
    command = [str(args.build / "recollect"), "run", "--nproc-per-node", str(RANKS), "train", config_of(args)]
    command += [f"parallelism.data_parallel_size={RANKS}", f"training.precision={args.precision}"]
    command += [f"training.max_steps={args.warmup + args.steps}", f"device.threads={threads}"]
    command += [f"output_dir={folder}/run", "logging.progress=off", *args.words, *contender.words]
    command += ["optimizer.offload=disk", f"optimizer.offload_path={folder}"] if contender.disk else []
    return Training(command, Path(folder) / "run/metrics.jsonl", threads)


def run_alone(args: argparse.Namespace, contender: Contender, row: Row) -> None:
    row.triad = measure_triad(args)
    with tempfile.TemporaryDirectory(prefix="recollect-states-", dir=args.folder) as folder:
        alone = training(args, contender, folder)
        run_child(alone.command, alone.threads, args.timeout)
        reports = [(alone.metrics.parent / f"memory.rank{rank}.json").read_text(encoding="utf-8") for rank in range(RANKS)]
    row.ranks = [json.loads(report) for report in reports]
    measured = [report["step"]["measured"] for report in row.ranks]
    row.exposed = 1e3 * max(step["exposed"] for step in measured)
    row.disk_exposed = 1e3 * max(step["exposed_for"]["disk"] for step in measured)
    rates = [update_rate(report, args.precision) for report in row.ranks]
    row.rate = sum(rate for rate in rates if rate is not None) if None not in rates else None


def run_in_turn(args: argparse.Namespace, base: Contender, contender: Contender, of_base: Row, row: Row) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="recollect-states-", dir=args.folder) as beside,
        tempfile.TemporaryDirectory(prefix="recollect-states-", dir=args.folder) as own,
    ):
        both = [training(args, base, beside), training(args, contender, own)]
        stage_0, mine = steps_in_turn(both, args.warmup, args.steps, args.timeout)
    row.in_turn += stage_0.seconds
    of_base.steps += stage_0.seconds
    row.steps += mine.seconds


def other_bytes(row: Row) -> list[str]:
    """Where a rank measured other bytes than were predicted."""
    found = []
    for report in row.ranks:
        predicted, measured = report["predicted"], report["measured"]
        for key in ("peak", "arena", "host_arena", "disk"):
            if predicted[key] != measured[key]:
                found.append(f"rank {report['rank']}: {key} of {measured[key]} bytes, predicted {predicted[key]}")
    return found


def cost(row: Row) -> float | None:
    return statistics.median(mine / base for mine, base in zip(row.steps, row.in_turn)) - 1 if row.steps else None


def table_row(contender: Contender, row: Row) -> str:
    cells = [contender.name]
    if not row.ranks or not row.steps:
        return "| " + " | ".join(cells + ["-"] * (len(COLUMNS) - 1)) + " |"
    steps, extra = row.steps, cost(row) if row.in_turn else None
    reach = f" (reach {100 * contender.reach:.0f} %)" if contender.reach is not None else ""
    cells += [f"{statistics.median(steps):.3f}", f"{min(steps):.3f}-{max(steps):.3f}"]
    cells.append(f"{100 * extra:+.1f} %{reach}" if extra is not None else "-")
    cells.append(f"{row.exposed:.1f}")
    cells.append(f"{row.disk_exposed:.1f}" if contender.disk else "-")
    first = max(row.ranks, key=lambda report: report["measured"]["arena"])
    cells += [f"{first[key]['arena'] / MIB:.1f}" for key in ("predicted", "measured")]
    cells.append(f"{first['measured']['optimizer']['optimizer'] / MIB:.1f}")
    cells.append(f"{first['measured']['disk_states'] / MIB:.1f}" if contender.disk else "-")
    for key in ("predicted", "measured"):
        cells.append(f"{sum(report['resident'][key] for report in row.ranks) / GIB:.2f}")
    cells.append(f"{1e-9 * row.rate:.1f}" if row.rate else "-")
    cells.append(f"{100 * row.rate / row.triad:.0f} %" if row.rate and row.triad else "-")
    return "| " + " | ".join(cells) + " |"


def refusal_of_host(args: argparse.Namespace, missing: list[str]) -> str:
    """Host memory is where a CPU's states are already: there is nothing to measure, and the program must say so."""
    try:
        run_child([str(args.build / "recollect"), "estimate", config_of(args), "optimizer.offload=host"], 1, args.timeout)
    except Unavailable as why:
        if "exit 2" in str(why):
            return f"No row for optimizer.offload=host: {why}"
        missing.append(f"the refusal of optimizer.offload=host: {why}")
    else:
        missing.append("optimizer.offload=host was not refused on the cpu backend")
    return ""


def measure(args: argparse.Namespace, contenders: list[Contender], rows: dict[str, Row]) -> list[str]:
    """Fills the rows; returns what is missing."""
    missing: list[str] = []
    base, others = contenders[0], contenders[1:]
    for contender in contenders:
        attempt(f"{contender.name} alone", lambda: run_alone(args, contender, rows[contender.name]), missing)
        missing += [f"{contender.name}: {text}" for text in other_bytes(rows[contender.name])]
    for number in range(args.rounds):
        for contender in others:
            both = rows[base.name], rows[contender.name]
            attempt(f"round {number + 1} {contender.name}", lambda: run_in_turn(args, base, contender, *both), missing)
    return missing


def main() -> int:
    args = parse_arguments()
    args.folder.mkdir(parents=True, exist_ok=True)
    contenders = [c for c in CONTENDERS if c.name == BASE or args.only in c.name]
    rows = {c.name: Row() for c in contenders}
    missing = measure(args, contenders, rows)
    triad = [row.triad for row in rows.values() if row.triad]
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + "---|" * len(COLUMNS))
    for contender in contenders:
        print(table_row(contender, rows[contender.name]))
    print(f"\n{args.model}, {args.precision}, two data ranks; {args.rounds} rounds of {args.steps} steps", end=" ")
    print(f"after {args.warmup} to warm up, {args.threads} threads in all; {processor_name()};", end=" ")
    print(f"load average at the end {os.getloadavg()[0]:.1f}.")
    if triad:
        spread = f"{1e-9 * min(triad):.1f}-{1e-9 * max(triad):.1f}"
        print(f"STREAM triad: {1e-9 * statistics.median(triad):.1f} GB/s (median of {len(triad)}; {spread}).")
    if refused := refusal_of_host(args, missing):
        print(refused)
    for text in missing:
        print(f"Missing or not as predicted: {text}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
