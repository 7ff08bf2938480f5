#!/usr/bin/env python3
"""GPT-2 on one GPU in bf16, Recollect and PyTorch in turn: tokens/s, share of the GEMM rate, bytes; one table a model.

Always true: every number was measured by this very run, one process at a time; every round runs every contender once,
and a ratio is the median over rounds of ratios within a round. The exit status is 1 if anything is missing, never
because of a speed. Where PyTorch is not installed, Recollect is measured alone, and that is said.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
FAILURES = (subprocess.SubprocessError, OSError, ValueError, KeyError, IndexError)  # of a command, or of its output


@dataclass(frozen=True)
class Model:
    name: str
    layers: int
    hidden: int
    heads: int
    sequence: int
    micro_batch: int

    def tokens(self) -> int:
        return self.micro_batch * self.sequence

    def flops(self) -> float:
        """Of one step: 6 N T + 12 L h s T, the tied head counted once, nothing for recomputation."""
        block = 12 * self.hidden**2 + 13 * self.hidden
        parameters = 50257 * self.hidden + self.layers * block + 2 * self.hidden
        attention = 12.0 * self.layers * self.hidden * self.sequence
        return (6.0 * parameters + attention) * self.tokens()


MODELS = [Model("124M", 12, 768, 12, 1024, 32), Model("1.5B", 48, 1600, 25, 1024, 8)]


@dataclass(frozen=True)
class Contender:
    name: str
    words: tuple[str, ...] = ()  # of recollect train, or of torch_step.py
    base: str | None = None
    reach: str = ""
    torch: bool = False


def ac(**keys: str) -> tuple[str, ...]:
    return tuple(f"activation_checkpointing.{key}={value}" for key, value in keys.items())


CONTENDERS = [
    Contender("torch eager", torch=True),
    Contender("torch compile", ("--compile",), torch=True),
    Contender("torch checkpoint, compile", ("--compile", "--checkpoint"), "torch compile", torch=True),
    Contender("none", (), "torch compile", "at most 0 %"),
    Contender("selective", ac(mode="selective"), "none", "at most 5 %"),
    Contender("full", ac(mode="full"), "none", "at most 17 % (124M), 24 % (1.5B)"),
    Contender("full + host", ac(mode="full", cpu_checkpointing="true"), "full", "at most 3 % (124M), 1 % (1.5B)"),
]


@dataclass
class Row:
    seconds: dict[int, float] = field(default_factory=dict)  # round -> median of its steps
    peak_bytes: int = 0
    predicted_bytes: int = 0
    exposed_ms: float = 0.0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recollect", type=Path, required=True, help="the program, built with its CUDA backend")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--warmup", type=int, default=8)
    parser.add_argument("--models", nargs="+", default=[m.name for m in MODELS])
    parser.add_argument("--no-torch", action="store_true")
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


def run_torch(args: argparse.Namespace, model: Model, words: tuple[str, ...], row: Row, number: int) -> None:
    command = [sys.executable, str(HERE / "torch_step.py"), f"--steps={args.steps}", f"--warmup={args.warmup}"]
    command += [f"--layers={model.layers}", f"--hidden={model.hidden}", f"--heads={model.heads}"]
    command += [f"--sequence={model.sequence}", f"--micro-batch={model.micro_batch}", *words]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=900).stdout
    result = json.loads(output.splitlines()[-1])
    row.seconds[number] = statistics.median(result["seconds"])
    row.peak_bytes = max(row.peak_bytes, result["peak_bytes"])


def run_ours(args: argparse.Namespace, model: Model, words: tuple[str, ...], row: Row, number: int) -> None:
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as folder:
        config = Path(folder) / "config.yaml"
        config.write_text("model: {type: gpt2, resid_pdrop: 0, embd_pdrop: 0, attn_pdrop: 0}\ndevice: {backend: cuda}\n")
        command = [str(args.recollect), "train", str(config), "training.precision=bf16", "data.format=random"]
        command += [f"model.n_layer={model.layers}", f"model.n_embd={model.hidden}", f"model.n_head={model.heads}"]
        command += [f"model.n_positions={model.sequence}", f"training.micro_batch_size={model.micro_batch}"]
        command += [f"training.max_steps={args.warmup + args.steps}", f"output_dir={folder}/run", *words]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=900)
        lines = (Path(folder) / "run/metrics.jsonl").read_text(encoding="utf-8").splitlines()
        memory = json.loads((Path(folder) / "run/memory.rank0.json").read_text(encoding="utf-8"))
    row.seconds[number] = statistics.median(json.loads(line)["step_seconds"] for line in lines[args.warmup :])
    row.peak_bytes = memory["measured"]["arena"]
    row.predicted_bytes = memory["predicted"]["arena"]
    row.exposed_ms = 1e3 * memory["step"]["measured"]["exposed"]


def cost(row: Row, base: Row) -> float | None:
    ratios = [row.seconds[n] / base.seconds[n] - 1 for n in row.seconds if n in base.seconds]
    return statistics.median(ratios) if ratios else None


def print_table(model: Model, rows: dict[str, Row], contenders: list[Contender], gemm: float) -> None:
    print(f"\nGPT-2 {model.name}, sequence {model.sequence}, micro-batch {model.micro_batch}, bf16\n")
    print("| what | ms/step | tokens/s | model TFLOP/s | of GEMM rate | against | time | reach | exposed, ms | GiB |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for contender in contenders:
        row = rows[contender.name]
        if not row.seconds:
            print(f"| {contender.name} |" + " - |" * 9)
            continue
        seconds = statistics.median(row.seconds.values())
        rate = model.flops() / seconds / 1e12
        extra = cost(row, rows[contender.base]) if contender.base in rows else None
        cells = [contender.name, f"{1e3 * seconds:.2f}", f"{model.tokens() / seconds:.0f}", f"{rate:.0f}"]
        cells += [f"{100 * rate / gemm:.0f} %" if gemm else "-"]
        cells += [contender.base or "-", f"{100 * extra:+.1f} %" if extra is not None else "-", contender.reach or "-"]
        cells += ["-" if contender.torch else f"{row.exposed_ms:.2f}", f"{row.peak_bytes / 2**30:.2f}"]
        print("| " + " | ".join(cells) + " |")


def main() -> int:
    args = parse_arguments()
    absent = "it is left out (--no-torch)" if args.no_torch else why_no_torch()
    contenders = [c for c in CONTENDERS if not (absent and c.torch)]
    missing = []
    gemm = 0.0
    if absent:
        print(f"Without PyTorch: {absent}")
    else:
        try:
            gemm = gemm_tflops()
        except FAILURES as error:
            missing.append(f"the GEMM rate: {reason(error)}")
    for model in [m for m in MODELS if m.name in args.models]:
        rows = {c.name: Row() for c in contenders}
        for number in range(args.rounds):
            for contender in contenders:
                run = run_torch if contender.torch else run_ours
                try:
                    run(args, model, contender.words, rows[contender.name], number)
                except FAILURES as error:
                    missing.append(f"{model.name} {contender.name}, round {number + 1}: {reason(error)}")
        print_table(model, rows, contenders, gemm)
    if gemm:
        print(f"\nGEMM rate, bf16, 8192 cubed: {gemm:.0f} TFLOP/s.")
    print(f"\n{args.rounds} rounds of {args.steps} steps after {args.warmup} to warm up.")
    for text in missing:
        print(f"Not measured: {text}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
