#!/usr/bin/env python3
"""Holds mode auto's plans against everything else that fits the same budget, and prints one row a model.

Budgets: what each named mode takes and even steps (`recollect estimate --pareto`), and some drawn between the least budget and
what mode full takes. Held against: every named mode that fits, dtr in that budget, auto in the smaller budgets, and plans made
here by hand: in each model's own cuts (one value of a layer saved in every layer, in every second or every third one, or in all
but a few), with each replay. --save FILE writes auto's answers, and --against FILE compares auto in the same budgets with such
answers of another program. --rest tries, one by one, each value that the answer recomputes: the largest gain of one that fits the
same budget is the useful part of what is unused. --times prints what planning takes of a processor for deep models. Nothing is
trained and nothing is measured but the planner's own processor time, so that the
figures are the same everywhere, but for that. The exit status is 1 where auto is slower than something by more than --gap.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
AC = "activation_checkpointing."
GPT2 = "model: {{type: gpt2, vocab_size: 1000, n_positions: 128, n_embd: {1}, n_layer: {0}, n_head: 4{2}}}"
BERT = (
    "task: sequence_classification\nmodel: {{type: bert, vocab_size: 1000, max_position_embeddings: 128, hidden_size: {1}, "
    "num_hidden_layers: {0}, num_attention_heads: 4, intermediate_size: {3}, num_labels: 2{2}}}"
)
LLAMA = (
    "model: {{type: llama, vocab_size: 1000, max_position_embeddings: 128, hidden_size: {1}, num_hidden_layers: {0}, "
    "num_attention_heads: 4, num_key_value_heads: 2, intermediate_size: {3}{2}}}"
)
NO_DROPOUT = ", resid_pdrop: 0.0, embd_pdrop: 0.0, attn_pdrop: 0.0"
MODELS = {
    "gpt2 6": GPT2.format(6, 64, NO_DROPOUT),
    "gpt2 12": GPT2.format(12, 64, ""),
    "gpt2 24": GPT2.format(24, 32, ""),
    "bert 4": BERT.format(4, 64, "", 256),
    "bert 8": BERT.format(8, 64, "", 256),
    "bert 12": BERT.format(12, 128, ", hidden_dropout_prob: 0.0, attention_probs_dropout_prob: 0.0", 512),
    "bert 24": BERT.format(24, 32, "", 128),
    "llama 6": LLAMA.format(6, 64, "", 172),
    "llama 12": LLAMA.format(12, 64, "", 172),
}
RUN = """
device: {{backend: cpu, threads: 1, model: {}}}
training: {{micro_batch_size: 4, max_steps: 2}}
optimizer: {{name: sgd, learning_rate: 1e-2}}
data: {{format: random, sequence_length: 128}}
"""
# The rates of the preset cpu: with the preset itself, estimates use rates measured on this machine.
DEVICE = """
version: 2
name: a cpu
gemm_f32: 210e9
gemm_bf16: 430e9
gemm_f64: 1e9
attention_f32: 130e9
attention_bf16: 130e9
vector_flops: 20e9
memory_bandwidth: 15e9
link_bandwidth: 3e9
link_latency: 20e-6
to_host_bandwidth: 6e9
to_device_bandwidth: 6e9
disk_write_bandwidth: 0.5e9
disk_read_bandwidth: 1e9
launch_overhead: 5e-6
threads: 2
"""


class Model:
    def __init__(self, binary: Path, folder: Path, name: str, yaml: str) -> None:
        self.binary, self.config = binary, folder / (name.replace(" ", "") + ".yaml")
        self.plan = folder / "plan.yaml"
        device = folder / "device.yaml"
        device.write_text(DEVICE, encoding="utf-8")
        self.config.write_text(yaml + RUN.format(device), encoding="utf-8")
        self.taken: list[tuple[int, float, str]] = []  # bytes, seconds, what

    def run(self, *words: str) -> tuple[dict | list | None, float, str]:
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        done = subprocess.run([self.binary, "estimate", self.config, *words, "--json"], capture_output=True, text=True, check=False)
        seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        return (json.loads(done.stdout) if done.returncode == 0 else None), seconds, done.stderr

    def takes(self, *words: str) -> tuple[int, float] | None:
        found, self.seconds, _ = self.run(*words)
        return (found["memory"]["arena"], found["step_seconds"]) if found else None

    def note(self, what: str, *words: str) -> None:
        if taken := self.takes(*words):
            self.taken.append((*taken, what))

    def by_hand(self) -> None:
        """Each op's value as the one that all layers save, in fewer and fewer of them."""
        text = subprocess.run([self.binary, "explain", self.config], capture_output=True, text=True, check=True).stdout
        names = [line.split(":")[0].strip() for line in text.splitlines() if re.match(r"  layer\d+/.*: device$", line)]
        count = 1 + max(int(re.match(r"layer(\d+)", name)[1]) for name in names)
        kinds = sorted({name.split("/", 1)[1] for name in names})
        cuts = [kind for kind in kinds if re.search(r"(residual|norm)$", kind)]
        for cut in cuts:
            sets = [range(first, count, stride) for stride in (1, 2, 3) for first in (0, 1)]
            sets += [[n for n in range(count) if n not in range(1, 2 * less, 2)] for less in range(1, count // 2)]
            for layers in sets:
                for replay in ("segment", "nothing", "binomial"):
                    lines = [f"  layer{n}/{cut}: device\n" for n in layers if f"layer{n}/{cut}" in names]
                    self.plan.write_text(f"replay: {replay}\nvalues:\n  layer*: recompute\n" + "".join(lines), encoding="utf-8")
                    self.note(f"{cut} in {len(lines)}, {replay}", f"{AC}plan={self.plan}")

    def useful(self, budget: int, seconds: float) -> tuple[float, int]:
        """The most seconds that one more saved value spares within the budget, and how many values were tried."""
        words = (f"{AC}mode=auto", f"{AC}memory_budget={budget}")
        done = subprocess.run([self.binary, "explain", self.config, *words], capture_output=True, text=True, check=True)
        lines = done.stdout.split("\n\n")[0].splitlines()
        start = next(number for number, line in enumerate(lines) if line.startswith("replay:"))
        spared, tried = 0.0, 0
        for number, line in enumerate(lines):
            if not line.endswith(": recompute"):
                continue
            more = [*lines[start:number], line.replace(": recompute", ": device"), *lines[number + 1 :]]
            self.plan.write_text("\n".join(more) + "\n", encoding="utf-8")
            taken = self.takes(f"{AC}plan={self.plan}")
            tried += 1
            if taken and taken[0] <= budget:
                spared = max(spared, seconds - taken[1])
        return spared, tried

    def least(self) -> int:
        _, _, error = self.run(f"{AC}mode=auto", f"{AC}memory_budget=1")
        return int(re.search(r"that works is (\d+)", error)[1])


def budgets_of(model: Model, drawn: int, source: random.Random) -> list[int]:
    rows, _, error = model.run("--pareto")
    if rows is None:
        sys.exit(error)
    full = model.takes(f"{AC}mode=full")[0]
    least = model.least()
    return sorted({row["budget"] for row in rows} | {source.randint(least, full) for _ in range(drawn)})


def compare(model: Model, name: str, args: argparse.Namespace, source: random.Random) -> float:
    budgets = budgets_of(model, args.drawn, source)
    none = model.takes()[1]
    known = args.known.get(name, [])
    budgets = sorted({*budgets, *(budget for budget, _, _ in known)})
    model.taken += [(size, seconds, "of the other program") for _, size, seconds in known]
    answers = args.answers.setdefault(name, [])
    for mode in ("none", "full", "sqrt", "recursive", "constant_memory", "selective"):
        model.note(mode, f"{AC}mode={mode}")
    for k in (2, 3, 4):
        model.note(f"every_k {k}", f"{AC}mode=every_k", f"{AC}k={k}")
    if not args.no_hand:
        model.by_hand()
    most, worst, unused, slow, better_dtr, fits = -1.0, "", [], 0.0, 0.0, 0
    useful, tried = 0.0, 0
    for budget in budgets:
        auto = model.takes(f"{AC}mode=auto", f"{AC}memory_budget={budget}")
        slow = max(slow, model.seconds)
        dtr = model.takes(f"{AC}mode=dtr", f"{AC}memory_budget={budget}")
        if auto is None:
            sys.exit(f"{name}: no plan in {budget}")
        if auto[0] > budget:
            sys.exit(f"{name}: over the budget of {budget}")
        answers.append((budget, *auto))
        others = [(seconds, what) for size, seconds, what in model.taken if size <= budget]
        others += [(dtr[1], "dtr")] if dtr else []
        seconds, what = min(others, default=(float("inf"), ""))
        gap = 100 * (auto[1] - seconds) / none
        if args.verbose:
            print(f"{name} {budget}: {100 * (auto[1] / none - 1):+.2f} %, best other {gap:+.2f} pp ({what})", file=sys.stderr)
        if gap > most:
            most, worst = gap, f"{what} in {budget}"
        fits += gap <= args.gap
        better_dtr = max(better_dtr, 100 * (dtr[1] - auto[1]) / none if dtr else 0)
        unused.append(100 * (budget - auto[0]) / budget)
        if args.rest:
            spared, values = model.useful(budget, auto[1])
            useful, tried = max(useful, 100 * spared / none), tried + values
        model.taken.append((*auto, f"auto in {budget}"))
    unused.sort()
    print(
        f"| {name} | {len(budgets)} | {fits} | {most:+.3f} ({worst}) | {better_dtr:.1f} | {unused[len(unused) // 2]:.2f} | "
        f"{unused[-1]:.2f} | {f'{useful:.3f} ({tried})' if args.rest else '-'} | {1e3 * slow:.0f} |",
        flush=True,
    )
    return most


DEEP = "model: {{type: gpt2, vocab_size: 50257, n_positions: 1024, n_embd: 768, n_head: 12, n_layer: {0}}}"


def print_times(binary: Path, folder: Path, rounds: int) -> None:
    """What mode auto takes of a processor, less what the same estimate takes without it; the median of some rounds."""
    print("| layers of a GPT-2 | on the device alone, ms | host memory is limited to 4 GiB | to name the smallest budget |")
    print("|---|---|---|---|", flush=True)
    for layers in (12, 48, 96):
        model = Model(binary, folder, f"deep {layers}", DEEP.format(layers))
        text = model.config.read_text(encoding="utf-8").replace("sgd, learning_rate: 1e-2", "adamw, learning_rate: 1e-3")
        model.config.write_text(text.replace("sequence_length: 128", "sequence_length: 512"), encoding="utf-8")
        budget = f"{AC}memory_budget={3 * model.takes()[0] // 4}"
        cases = [(), (budget,), (budget, f"{AC}host_memory_budget=4GiB"), (f"{AC}memory_budget=1MiB",)]
        took: list[list[float]] = [[] for _ in cases]
        for _ in range(rounds):
            for seconds, words in zip(took, cases):
                seconds.append(model.run(*((f"{AC}mode=auto", *words) if words else ()))[1])
        base, *rest = (sorted(seconds)[rounds // 2] for seconds in took)
        print(f"| {layers} | " + " | ".join(f"{1e3 * (seconds - base):.0f}" for seconds in rest) + " |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=ROOT / "build/cpu/recollect")
    parser.add_argument("--drawn", type=int, default=11, help="budgets between the least and full, of each model")
    parser.add_argument("--gap", type=float, default=0.1, help="percentage points of a step without recomputation")
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--no-hand", action="store_true", help="without plans made by hand")
    parser.add_argument("--save", type=Path, help="write auto's answers as JSON: budget, bytes, seconds, of each model")
    parser.add_argument("--against", type=Path, help="such a file, of another program")
    parser.add_argument("--rest", action="store_true", help="try each value that the answers recompute in what is unused")
    parser.add_argument("--times", type=int, metavar="ROUNDS", help="print planning times of deep models instead")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    if args.times:
        with tempfile.TemporaryDirectory(prefix="recollect-plans-") as folder:
            print_times(args.binary.resolve(), Path(folder), args.times)
        return 0
    args.answers, args.known = {}, json.loads(args.against.read_text(encoding="utf-8")) if args.against else {}
    print("| model | budgets | auto within the gap | slower by at most, pp | faster than dtr by at most, pp | unused, median % | most % | useful, pp (values tried) | ms |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    source, most = random.Random(7), -1.0
    with tempfile.TemporaryDirectory(prefix="recollect-plans-") as folder:
        for name, yaml in MODELS.items():
            if args.only in name:
                most = max(most, compare(Model(args.binary.resolve(), Path(folder), name, yaml), name, args, source))
            if args.save:
                args.save.write_text(json.dumps(args.answers), encoding="utf-8")
    return 1 if most > args.gap else 0


if __name__ == "__main__":
    sys.exit(main())
