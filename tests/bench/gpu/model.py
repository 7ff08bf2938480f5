#!/usr/bin/env python3
"""What GPT-2's training step would take on one H100, by bytes, products and launches; and what each pass over memory costs.

    model.py [--recollect PROGRAM] [--model 124M|1.5B]

Always true: nothing here was measured on a GPU by this program. The ops of a step, their bytes and their arithmetic are
what `recollect estimate --trace` says of the program as it is; how many kernels an op takes is KERNELS, which
tests/parallel/emulated/test_launches.cpp holds the backend to. What such sums cannot know is taken from two figures that
llm.c has published, in two ways: all of it is the products' ("products"), or everything is slower alike ("everything").
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUDGET = ROOT / "tests/parallel/emulated/test_launches.cpp"
VOCABULARY, PADDED_VOCABULARY, TOKENS_OF_SAMPLE = 50257, 50304, 1024

# The preset h100 of checkpointing/device_model.cpp, which the trace was reckoned with.
PRODUCTS, ATTENTION, BANDWIDTH, LAUNCH, LINK = 790e12, 420e12, 2.8e12, 2e-6, 370e9

# How many kernels of ours or of a library an op kind takes; 1 where it is not named. Sums over rows take one more, which
# adds up the blocks' parts. Of the fused attention's backward, what cuDNN is taken to launch.
KERNELS = {
    "column_sum": 2,
    "bias_gelu_backward": 2,
    "bias_dropout_add_backward": 2,
    "layer_norm_backward": 2,
    "rms_norm_backward": 2,
    "attention_backward": 2,
}
UNITS = {"linear": "products", "attention": "attention", "lm_head_loss": "products"}


@dataclass(frozen=True)
class Model:
    name: str
    layers: int
    hidden: int
    heads: int
    samples: int  # of a micro-batch, llm.c's
    micro_batches: int  # of llm.c's step on each of its eight GPUs
    published: float  # llm.c's tokens/s on each of them
    gelu_in_product: bool  # llm.c's forward, as the published run had it
    product_rate: float  # that large products of this width are known to reach

    @property
    def tokens(self) -> int:
        return self.samples * TOKENS_OF_SAMPLE

    @property
    def parameters(self) -> int:
        return PADDED_VOCABULARY * self.hidden + self.layers * (12 * self.hidden**2 + 13 * self.hidden)


# llm.c published 140 ms for 524,288 tokens, and 2.80 s for 1,048,576, on eight H100s. Rates of products are an assumption,
# of which the calibration "products" makes no use.
MODELS = [
    Model("124M", 12, 768, 12, 64, 1, 468e3, False, 600e12),
    Model("1.5B", 48, 1600, 25, 16, 8, 46.8e3, True, 660e12),
]


@dataclass(frozen=True)
class Work:
    """Of one step: seconds are those of the preset's rates, launches a number."""

    flops: float = 0  # of products
    attention: float = 0  # seconds
    bytes: float = 0
    launches: float = 0
    other: float = 0  # seconds that no rate here changes

    def __add__(self, more: Work) -> Work:
        return Work(*(getattr(self, f) + getattr(more, f) for f in self.__dataclass_fields__))

    def times(self, factor: float) -> Work:
        return Work(*(getattr(self, f) * factor for f in self.__dataclass_fields__))


@dataclass(frozen=True)
class Rates:
    products: float
    slower: float = 1  # everything, by this factor

    def seconds(self, work: Work) -> float:
        streamed = work.bytes / BANDWIDTH + work.launches * LAUNCH
        return self.slower * (work.flops / self.products + work.attention + streamed) + work.other


@dataclass(frozen=True)
class Pass:
    """What a layer saves, where it is not part of the program: bytes per token and channel, and launches."""

    name: str
    bytes: float = 0
    launches: float = 0
    of_logits: float = 0  # bytes per token and vocabulary entry, outside the layers
    made_by: str = ""  # the op kind that shows that the program has it


PASSES = [
    Pass("residual and norm in one pass", 4, 2, made_by="residual_norm"),
    Pass("biases by products (BGRADB), where faster", 10, 6),  # all but GELU's; the program sees when it runs
    Pass("loss: logits read once, where faster", of_logits=2),  # as that of biases
]
# What is left with device.gelu_in_products, whose traces have GELU (GELU_AUX_BIAS) and its gradient (DGELU) in products. The
# bias's gradient is then one more of those that products may make.
PASSES_OF_GELU = [PASSES[0], replace(PASSES[1], bytes=18, launches=8), PASSES[2]]


