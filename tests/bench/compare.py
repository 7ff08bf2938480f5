#!/usr/bin/env python3
"""Trains models for a few steps in Recollect and in PyTorch, alternating, and prints one markdown table.

Always true: both sides run the same number of warm-up and timed steps of the same token count on the same
threads, one process at a time; every number in the table was measured by this very run; what could not be
measured stands as "-" and the reason is printed below the table. The exit status is 1 if anything is missing,
never because of a speed.
"""

from __future__ import annotations

import argparse
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

from workload import ROOT, Unavailable, Workload, read_workload

GIB = 2.0**30


@dataclass(frozen=True)
class Contender:
    """A row of each model and precision; rows with the same `checkpoint` are compared with each other."""

    name: str
    torch: bool = False
    compiled: bool = False
    checkpoint: bool = False


PLAIN = [
    Contender("recollect"),
    Contender("torch eager", torch=True),
    Contender("torch compile", torch=True, compiled=True),
]
CHECKPOINTED = [
    Contender("recollect, full", checkpoint=True),
    Contender("torch eager, checkpoint", torch=True, checkpoint=True),
    Contender("torch compile, checkpoint", torch=True, compiled=True, checkpoint=True),
]

COLUMNS = [
    "model, micro-batch x sequence",
    "precision",
    "what",
    "s/step, median",
    "range",
    "speed against torch's best",
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
        "--build", type=Path, default=ROOT / "build/cpu", help="holds recollect and bench_gemm"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5, help="timed steps per run")
    parser.add_argument("--warmup", type=int, default=2, help="untimed steps before them, on both sides")
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
    if args.rounds < 1 or args.steps < 1 or args.warmup < 0:
        parser.error("--rounds and --steps must be at least 1, --warmup at least 0")
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


def workload_of(args: argparse.Namespace, model: str) -> Workload:
    name, _, micro_batch = model.partition(":")
    words = [f"training.micro_batch_size={micro_batch}"] if micro_batch else []
    return read_workload(ROOT / f"configs/{name}.yaml", args.settings + words)


