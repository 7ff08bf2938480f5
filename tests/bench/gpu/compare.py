#!/usr/bin/env python3
"""Training on one GPU, Recollect and others in turn: tokens/s, share of the GEMM rate, bytes; one table a model.

GPT-2 in bf16 against PyTorch and, where its folder is given, llm.c; BERT-large against Hugging Face's Trainer; Qwen2.5 against
llmq, where its folder is given.

Always true: every number was measured by this very run, one process at a time; every round runs every contender once,
and a ratio is the median over rounds of ratios within a round. The exit status is 1 if anything is missing, never
because of a speed. Where PyTorch is not installed, Recollect is measured alone, and that is said.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from peers import MODELS, Bench, Contender, Model, Row, command_of, llmq_steps, prepare, read

HERE = Path(__file__).resolve().parent
FAILURES = (subprocess.SubprocessError, OSError, ValueError, KeyError, IndexError)  # of a command, or of its output
LIMIT = 900  # seconds of a command


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recollect", type=Path, required=True, help="the program, built with its CUDA backend")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--warmup", type=int, default=8)
    parser.add_argument("--models", nargs="+", choices=[m.name for m in MODELS], help="default: all that have somebody to compare with")
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--llmc", type=Path, metavar="FOLDER", help="of llm.c's train_gpt2cu")
    parser.add_argument("--llmq", type=Path, metavar="FOLDER", help="of llmq's train")
    parser.add_argument("--dry-run", action="store_true", help="print the commands, and run none")
    return parser.parse_args()


def why_no_torch() -> str:
    """What Python says where PyTorch or Transformers cannot be imported; "" where both can."""
    command = [sys.executable, "-c", "import torch, transformers"]
    said = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    return said.stderr.strip().splitlines()[-1] if said.returncode else ""


def gemm_tflops() -> float:
    """The rate of bf16 products of 8192 cubed, measured now."""
    command = [sys.executable, str(HERE / "torch_step.py"), "--gemm"]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    return json.loads(output.splitlines()[-1])["gemm_tflops"]


def reason(error: Exception) -> str:
    """The end of what a command that failed has said."""
    said = getattr(error, "stderr", None) or str(error)
    if isinstance(said, bytes):  # of one that took too long
        said = said.decode(errors="replace")
    return said.strip()[-500:]


def output_until(command: list[str], steps: int, folder: Path) -> str:
    """What llmq prints up to so many steps: it would go on to evaluate and to save the model."""
    with (folder / "errors").open("w+", encoding="utf-8") as errors:
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=folder)
        output = ""
        with running:
            for line in running.stdout:
                output += line
                if len(llmq_steps(output)) >= steps:
                    running.kill()
                    return output
        errors.seek(0)
        raise subprocess.CalledProcessError(running.returncode, command, output, errors.read())


def run(bench: Bench, model: Model, contender: Contender, row: Row, number: int) -> None:
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as name:
        folder = Path(name)
        prepare(model, contender, folder)
        command = command_of(bench, model, contender, folder)
        if contender.peer == "llmq":
            output = output_until(command, bench.warmup + bench.steps, folder)
        else:
            done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=LIMIT, cwd=folder)
            output = done.stdout
        read(bench, contender, folder, output, row, number)


def cost(row: Row, base: Row) -> float | None:
    ratios = [row.seconds[n] / base.seconds[n] - 1 for n in row.seconds if n in base.seconds]
    return statistics.median(ratios) if ratios else None


def print_table(model: Model, rows: dict[str, Row], contenders: list[Contender], gemm: float) -> None:
    print(f"\n{model.title}\n")
    print("| what | ms/step | tokens/s | model TFLOP/s | of GEMM rate | against | time | reach | exposed, ms | GiB |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for contender in contenders:
        row = rows[contender.name]
        if not row.seconds:
            print(f"| {contender.name} |" + " - |" * 9)
            continue
        seconds = statistics.median(row.seconds.values())
        rate = model.flops / seconds / 1e12
        extra = cost(row, rows[contender.base]) if contender.base in rows else None
        cells = [contender.name, f"{1e3 * seconds:.2f}", f"{model.tokens / seconds:.0f}", f"{rate:.0f}"]
        cells += [f"{100 * rate / gemm:.0f} %" if gemm else "-"]
        cells += [contender.base or "-", f"{100 * extra:+.1f} %" if extra is not None else "-", contender.reach or "-"]
        cells += ["-" if contender.peer else f"{row.exposed_ms:.2f}"]
        cells += [f"{row.peak_bytes / 2**30:.2f}" if row.peak_bytes else "-"]
        print("| " + " | ".join(cells) + " |")


def measure(bench: Bench, model: Model, contenders: list[Contender], rounds: int, missing: list[str]) -> dict[str, Row]:
    rows = {c.name: Row() for c in contenders}
    for number in range(rounds):
        runs = {}  # what has run in this round: two contenders may be one command with two to compare with
        for contender in contenders:
            same = runs.setdefault((contender.peer, contender.words), contender.name)
            if same != contender.name:
                rows[contender.name] = rows[same]
                continue
            try:
                run(bench, model, contender, rows[contender.name], number)
            except FAILURES as error:
                missing.append(f"{model.name} {contender.name}, round {number + 1}: {reason(error)}")
    return rows


def main() -> int:
    args = parse_arguments()
    absent = "it is left out (--no-torch)" if args.no_torch else "" if args.dry_run else why_no_torch()
    bench = Bench(args.recollect.absolute(), *(f and f.absolute() for f in (args.llmc, args.llmq)), args.steps, args.warmup)

    def takes_part(peer: str) -> bool:
        return bench.has(peer) and not (absent and peer in ("torch", "trainer"))

    models = [m for m in MODELS if (m.name in args.models if args.models else takes_part(m.needs))]
    missing: list[str] = []
    gemm = 0.0
    if absent:
        print(f"Without PyTorch: {absent}")
    elif not args.dry_run:
        try:
            gemm = gemm_tflops()
        except FAILURES as error:
            missing.append(f"the GEMM rate: {reason(error)}")
    for model in models:
        contenders = [c for c in model.contenders if takes_part(c.peer)]
        contenders = [c for c in contenders if c.base != "llm.c" or takes_part("llmc")]
        if args.dry_run:
            print(f"\n{model.title}")
            for c in contenders:
                print(f"{c.name}: {shlex.join(command_of(bench, model, c, Path('FOLDER')))}")
            continue
        print_table(model, measure(bench, model, contenders, args.rounds, missing), contenders, gemm)
    if args.dry_run:
        return 0
    if gemm:
        print(f"\nGEMM rate, bf16, 8192 cubed: {gemm:.0f} TFLOP/s.")
    print(f"\n{args.rounds} rounds of {args.steps} steps after {args.warmup} to warm up.")
    for text in missing:
        print(f"Not measured: {text}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