def trace_of(program: str, model: Model, gelu_in_products: bool) -> list[dict]:
    """Ops of one step with one micro-batch, as the program predicts them."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        words = [
            f"model.n_layer={model.layers}",
            f"model.n_embd={model.hidden}",
            f"model.n_head={model.heads}",
            f"training.micro_batch_size={model.samples}",
            f"data.sequence_length={TOKENS_OF_SAMPLE}",
            "training.precision=bf16",
            "device.backend=cuda",
            "device.model=h100",
            f"device.gelu_in_products={str(gelu_in_products).lower()}",
        ]
        command = [program, "estimate", str(ROOT / "configs/gpt2-124m.yaml"), *words, "--trace", str(trace)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=300)
        events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    ops = [event for event in events if event.get("cat") == "op"]
    for op in ops:
        op["biased"] = biased(op["args"]["kind"], op["name"], gelu_in_products)
    return ops


def unit_of(kind: str) -> str:
    return next((unit for prefix, unit in UNITS.items() if kind.startswith(prefix)), "memory")


def work_of(op: dict, model: Model) -> Work:
    kind = op["args"]["kind"]
    busy = max(0.0, op["dur"] * 1e-6 - LAUNCH)
    launches = KERNELS.get(kind, 1)
    if kind == "lm_head_loss":  # three products for each piece of rows, and three passes over the logits
        logits = model.tokens * PADDED_VOCABULARY
        return Work(flops=6.0 * logits * model.hidden, bytes=3 * 2 * logits, launches=4 * model.tokens / 1024)
    unit = unit_of(kind)
    if unit == "products":
        if kind == "linear_backward_input_gelu":  # which reads what GELU was made of, 4 times the hidden size
            return Work(flops=busy * PRODUCTS, bytes=model.tokens * model.hidden * 2 * 4, launches=launches)
        if not op["biased"]:
            return Work(flops=busy * PRODUCTS, launches=launches)
        if kind in ("linear", "linear_gelu"):  # the bias is rounded first; what GELU is made of is written as llm.c writes it
            return Work(flops=busy * PRODUCTS, launches=launches + 1)
        # Times the hidden size: what a pass for the sums would read.
        summed = next((times for part, times in {"/qkv": 3, "/fc1": 4}.items() if part in op["name"]), 1)
        of_bias = model.tokens * model.hidden * 2 * summed
        return Work(flops=busy * PRODUCTS, bytes=of_bias, launches=launches + 2)
    if unit == "attention":
        return Work(attention=busy, launches=launches)
    return Work(bytes=busy * BANDWIDTH, launches=launches)


def biased(kind: str, name: str, gelu_in_products: bool) -> bool:
    """With GPT-2 that is the projection to queries, keys and values, whose product adds the bias, and one that ends with GELU.
    The gradients of the biases that other ops add behind products are sums of what the gradients of those products' weights
    read; GELU's, where it is an op of its own, makes that of its bias."""
    if kind == "linear_backward_weight":
        return gelu_in_products or "/fc1" not in name
    return kind == "linear_gelu" or ("/qkv" in name and kind == "linear")


def total(ops: Iterable[dict], model: Model) -> Work:
    result = Work()
    for op in ops:
        result = result + work_of(op, model)
    return result


def layer_of(ops: list[dict], number: int) -> list[dict]:
    return [op for op in ops if op["args"].get("layer") == number]


def llm_c(model: Model, ours: Work) -> Work:
    """llm.c's step on one of eight GPUs: our products and attention, its own passes over memory (its sources, 2024)."""
    token_channels = model.tokens * model.hidden
    forward = 2 * 8 + (0 if model.gelu_in_product else 16)  # residuals with norms; GELU
    backward = 24 + 18 + 2 * 8  # GELU, four biases, norms
    launches = 30 - model.gelu_in_product
    layers = Work(bytes=model.layers * token_channels * (forward + backward), launches=model.layers * launches)
    head = Work(bytes=3 * 2 * model.tokens * PADDED_VOCABULARY + 20 * token_channels, launches=20)
    micro_batch = replace(ours, bytes=0, launches=0, other=0) + layers + head
    update = Work(bytes=model.parameters * (28 / 8 + 2), launches=40, other=2 * 2 * model.parameters * 7 / 8 / LINK)
    return micro_batch.times(model.micro_batches) + update


