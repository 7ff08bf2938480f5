#!/usr/bin/env python3
"""Trains models for a few steps in Recollect and in PyTorch, step by step in turn, and prints one markdown table.

Always true: both sides take the same number of warm-up and timed steps of the same token count on the same threads, and
each of PyTorch's rows takes its steps in turn with Recollect (in_turn.py), so that what is compared lies seconds apart; every
number in the table was measured by this very run; what could not be measured stands as "-" and the reason is printed
below the table. The exit status is 1 if anything is missing, never because of a speed.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

from in_turn import Taken, Training, steps_in_turn
from workload import ROOT, Unavailable, Workload, read_workload

GIB = 2.0**30


@dataclass(frozen=True)
class Contender:
    """A row of each model and precision; `words` are of torch_model.py or of recollect train."""

    name: str
    words: tuple[str, ...] = ()
    torch: bool = False


@dataclass(frozen=True)
class Match:
    """Recollect, and who trains beside it."""

    ours: Contender
    rivals: tuple[Contender, ...]


def torch(what: str, *words: str) -> Contender:
    return Contender(f"torch {what}", words, torch=True)


PLAIN = Match(Contender("recollect"), (torch("eager"), torch("compile", "--compile")))
CHECKPOINTED = Match(
    Contender("recollect, full", ("activation_checkpointing.mode=full",)),
    (
        torch("eager, checkpoint", "--checkpoint"),
        torch("compile, checkpoint", "--compile", "--checkpoint"),
        torch("eager, save_on_cpu", "--save-on-cpu"),
        torch("compile, memory budget 0.5", "--compile", "--memory-budget", "0.5"),
    ),
)

COLUMNS = [
    "model, micro-batch x sequence",
    "precision",
    "what",
    "s/step, median",
    "range",
    "Recollect is faster",
    "model GFLOP/s",
    "of GEMM rate",
    "peak RSS, GiB",
    "against torch's lowest",
    "of it above imports, GiB",
]


@dataclass
class Measured:
    """What all rounds of one contender at one precision gave; seconds are those of the timed steps."""

    seconds: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)  # of a rival's steps over ours that came just before
    peak_bytes: list[int] = field(default_factory=list)
    growth_bytes: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)  # of each run's first step

    def median(self) -> float | None:
        return statistics.median(self.seconds) if self.seconds else None

    def peak(self) -> int | None:
        return max(self.peak_bytes, default=None)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--build", type=Path, default=ROOT / "build/cpu", help="holds recollect, bench_gemm and bench_rates"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5, help="timed steps per run")
    parser.add_argument("--together", type=int, default=1, help="each of them is the mean of so many, for models whose steps take milliseconds")
    parser.add_argument("--warmup", type=int, default=2, help="untimed steps before them, on both sides, one at least")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--precisions", nargs="+", choices=["fp32", "bf16"], default=["fp32", "bf16"])
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--checkpointing", action="store_true", help="everybody once more with checkpointing")
    parser.add_argument("--no-torch", action="store_true", help="our side only")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds for one run")
    parser.add_argument("--json", type=Path, help="also write every measured number here")
    parser.add_argument(
        "words",
        nargs="*",
        metavar="MODEL[:MICRO_BATCH] | section.key=value",
        help="models: files of configs/, gpt2-124m where none is named; settings of all of them",
    )
    args = parser.parse_args()
    args.models = [word for word in args.words if "=" not in word] or ["gpt2-124m"]
    args.settings = [word for word in args.words if "=" in word]
    if min(args.rounds, args.steps, args.together, args.warmup) < 1:
        parser.error("--rounds, --steps, --together and --warmup must be at least 1")
    return args


def run_child(command: list[str], threads: int, timeout: float) -> tuple[str, int]:
    """Runs a command to its end; returns its output and peak resident bytes, or raises Unavailable."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        try:
            child = subprocess.Popen(command, stdout=out, stderr=err, env=environment, cwd=ROOT)
        except OSError as error:
            raise Unavailable(f"{command[0]}: {error.strerror}") from error
        watchdog = threading.Timer(timeout, child.kill)
        watchdog.start()
        try:
            _, status, usage = os.wait4(child.pid, 0)
        finally:
            watchdog.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)  # keeps Popen from waiting a second time
        out.seek(0)
        err.seek(0)
        if child.returncode != 0:
            last = [line.strip() for line in err.read().splitlines() if line.strip()][-1:]
            raise Unavailable(f"{Path(command[0]).name}: exit {child.returncode}: {''.join(last)[:300]}")
        return out.read(), usage.ru_maxrss * 1024


def attempt(what: str, part: Callable[[], object], missing: list[str]) -> None:
    """Measures a part, tells who waits, and adds to what is missing where it cannot be measured."""
    try:
        part()
    except Unavailable as why:
        missing.append(f"{what}: {why}")
    print(f"{what}, load {os.getloadavg()[0]:.1f}", file=sys.stderr)


def workload_of(args: argparse.Namespace, model: str) -> Workload:
    name, _, micro_batch = model.partition(":")
    words = [f"training.micro_batch_size={micro_batch}"] if micro_batch else []
    return read_workload(ROOT / f"configs/{name}.yaml", args.settings + words)


