#!/usr/bin/env python3
"""Trains GPT-2 124M for a few steps in Recollect and in PyTorch, alternating, and prints one markdown table.

Always true: both sides run the same number of warm-up and timed steps of the same token count on the same
threads, one process at a time; every number in the table was measured by this very run; what could not be
measured stands as "-" and the reason is printed below the table. The exit status is 1 if anything is missing,
never because of a speed.
"""

from __future__ import annotations

import argparse
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

ROOT = Path(__file__).resolve().parents[2]
GIB = 2.0**30

# GPT-2 124M as configs/gpt2-124m.yaml and torch_gpt2.py's defaults have it.
LAYERS, HIDDEN, HEADS, VOCAB, SEQUENCE, MICRO_BATCH = 12, 768, 12, 50257, 512, 2
TOKENS = SEQUENCE * MICRO_BATCH

OURS = "recollect"
EAGER = "torch eager"
COMPILED = "torch compile"

COLUMNS = [
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


def matmul_parameters() -> int:
    """Parameters that count in the 6 N T formula: the tied head once, the position table not at all."""
    block = 12 * HIDDEN * HIDDEN + 13 * HIDDEN
    return VOCAB * HIDDEN + LAYERS * block + 2 * HIDDEN


def model_flops() -> float:
    """Model FLOPs of one training step: 6 N T + 12 L h s T. Recomputation and the optimizer earn nothing."""
    return 6.0 * matmul_parameters() * TOKENS + 12.0 * LAYERS * HIDDEN * SEQUENCE * TOKENS


@dataclass
class Measured:
    """What all rounds of one contender at one precision gave; seconds are those of the timed steps."""

    seconds: list[float] = field(default_factory=list)
    peak_bytes: list[int] = field(default_factory=list)
    growth_bytes: list[int] = field(default_factory=list)

    def median(self) -> float | None:
        return statistics.median(self.seconds) if self.seconds else None

    def peak(self) -> int | None:
        return max(self.peak_bytes, default=None)


class Unavailable(Exception):
    """Something that could not be measured; the text says why."""


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--build", type=Path, default=ROOT / "build/cpu", help="holds recollect and bench_gemm"
    )
    parser.add_argument("--config", type=Path, default=ROOT / "configs/gpt2-124m.yaml")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5, help="timed steps per run")
    parser.add_argument("--warmup", type=int, default=2, help="untimed steps before them, on both sides")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--precisions", nargs="+", choices=["fp32", "bf16"], default=["fp32", "bf16"])
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--no-torch", action="store_true", help="our side only")
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds for one run")
    parser.add_argument("--json", type=Path, help="also write every measured number here")
    parser.add_argument("overrides", nargs="*", help="further key=value for recollect train")
    args = parser.parse_args()
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