def run_ours(
    args: argparse.Namespace, work: Workload, contender: Contender, precision: str, into: Measured
) -> None:
    binary = args.build / "recollect"
    if not binary.exists():
        raise Unavailable(f"{binary} does not exist")
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as output:
        command = [str(binary), "train", str(work.path), f"training.precision={precision}"]
        command += [f"training.max_steps={args.warmup + args.steps}", f"device.threads={args.threads}"]
        command += [f"output_dir={output}", *work.words]
        command += ["activation_checkpointing.mode=full"] if contender.checkpoint else []
        _, peak = run_child(command, args.threads, args.timeout)
        lines = (Path(output) / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    steps = [json.loads(line) for line in lines]
    if len(steps) != args.warmup + args.steps:
        raise Unavailable(f"recollect wrote {len(steps)} steps instead of {args.warmup + args.steps}")
    if any(step["tokens"] != work.tokens for step in steps):
        raise Unavailable(
            f"recollect's step has {steps[0]['tokens']} tokens, PyTorch's {work.tokens}: not equal work"
        )
    into.seconds += [step["step_seconds"] for step in steps[args.warmup :]]
    into.losses.append(steps[0]["loss"])
    into.peak_bytes.append(peak)


def run_torch(
    args: argparse.Namespace, work: Workload, contender: Contender, precision: str, into: Measured
) -> None:
    command = [sys.executable, str(Path(__file__).with_name("torch_model.py")), str(work.path), *work.words]
    command += ["--precision", precision, "--threads", str(args.threads)]
    command += ["--steps", str(args.steps), "--warmup", str(args.warmup)]
    command += ["--compile"] if contender.compiled else []
    command += ["--checkpoint"] if contender.checkpoint else []
    output, _ = run_child(command, args.threads, args.timeout)
    result = json.loads(output.splitlines()[-1])
    into.seconds += result["seconds"]
    into.losses.append(result["losses"][0])
    # Its own VmHWM, as the compiler processes that torch.compile starts are no part of training.
    into.peak_bytes.append(result["peak_rss_bytes"])
    into.growth_bytes.append(result["peak_rss_growth_bytes"])


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


@dataclass
class Campaign:
    """Everything that was measured, and what could not be."""

    works: list[Workload]
    contenders: list[Contender]
    measured: dict[tuple[str, str, str], Measured] = field(default_factory=dict)  # model, precision, contender
    gemm: dict[str, float] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def of(self, work: Workload, precision: str, contender: Contender) -> Measured:
        return self.measured.setdefault((work.name, precision, contender.name), Measured())

    def miss(self, what: str, why: Unavailable) -> None:
        text = f"{what}: {why}"
        if text not in self.missing:
            self.missing.append(text)


def run_one(
    args: argparse.Namespace, campaign: Campaign, work: Workload, precision: str, contender: Contender
) -> str:
    """Returns what to tell who waits."""
    into = campaign.of(work, precision, contender)
    before = len(into.seconds)
    what = f"{work.name} {precision} {contender.name}"
    try:
        (run_torch if contender.torch else run_ours)(args, work, contender, precision, into)
    except Unavailable as why:
        campaign.miss(what, why)
        return f"{what}: nothing measured"
    seconds = statistics.median(into.seconds[before:])
    return f"{what}: {seconds:.3f} s, first loss {into.losses[-1]:.4f}, load {os.getloadavg()[0]:.1f}"


def run_campaign(args: argparse.Namespace, campaign: Campaign) -> None:
    """Round by round, model by model, every contender in turn, so that a slow spell hits them all."""
    for number in range(args.rounds):
        try:
            for precision, rate in measure_gemm(args).items():
                campaign.gemm[precision] = max(rate, campaign.gemm.get(precision, 0.0))
        except Unavailable as why:
            campaign.miss("GEMM rate", why)
        for work, precision in itertools.product(campaign.works, args.precisions):
            for contender in campaign.contenders:
                told = run_one(args, campaign, work, precision, contender)
                print(f"round {number + 1} {told}", file=sys.stderr)


def table_row(campaign: Campaign, work: Workload, precision: str, contender: Contender) -> str:
    rivals = [c for c in campaign.contenders if c.torch and c.checkpoint == contender.checkpoint]
    theirs = [campaign.of(work, precision, rival) for rival in rivals]
    best = min((median for m in theirs if (median := m.median())), default=None)
    low = min((peak for m in theirs if (peak := m.peak())), default=None)
    measured = campaign.of(work, precision, contender)
    median, peak = measured.median(), measured.peak()
    rate = campaign.gemm.get(precision)
    flops = work.flops()
    cells = [work.name, precision, contender.name]
    cells.append(f"{median:.3f}" if median else "-")
    cells.append(f"{min(measured.seconds):.3f}-{max(measured.seconds):.3f}" if median else "-")
    cells.append(f"{best / median:.2f}x" if best and median else "-")
    cells.append(f"{flops / median / 1e9:.0f}" if median else "-")
    cells.append(f"{100 * flops / median / 1e9 / rate:.0f} %" if median and rate else "-")
    cells.append(f"{peak / GIB:.2f}" if peak else "-")
    cells.append(f"{peak / low:.2f}x" if peak and low else "-")
    cells.append(f"{max(measured.growth_bytes) / GIB:.2f}" if measured.growth_bytes else "-")
    return "| " + " | ".join(cells) + " |"


def print_report(args: argparse.Namespace, campaign: Campaign) -> None:
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + "---|" * len(COLUMNS))
    for work, precision in itertools.product(campaign.works, args.precisions):
        for contender in campaign.contenders:
            print(table_row(campaign, work, precision, contender))
    print()
    for work in campaign.works:
        print(f"Model FLOPs per step of {work.name}: {work.flops():.4g} ({work.formula.text}).")
    for precision, rate in campaign.gemm.items():
        print(
            f"GEMM rate {precision}: {rate:.0f} GFLOP/s, the best of {args.rounds} measurements in this run."
        )
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


def write_json(path: Path, campaign: Campaign) -> None:
    runs = [{"model": m, "precision": p, "what": c, **vars(v)} for (m, p, c), v in campaign.measured.items()]
    everything = {"runs": runs, "gemm_gflops": campaign.gemm}
    everything["model_flops"] = {work.name: work.flops() for work in campaign.works}
    everything["missing"] = campaign.missing
    path.write_text(json.dumps(everything, indent=2) + "\n", encoding="utf-8")


def main() -> int:
    args = parse_arguments()
    contenders = PLAIN + (CHECKPOINTED if args.checkpointing else [])
    contenders = [c for c in contenders if not (c.torch and args.no_torch or c.compiled and args.no_compile)]
    try:
        campaign = Campaign([workload_of(args, model) for model in args.models], contenders)
        for work in campaign.works:
            work.flops()  # what cannot be counted is said before anything is measured
    except Unavailable as why:
        print(f"compare.py: {why}", file=sys.stderr)
        return 1
    run_campaign(args, campaign)
    print_report(args, campaign)
    if args.json:
        write_json(args.json, campaign)
    return 1 if campaign.missing else 0


if __name__ == "__main__":
    sys.exit(main())