def training_of(args: argparse.Namespace, work: Workload, contender: Contender, precision: str, folder: Path) -> Training:
    if contender.torch:
        command = [sys.executable, str(Path(__file__).with_name("torch_model.py")), str(work.path), *work.words]
        command += ["--precision", precision, "--threads", str(args.threads)]
        command += ["--steps", str(args.steps * args.together), "--warmup", str(args.warmup), *contender.words]
        return Training([*command, "--metrics", str(folder / "metrics.jsonl")], folder / "metrics.jsonl", args.threads)
    command = [str(args.build / "recollect"), "train", str(work.path), f"training.precision={precision}"]
    command += [f"training.max_steps={args.warmup + args.steps * args.together}", f"device.threads={args.threads}"]
    command += [f"output_dir={folder}", "logging.progress=off", *work.words, *contender.words]
    return Training(command, folder / "metrics.jsonl", args.threads)


def take(args: argparse.Namespace, work: Workload, contender: Contender, folder: Path, taken: Taken, into: Measured) -> None:
    """What one run gave."""
    steps = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    if any(step["tokens"] != work.tokens for step in steps):
        raise Unavailable(f"a step of {contender.name} has {steps[0]['tokens']} tokens instead of {work.tokens}: not equal work")
    into.seconds += taken.seconds
    into.losses.append(steps[0]["loss"])
    if contender.torch:  # its own VmHWM, as the compiler processes that torch.compile starts are no part of training
        result = json.loads(taken.output.splitlines()[-1])
        into.peak_bytes.append(result["peak_rss_bytes"])
        into.growth_bytes.append(result["peak_rss_growth_bytes"])
    else:
        into.peak_bytes.append(taken.rss)


def measure_gemm(args: argparse.Namespace) -> dict[str, float]:
    """The machine's GEMM rate in GFLOP/s by precision, from our binary; Unavailable where there is none."""
    binary = args.build / "bench_gemm"
    if not binary.exists():
        raise Unavailable(f"{binary} does not exist, so no fraction of the GEMM rate")
    output, _ = run_child([str(binary), "--json"], args.threads, args.timeout)
    try:
        rates = json.loads(output.splitlines()[-1])
        return {"fp32": float(rates["f32_gflops"]), "bf16": float(rates["bf16_gflops"])}
    except (ValueError, KeyError, IndexError) as error:
        raise Unavailable(f"bench_gemm --json printed something else: {error!r}") from error


def measure_rates(args: argparse.Namespace) -> dict[str, float]:
    """What bench_rates says: FLOPs and bytes a second."""
    binary = args.build / "bench_rates"
    if not binary.exists():
        raise Unavailable(f"{binary} does not exist")
    rates = json.loads(run_child([str(binary)], args.threads, args.timeout)[0])
    return {name: rate for name, rate in rates.items() if name != "threads"}


@dataclass
class Campaign:
    """Everything that was measured, and what could not be."""

    works: list[Workload]
    matches: list[Match]
    measured: dict[tuple[str, str, str], Measured] = field(default_factory=dict)  # model, precision, contender
    gemm: dict[str, float] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def of(self, work: Workload, precision: str, contender: Contender) -> Measured:
        return self.measured.setdefault((work.name, precision, contender.name), Measured())

    def miss(self, what: str, why: Unavailable) -> None:
        text = f"{what}: {why}"
        if text not in self.missing:
            self.missing.append(text)


def run_pair(
    args: argparse.Namespace, campaign: Campaign, work: Workload, precision: str, pair: list[Contender]
) -> str:
    """Ours, and a rival where there is one. Returns what to tell who waits."""
    what = f"{work.name} {precision} {pair[-1].name}"
    measured = [campaign.of(work, precision, contender) for contender in pair]
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as folder:
        folders = [Path(folder) / str(number) for number in range(len(pair))]
        try:
            for each in folders:
                each.mkdir()
            trainings = [training_of(args, work, one, precision, each) for one, each in zip(pair, folders)]
            taken = steps_in_turn(trainings, args.warmup, args.steps, args.timeout, args.together)
            for one in zip(pair, folders, taken, measured):
                take(args, work, *one)
        except Unavailable as why:
            campaign.miss(what, why)
            return f"{what}: nothing measured"
    medians = [statistics.median(one.seconds) for one in taken]
    told = f"{what}: {medians[-1]:.3f} s, first loss {measured[-1].losses[-1]:.4f}, load {os.getloadavg()[0]:.1f}"
    if len(pair) == 1:
        return told
    ratios = [theirs / ours for ours, theirs in zip(taken[0].seconds, taken[1].seconds)]
    measured[1].ratios += ratios
    return f"{told}; recollect {medians[0]:.3f} s, {statistics.median(ratios):.2f}x as fast"