def run_ours(args: argparse.Namespace, precision: str, into: Measured) -> None:
    binary = args.build / "recollect"
    for needed in (binary, args.config):
        if not needed.exists():
            raise Unavailable(f"{needed} does not exist")
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as output:
        command = [str(binary), "train", str(args.config), f"training.precision={precision}"]
        command += [f"training.max_steps={args.warmup + args.steps}", f"device.threads={args.threads}"]
        command += [f"output_dir={output}", *args.overrides]
        _, peak = run_child(command, args.threads, args.timeout)
        lines = (Path(output) / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    steps = [json.loads(line) for line in lines]
    if len(steps) != args.warmup + args.steps:
        raise Unavailable(f"recollect wrote {len(steps)} steps instead of {args.warmup + args.steps}")
    if any(step["tokens"] != TOKENS for step in steps):
        raise Unavailable(
            f"recollect's step has {steps[0]['tokens']} tokens, PyTorch's {TOKENS}: not equal work"
        )
    into.seconds += [step["step_seconds"] for step in steps[args.warmup :]]
    into.peak_bytes.append(peak)


def run_torch(args: argparse.Namespace, precision: str, into: Measured, *, compiled: bool) -> None:
    command = [sys.executable, str(Path(__file__).with_name("torch_gpt2.py")), "--precision", precision]
    command += ["--steps", str(args.steps), "--warmup", str(args.warmup), "--threads", str(args.threads)]
    command += [
        "--layers",
        str(LAYERS),
        "--hidden",
        str(HIDDEN),
        "--heads",
        str(HEADS),
        "--vocab",
        str(VOCAB),
    ]
    command += ["--sequence", str(SEQUENCE), "--micro-batch", str(MICRO_BATCH)]
    output, _ = run_child(command + (["--compile"] if compiled else []), args.threads, args.timeout)
    result = json.loads(output.splitlines()[-1])
    into.seconds += result["seconds"]
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

    measured: dict[tuple[str, str], Measured] = field(default_factory=dict)
    gemm: dict[str, float] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def miss(self, what: str, why: Unavailable) -> None:
        text = f"{what}: {why}"
        if text not in self.missing:
            self.missing.append(text)


def run_campaign(args: argparse.Namespace, contenders: list[str]) -> Campaign:
    """Round by round, precision by precision, every contender in turn, so that a slow spell hits them all."""
    campaign = Campaign()
    for round_number in range(args.rounds):
        try:
            for precision, rate in measure_gemm(args).items():
                campaign.gemm[precision] = max(rate, campaign.gemm.get(precision, 0.0))
        except Unavailable as why:
            campaign.miss("GEMM rate", why)
        for precision in args.precisions:
            for name in contenders:
                into = campaign.measured.setdefault((name, precision), Measured())
                before = len(into.seconds)
                try:
                    if name == OURS:
                        run_ours(args, precision, into)
                    else:
                        run_torch(args, precision, into, compiled=name == COMPILED)
                except Unavailable as why:
                    campaign.miss(f"{name} {precision}", why)
                seconds = into.seconds[before:]
                shown = f"{statistics.median(seconds):.3f} s" if seconds else "nothing measured"
                load = os.getloadavg()[0]
                print(
                    f"round {round_number + 1} {precision} {name}: {shown}, load {load:.1f}", file=sys.stderr
                )
    return campaign


def table_row(campaign: Campaign, name: str, precision: str, best: float | None, low: int | None) -> str:
    """One contender's line; `best` and `low` are torch's best median and smallest peak at this precision."""
    measured = campaign.measured[name, precision]
    median, peak = measured.median(), measured.peak()
    rate = campaign.gemm.get(precision)
    cells = [precision, name]
    cells.append(f"{median:.3f}" if median else "-")
    cells.append(f"{min(measured.seconds):.3f}-{max(measured.seconds):.3f}" if median else "-")
    cells.append(f"{best / median:.2f}x" if best and median else "-")
    cells.append(f"{model_flops() / median / 1e9:.0f}" if median else "-")
    cells.append(f"{100 * model_flops() / median / 1e9 / rate:.0f} %" if median and rate else "-")
    cells.append(f"{peak / GIB:.2f}" if peak else "-")
    cells.append(f"{peak / low:.2f}x" if peak and low else "-")
    cells.append(f"{max(measured.growth_bytes) / GIB:.2f}" if measured.growth_bytes else "-")
    return "| " + " | ".join(cells) + " |"


def print_report(args: argparse.Namespace, campaign: Campaign, contenders: list[str]) -> None:
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + "---|" * len(COLUMNS))
    for precision in args.precisions:
        torch_side = [campaign.measured[name, precision] for name in contenders if name != OURS]
        best = min((median for m in torch_side if (median := m.median())), default=None)
        low = min((peak for m in torch_side if (peak := m.peak())), default=None)
        for name in contenders:
            print(table_row(campaign, name, precision, best, low))
    print()
    n = matmul_parameters()
    print(f"Model FLOPs per step: {model_flops():.4g} (6 N T + 12 L h s T, N = {n}, T = {TOKENS}).")
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
    runs = [{"what": n, "precision": p, **vars(m)} for (n, p), m in campaign.measured.items()]
    everything = {"runs": runs, "gemm_gflops": campaign.gemm, "model_flops": model_flops()}
    everything["missing"] = campaign.missing
    path.write_text(json.dumps(everything, indent=2) + "\n", encoding="utf-8")


def main() -> int:
    args = parse_arguments()
    contenders = [OURS]
    if not args.no_torch:
        contenders += [EAGER] + ([] if args.no_compile else [COMPILED])
    campaign = run_campaign(args, contenders)
    print_report(args, campaign, contenders)
    if args.json:
        write_json(args.json, campaign)
    return 1 if campaign.missing else 0


if __name__ == "__main__":
    sys.exit(main())
