#!/usr/bin/env python3
"""What each mode and switch of activation checkpointing costs, next to PyTorch's checkpoint and save_on_cpu; and what it
costs that data ranks divide optimizer states, gradients and parameters.

Always true: every round runs every contender once, in turn, on the same cores; a row's cost is the median over rounds
of its own median step over that of its base in the same round, so a slow spell of the machine hits both. Every number
was measured by this very run. The exit status is 1 if anything is missing, never because of a speed.
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

from compare import GIB, ROOT, Unavailable, processor_name, run_child

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
TWO_REPLICAS = ("parallelism.data_parallel_size=2", "parallelism.ranks_per_process=2")
MOVED = {"cpu_checkpointing": True, "partition_activations": True}

CONTENDERS = [
    Contender("none", ()),
    Contender("selective", ac(mode="selective"), "none", 0.05),
    Contender("full", ac(mode="full"), "none", 0.24),
    Contender("sqrt", ac(mode="sqrt"), "none"),
    Contender("full + host", ac(mode="full", cpu_checkpointing=True), "full", 0.03),
    Contender("2 ranks, none", TWO_RANKS),
    Contender("2 ranks, full", TWO_RANKS + ac(mode="full"), "2 ranks, none", 0.24),
    Contender(
        "2 ranks, full + partition",
        TWO_RANKS + ac(mode="full", partition_activations=True),
        "2 ranks, full",
        0.03,
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
        0.03,
    ),
    Contender("2 replicas", TWO_REPLICAS),
    *(
        Contender(f"2 replicas, zero_stage {stage}", (*TWO_REPLICAS, f"parallelism.zero_stage={stage}"), "2 replicas", reach)
        for stage, reach in ((1, 0.02), (2, 0.02), (3, 0.10))
    ),
    Contender("torch eager", (), torch=True),
    Contender("torch checkpoint", ("--checkpoint",), "torch eager", torch=True),
    Contender("torch save_on_cpu", ("--save-on-cpu",), "torch eager", torch=True),
    Contender("torch checkpoint + save_on_cpu", ("--checkpoint", "--save-on-cpu"), "torch eager", torch=True),
]


@dataclass
class Row:
    rounds: dict[int, float] = field(default_factory=dict)  # round -> median seconds of a step
    exposed: list[float] = field(default_factory=list)  # ms a step
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
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--precisions", nargs="+", choices=["fp32", "bf16"], default=["fp32", "bf16"])
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--only", default="", help="rows whose name contains this, and their bases")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds for one run")
    return parser.parse_args()


def run_ours(args: argparse.Namespace, contender: Contender, precision: str, row: Row, number: int) -> None:
    ranks = 2 if contender.words[:2] in (TWO_RANKS, TWO_REPLICAS) else 1
    threads = max(1, args.threads // ranks)
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as output:
        command = [str(args.build / "recollect"), "train", str(args.config), f"training.precision={precision}"]
        command += [f"training.max_steps={args.warmup + args.steps}", f"device.threads={threads}"]
        command += [f"output_dir={output}", *contender.words]
        _, peak = run_child(command, threads, args.timeout)
        lines = (Path(output) / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        memory = json.loads((Path(output) / "memory.rank0.json").read_text(encoding="utf-8"))
    seconds = [json.loads(line)["step_seconds"] for line in lines][args.warmup :]
    row.rounds[number] = statistics.median(seconds)
    row.exposed.append(1e3 * memory["step"]["measured"]["exposed"])
    row.device = memory["measured"]["arena"]
    row.host = memory["measured"]["host_arena"]
    row.rss = max(row.rss, peak)


def run_torch(args: argparse.Namespace, contender: Contender, precision: str, row: Row, number: int) -> None:
    command = [sys.executable, str(Path(__file__).with_name("torch_model.py")), str(args.config)]
    command += ["--precision", precision, "--threads", str(args.threads)]
    command += ["--steps", str(args.steps), "--warmup", str(args.warmup)]
    output, _ = run_child(command + list(contender.words), args.threads, args.timeout)
    result = json.loads(output.splitlines()[-1])
    row.rounds[number] = statistics.median(result["seconds"])
    row.rss = max(row.rss, result["peak_rss_bytes"])


def chosen(args: argparse.Namespace) -> list[Contender]:
    wanted = [c for c in CONTENDERS if args.only in c.name and not (args.no_torch and c.torch)]
    names = {c.name for c in wanted} | {c.base for c in wanted}
    names |= {c.base for c in CONTENDERS if c.name in names}
    return [c for c in CONTENDERS if c.name in names]


def cost(row: Row, base: Row) -> float | None:
    ratios = [row.rounds[n] / base.rounds[n] - 1 for n in row.rounds if n in base.rounds]
    return statistics.median(ratios) if ratios else None


def table_row(contender: Contender, precision: str, rows: dict[tuple[str, str], Row]) -> str:
    row = rows[contender.name, precision]
    cells = [precision, contender.name]
    cells.append(f"{statistics.median(row.rounds.values()):.3f}" if row.rounds else "-")
    cells.append(contender.base or "-")
    extra = cost(row, rows[contender.base, precision]) if contender.base else None
    reach = f" (reach {100 * contender.reach:.0f} %)" if contender.reach is not None else ""
    cells.append(f"{100 * extra:+.1f} %{reach}" if extra is not None else "-")
    cells.append(f"{statistics.median(row.exposed):.1f}" if row.exposed else "-")
    cells.append(f"{row.device / 2**20:.1f}" if row.device is not None else "-")
    cells.append(f"{row.host / 2**20:.1f}" if row.host is not None else "-")
    cells.append(f"{row.rss / GIB:.2f}" if row.rss else "-")
    return "| " + " | ".join(cells) + " |"


def main() -> int:
    args = parse_arguments()
    contenders = chosen(args)
    rows = {(c.name, p): Row() for p in args.precisions for c in contenders}
    missing: list[str] = []
    for number in range(args.rounds):
        for precision in args.precisions:
            for contender in contenders:
                row = rows[contender.name, precision]
                try:
                    (run_torch if contender.torch else run_ours)(args, contender, precision, row, number)
                except Unavailable as why:
                    missing.append(f"{contender.name} {precision}, round {number + 1}: {why}")
                shown = f"{row.rounds[number]:.3f} s" if number in row.rounds else "nothing measured"
                print(f"round {number + 1} {precision} {contender.name}: {shown}", file=sys.stderr)
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