def run_campaign(args: argparse.Namespace, campaign: Campaign) -> None:
    """Round by round, model by model, each rival beside ours."""
    for number in range(args.rounds):
        for what, measure, best in (("GEMM rate", measure_gemm, campaign.gemm), ("rates", measure_rates, campaign.rates)):
            try:
                for name, rate in measure(args).items():
                    best[name] = max(rate, best.get(name, 0.0))
            except Unavailable as why:
                campaign.miss(what, why)
        for work, precision, match in itertools.product(campaign.works, args.precisions, campaign.matches):
            pairs = [[match.ours, rival] for rival in match.rivals] or [[match.ours]]
            for pair in pairs:
                print(f"round {number + 1} {run_pair(args, campaign, work, precision, pair)}", file=sys.stderr)


def table_rows(campaign: Campaign, work: Workload, precision: str, match: Match) -> list[str]:
    theirs = [campaign.of(work, precision, rival) for rival in match.rivals]
    low = min((peak for m in theirs if (peak := m.peak())), default=None)
    ratios = [statistics.median(m.ratios) for m in theirs if m.ratios]
    rate, flops = campaign.gemm.get(precision), work.flops()
    rows = []
    for contender in (match.ours, *match.rivals):
        measured = campaign.of(work, precision, contender)
        median, peak = measured.median(), measured.peak()
        faster = statistics.median(measured.ratios) if measured.ratios else None
        if contender == match.ours:  # than the best of them
            faster = min(ratios, default=None)
        cells = [work.name, precision, contender.name]
        cells.append(f"{median:.3f}" if median else "-")
        cells.append(f"{min(measured.seconds):.3f}-{max(measured.seconds):.3f}" if median else "-")
        cells.append(f"{faster:.2f}x" if faster else "-")
        cells.append(f"{flops / median / 1e9:.0f}" if median else "-")
        cells.append(f"{100 * flops / median / 1e9 / rate:.0f} %" if median and rate else "-")
        cells.append(f"{peak / GIB:.2f}" if peak else "-")
        cells.append(f"{peak / low:.2f}x" if peak and low else "-")
        cells.append(f"{max(measured.growth_bytes) / GIB:.2f}" if measured.growth_bytes else "-")
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def print_report(args: argparse.Namespace, campaign: Campaign) -> None:
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + "---|" * len(COLUMNS))
    for work, precision, match in itertools.product(campaign.works, args.precisions, campaign.matches):
        print("\n".join(table_rows(campaign, work, precision, match)))
    print()
    for work in campaign.works:
        print(f"Model FLOPs per step of {work.name}: {work.flops():.4g} ({work.formula.text}).")
    for precision, rate in campaign.gemm.items():
        print(
            f"GEMM rate {precision}: {rate:.0f} GFLOP/s, the best of {args.rounds} measurements in this run."
        )
    if campaign.rates:
        told = {"multiply_add_f32": "fp32 multiply-adds", "dot_product_bf16": "bf16 dot products", "tile_product_bf16": "bf16 tiles"}
        units = [f"{text} {campaign.rates[name] / 1e9:.0f}" for name, text in told.items() if campaign.rates[name]]
        print(f"Units alone, from registers, GFLOP/s: {', '.join(units)}; STREAM triad {campaign.rates['triad'] / 1e9:.1f} GB/s.")
    print(
        f"{args.rounds} rounds of {args.steps} steps after {args.warmup} to warm up, {args.threads} threads;",
        end=" ",
    )
    print(f"{processor_name()}; load average at the end {os.getloadavg()[0]:.1f}.")
    for text in campaign.missing:
        print(f"Not measured: {text}")


def processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def close(text: str, missing: list[str]) -> int:
    """What stands below a table: `text`, the machine, and what could not be measured. Returns the exit status."""
    print(f"\n{text}; {processor_name()}; load average at the end {os.getloadavg()[0]:.1f}.")
    for why in missing:
        print(f"Not measured: {why}")
    return 1 if missing else 0


def write_json(path: Path, campaign: Campaign) -> None:
    runs = [{"model": m, "precision": p, "what": c, **vars(v)} for (m, p, c), v in campaign.measured.items()]
    everything = {"runs": runs, "gemm_gflops": campaign.gemm, "rates": campaign.rates}
    everything["model_flops"] = {work.name: work.flops() for work in campaign.works}
    everything["missing"] = campaign.missing
    path.write_text(json.dumps(everything, indent=2) + "\n", encoding="utf-8")


def main() -> int:
    args = parse_arguments()
    with_torch = not args.no_torch and importlib.util.find_spec("torch") is not None
    matches = []
    for match in [PLAIN] + ([CHECKPOINTED] if args.checkpointing else []):
        kept = [rival for rival in match.rivals if with_torch and not (args.no_compile and "--compile" in rival.words)]
        matches.append(Match(match.ours, tuple(kept)))
    try:
        campaign = Campaign([workload_of(args, model) for model in args.models], matches)
        for work in campaign.works:
            work.flops()  # what cannot be counted is said before anything is measured
    except Unavailable as why:
        print(f"compare.py: {why}", file=sys.stderr)
        return 1
    if not args.no_torch and not with_torch:
        campaign.missing.append(f"PyTorch: {sys.executable} has none")
    run_campaign(args, campaign)
    print_report(args, campaign)
    if args.json:
        write_json(args.json, campaign)
    return 1 if campaign.missing else 0


if __name__ == "__main__":
    sys.exit(main())