def calibrations(model: Model, theirs: Work) -> dict[str, Rates]:
    """Rates at which llm.c's step takes the time that is published."""
    seconds = model.micro_batches * model.tokens / model.published
    rest = Rates(float("inf")).seconds(theirs)
    if rest >= seconds:
        raise ValueError(f"{model.name}: llm.c's passes over memory alone would take longer than its step")
    products = Rates(theirs.flops / (seconds - rest))
    known = Rates(model.product_rate)
    factor = (seconds - theirs.other) / (known.seconds(theirs) - theirs.other)
    return {"products": products, "everything": Rates(model.product_rate, factor)}


def budget() -> int:
    """Launches of a GPT-2 layer without dropout, as the test of launches has it."""
    found = re.search(r'"gpt2", 0, (\d+)', BUDGET.read_text(encoding="utf-8"))
    if not found:
        raise ValueError(f"{BUDGET}: no budget of gpt2's launches")
    return int(found.group(1))


def saved(step: Work, one: Pass, model: Model) -> Work:
    bytes_saved = model.layers * model.tokens * model.hidden * one.bytes
    bytes_saved += one.of_logits * model.tokens * PADDED_VOCABULARY
    return step + Work(bytes=-bytes_saved, launches=-model.layers * one.launches)


def layer_row(ops: list[dict], model: Model, middle: int) -> tuple[float, float]:
    """Launches of a layer, and bytes per token and channel outside of products and attention."""
    layer = layer_of(ops, middle)
    work = total(layer, model)
    return work.launches, work.bytes / (model.tokens * model.hidden)


def report(model: Model, ops: list[dict], with_gelu: list[dict]) -> None:
    step = total(ops, model)
    rates = calibrations(model, llm_c(model, total((op for op in ops if unit_of(op["args"]["kind"]) != "memory"), model)))
    launches, of_layer = layer_row(ops, model, model.layers // 2)
    print(f"\nGPT-2 {model.name}, {model.samples} x {TOKENS_OF_SAMPLE} tokens, one micro-batch, bf16, one H100: predicted")
    print("calibrated on llm.c's published " + f"{model.published / 1e3:g} k tokens/s:")
    for name, rate in rates.items():
        slower = f", everything {rate.slower:.2f} times slower than the preset" if rate.slower != 1 else ""
        print(f"  {name}: products at {rate.products / 1e12:.0f} TFLOP/s{slower}")
    print(f"\n{'':48}{'launches':>9}{'B per token':>13}{'k tokens/s':>12}{'k tokens/s':>12}")
    print(f"{'':48}{'a layer':>9}{'and channel':>13}{'products':>12}{'everything':>12}")
    kinds = {op["args"]["kind"] for op in ops}

    def row(name: str) -> None:
        speeds = "".join(f"{model.tokens / rate.seconds(step) / 1e3:12.1f}" for rate in rates.values())
        print(f"{name:48}{launches:9.0f}{of_layer:13.1f}{speeds}")

    row("the program as it is")
    for one in PASSES:
        if one.made_by in kinds:
            print(f"{'  has: ' + one.name}")
            continue
        step = saved(step, one, model)
        launches, of_layer = launches - one.launches, of_layer - one.bytes
        row("  + " + one.name)
    step = total(with_gelu, model)
    launches, of_layer = layer_row(with_gelu, model, model.layers // 2)
    row("with device.gelu_in_products")
    left = [one for one in PASSES_OF_GELU if one.made_by not in kinds]
    for one in left:
        step = saved(step, one, model)
        launches, of_layer = launches - one.launches, of_layer - one.bytes
    row("  + both of the above")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recollect", default=str(ROOT / "build/cuda/recollect"), help="the program")
    parser.add_argument("--model", choices=[model.name for model in MODELS], help="one alone")
    options = parser.parse_args()
    for model in MODELS:
        if options.model in (None, model.name):
            report(model, *(trace_of(options.recollect, model, gelu) for gelu in (False, True)))
    print(f"\na layer's budget in {BUDGET.relative_to(ROOT)}: {budget()} launches, where a product makes its bias's sums and is one")
    return 0


if __name__ == "__main__":
    sys.exit(main())
