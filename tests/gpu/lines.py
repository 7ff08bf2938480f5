"""The lines of check.py: what each runs, how long that may take, and what it holds of the device.

Always true: a line raises Wrong, or what it says is so. Trainings are of tiny models, whose losses and gradient norms are
compared digit by digit.
"""

from __future__ import annotations

import json
import re
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from check import Check

SHARE = Path(__file__).resolve().parent


class Wrong(Exception):
    """A line failed."""


@dataclass
class Place:
    """Where one line runs."""

    check: Check
    folder: Path
    log: Path
    end: float  # of its time
    cache: str

    def run(self, *command: str, **environment: str) -> None:
        left = self.end - time.monotonic()
        if status := self.check.run(list(command), left, self.log, self.cache, **environment):
            raise Wrong(f"status {status}: {' '.join(command)[-300:]}")

    def recollect(self, *words: str) -> None:
        self.run(self.check.recollect, *words)

    def train(self, name: str, *words: str, ranks: int = 1, config: str = "tiny.yaml") -> list[tuple[str, str]]:
        """Losses and gradient norms of every step, as they are written."""
        output = self.folder / name
        launch = ["run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
        source = config if "/" in config else str(SHARE / config)
        self.recollect(*launch, "train", source, f"device.backend={self.check.backend}", f"output_dir={output}", *words)
        text = (output / "metrics.jsonl").read_text(encoding="utf-8")
        steps = re.findall(r'"loss": ([^,}]+).*?"grad_norm": ([^,}]+)', text)
        if not steps:
            raise Wrong(f"{name} has no steps: {text[:200]}")
        return steps

    def same(self, what: str, one: object, other: object) -> None:
        if one != other:
            raise Wrong(f"{what} differs: {one} and {other}")

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")


@dataclass
class Line:
    name: str
    body: Callable[[Place], None]
    seconds: float = 15  # what it took on an H200: the longest begin first
    memory: float = 6  # GiB of the device at most, with CUDA's own
    cores: float = 1
    limit: float = 150
    alone: bool = False
    trains: bool = True  # with `recollect` alone, and so on a CPU too

    def file(self) -> str:
        return re.sub(r"[^a-z0-9]+", "_", self.name.lower())


def tests(pattern: str) -> Callable[[Place], None]:
    """Tests of the bundle. One that skips itself here, or a pattern that no test is called by, is a failure."""

    def body(place: Place, *launcher: str, **environment: str) -> None:
        place.run(*launcher, place.check.tests, "--gtest_brief=1", f"--gtest_filter={pattern}", **environment)
        if not re.search(r"\[  PASSED  \] [1-9]", place.said()) or "[  SKIPPED ]" in place.said():
            raise Wrong("a test was skipped, or there is none of that name")

    return body


def sanitizer(tool: str, pattern: str) -> Callable[[Place], None]:
    def body(place: Place) -> None:
        toolkits = sorted(Path("/usr/local").glob("cuda*/bin/compute-sanitizer"))
        program = shutil.which("compute-sanitizer") or (str(toolkits[0]) if toolkits else "")
        if not program:
            raise Wrong("compute-sanitizer is not installed")
        # Our kernels; what cuBLASLt tries, and what libraries ask the driver in vain, is not ours.
        ours = ["--kernel-name", "kns=recollect", "--report-api-errors", "no", "--error-exitcode", "1"]
        tests(pattern)(place, program, "--tool", tool, *ours, RECOLLECT_UNTIMED="1")  # type: ignore[call-arg]

    return body


FULL = ("activation_checkpointing.mode=full",)
HOST = (*FULL, "activation_checkpointing.cpu_checkpointing=true")
SELECTIVE = ("activation_checkpointing.mode=selective", "activation_checkpointing.cpu_checkpointing=true")


def modes(*words: str, config: str = "tiny.yaml", ranks: int = 1) -> Callable[[Place], None]:
    """Whatever is checkpointed: the same losses and gradient norms."""

    def body(place: Place) -> None:
        none = place.train("none", *words, config=config, ranks=ranks)
        for mode in (FULL, HOST, SELECTIVE):
            moved = place.train("moved" + str(len(mode)) + mode[0][-4:], *words, *mode, config=config, ranks=ranks)
            place.same(" ".join(mode), none, moved)

    return body


def nccl(place: Place) -> None:
    two = ("parallelism.tensor_parallel_size=2",)
    plain = place.train("plain", *two, ranks=2)
    for mode in ("full", "selective"):
        for partition in ("false", "true"):
            for host in ("false", "true"):
                words = (f"mode={mode}", f"partition_activations={partition}", f"cpu_checkpointing={host}")
                keys = [f"activation_checkpointing.{word}" for word in words]
                place.same(" ".join(words), plain, place.train("_".join(words), *two, *keys, ranks=2))


def zero(place: Place) -> None:
    two = ("parallelism.data_parallel_size=2", "optimizer.max_grad_norm=0")
    whole = [loss for loss, _ in place.train("whole", *two, ranks=2)]
    for stage in (1, 2, 3):
        steps = place.train(f"stage{stage}", *two, f"parallelism.zero_stage={stage}", ranks=2)
        place.same(f"zero_stage {stage}", whole, [loss for loss, _ in steps])


def offload(place: Place) -> None:
    elsewhere = ["optimizer.offload=host"]
    if place.check.backend == "cpu":  # where states are in the host's memory already
        elsewhere = ["optimizer.offload=disk", f"optimizer.offload_path={place.folder}"]
    place.same("optimizer.offload", place.train("inside"), place.train("elsewhere", *elsewhere))


def evaluation(place: Place) -> None:
    words = ("evaluation.every_steps=5", "evaluation.batches=2")
    place.same("full and host", place.train("none", *words), place.train("host", *words, *HOST))
    losses = [re.findall(r'"eval_loss": ([^,}]+)', (place.folder / name / "metrics.jsonl").read_text(encoding="utf-8"))
              for name in ("none", "host")]  # fmt: skip
    if len(losses[0]) < 2:
        raise Wrong("no evaluation is in the metrics")
    place.same("the evaluations' losses", *losses)


def resume(place: Place) -> None:
    whole = place.train("whole", "snapshot.every_steps=0")
    half = place.train("half", "snapshot.every_steps=5", "training.max_steps=5", "scheduler.name=constant")
    place.same("the first half", whole[:5], half)
    place.same("after a snapshot", whole, place.train("half", "snapshot.every_steps=5", "scheduler.name=constant"))


def generate(place: Place) -> None:
    text = place.folder / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 200, encoding="utf-8")
    place.train("model", "data.format=text", f"data.path={text}", "model.vocab_size=256", "checkpoint.save_model=true")
    for backend in {place.check.backend, "cpu"}:
        place.recollect("generate", "--model", str(place.folder / "model"), "--prompt", "the quick", "--max-new-tokens",
                        "16", "--tokenizer", "bytes", "--json", f"device.backend={backend}")  # fmt: skip
    answers = re.findall(r'"ids":\s*(\[[^\]]*\])', place.said())
    if not answers or json.loads(answers[0]) == []:
        raise Wrong("nothing was generated")


WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] the a cat dog sat ran home and far away good bad it is was on mat . ,".split()


def bert(place: Place) -> tuple[str, list[str]]:
    """A tiny BERT that is fine-tuned on texts whose lengths change: its configuration, and the words that complete it."""
    (place.folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    rows = [("the cat sat on the mat .", "good"), ("the dog ran away and the dog ran home and it was far .", "bad")]
    lines = ["text\tlabel"] + [f"{text}{' it is' * (i % 7)}\t{label}" for i in range(24) for text, label in rows]
    (place.folder / "rows.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = place.folder / "bert.yaml"
    config.write_text(
        "task: sequence_classification\n"
        f"model: {{type: bert, vocab_size: {len(WORDS)}, hidden_size: 64, num_hidden_layers: 3, num_attention_heads: 4,\n"
        "        intermediate_size: 128, max_position_embeddings: 64, num_labels: 2}\n"
        "training: {micro_batch_size: 4, max_steps: 12, precision: bf16, seed: 5}\n"
        "optimizer: {name: adamw, learning_rate: 1e-3}\n"
        f"data: {{format: tsv, path: {place.folder}/rows.tsv, columns: {{text: text, label: label}}, labels: [bad, good],\n"
        f"       tokenizer: {place.folder}/vocab.txt, padding: longest, sequence_length: 48}}\n",
        encoding="utf-8",
    )
    return str(config), []


def lengths(place: Place) -> None:
    config, words = bert(place)
    modes(*words, config=config)(place)


def predict(place: Place) -> None:
    config, words = bert(place)
    place.train("model", *words, "checkpoint.save_model=true", config=config)
    backend = f"device.backend={place.check.backend}"
    place.recollect("predict", config, backend, f"output_dir={place.folder}/model", "--data",
                    str(place.folder / "rows.tsv"), "--output", str(place.folder / "answers.jsonl"))  # fmt: skip
    answers = (place.folder / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    place.same("the number of answers", len(answers), 48)


def calibrate(place: Place) -> None:
    device = place.folder / "device.yaml"
    place.recollect("calibrate", "--backend", place.check.backend, "--out", str(device), "--seconds", "15")
    tiny = str(SHARE / "tiny.yaml")
    place.recollect("estimate", tiny, f"device.backend={place.check.backend}", f"device.model={device}")


def profile(place: Place) -> None:
    tiny = str(SHARE / "tiny.yaml")
    page = place.folder / "page.html"
    place.recollect("profile", tiny, f"device.backend={place.check.backend}", "--html", str(page))
    for word in ("contraction", "attention", "between ops"):
        if word not in place.said():
            raise Wrong(f"the profile says nothing of {word}")
    if page.stat().st_size < 50_000:
        raise Wrong("the page is empty")


FP8 = ("training.fp8=true", "training.precision=bf16")
LLAMA = ("model={type: llama, vocab_size: 256, hidden_size: 128, num_hidden_layers: 3, num_attention_heads: 4, "
         "num_key_value_heads: 2, intermediate_size: 256, max_position_embeddings: 64}")  # fmt: skip
QWEN = LLAMA.replace("type: llama", "type: qwen2, tie_word_embeddings: true")


def family(place: Place, model: str) -> str:
    """The tiny configuration with another model."""
    text = (SHARE / "tiny.yaml").read_text(encoding="utf-8")
    config = place.folder / "family.yaml"
    config.write_text(re.sub(r"(?m)^model: .*$", model.replace("=", ": ", 1), text), encoding="utf-8")
    return str(config)


def of_family(model: str) -> Callable[[Place], None]:
    return lambda place: modes(config=family(place, model))(place)


def all_lines() -> list[Line]:
    ops = {"trains": False, "limit": 200, "memory": 8}
    racecheck = ":".join(f"Ops/DeviceOps.Float/*{kind}*" for kind in ("norm", "loss", "adam", "swiglu"))
    return [
        Line("doctor", lambda place: place.recollect("doctor"), 5),
        Line("ops against the reference, fp32", tests("Ops/DeviceOps.*"), 45, **ops),
        Line("ops against the reference, bf16", tests("Ops/DeviceOps16.Bfloat16/*"), 45, **ops),
        Line("ops against the reference, fp16", tests("Ops/DeviceOps16.Float16/*"), 45, **ops),
        Line("products by cuBLASLt", tests("DeviceGemm.*"), 20, **ops),
        Line("attention by cuDNN", tests("DeviceAttention.*"), 20, **ops),
        Line("GPT-2 goldens and reference", tests("GoldensOnGpu*:NearTheReference*"), 25, **ops),
        Line("modes x switches, bit for bit, 1 rank", tests("All/ExactOnGpu*/Tensor1*"), 85, **ops),
        Line("modes x switches, bit for bit, 2 ranks", tests("All/ExactOnGpu*/Tensor2*"), 120, **ops),
        Line("modes x switches, bit for bit, 4 ranks", tests("All/ExactOnGpu*/Tensor4*:GraphsOnGpu.*"), 100, **ops),
        Line("compute-sanitizer memcheck", sanitizer("memcheck", "Ops/DeviceOps16.Bfloat16/*"), 60, **ops),
        Line("compute-sanitizer racecheck", sanitizer("racecheck", racecheck), 60, **ops),
        Line("two processes, bit for bit", nccl, 90, memory=8, cores=2, limit=250),
        Line("ZeRO in two processes", zero, 40, memory=8, cores=2),
        Line("evaluation", evaluation), Line("snapshot and resume", resume), Line("generate", generate),
        Line("BERT, lengths that change", lengths, 30), Line("predict", predict),
        Line("LoRA", modes("lora.rank=4"), 30),
        Line("Llama", of_family(LLAMA), 30), Line("Qwen2", of_family(QWEN), 30),
        Line("FP8", modes(*FP8, "model.vocab_size=256"), 30),
        Line("8-bit states", modes("optimizer.name=adamw8bit"), 30),
        Line("states on the host", offload, 20), Line("profile", profile, 15),
        Line("memory against the driver", tests("MemoryOnGpu*"), 5, alone=True, trains=False),
        Line("calibrate", calibrate, 25, alone=True),
    ]  # fmt: skip


@dataclass
class Timing:
    """One training that is timed, alone."""

    name: str
    config: str
    tokens: int
    words: tuple[str, ...] = ()
    steps: int = 30
    warm: int = 8
    limit: float = 60

    def file(self) -> str:
        return re.sub(r"[^a-z0-9]+", "_", self.name.lower())

    def command(self, recollect: str, backend: str, folder: Path) -> list[str]:
        config = folder / "config.yaml"
        config.write_text(self.config, encoding="utf-8")
        own = [f"training.max_steps={self.steps}", f"output_dir={folder}/run", f"device.backend={backend}"]
        return [recollect, "train", str(config), *own, *self.words]

    def read(self, folder: Path, _: Path) -> dict[str, object]:
        lines = (folder / "run/metrics.jsonl").read_text(encoding="utf-8").splitlines()
        steps = [json.loads(line) for line in lines if "step_seconds" in line]
        seconds = statistics.median(step["step_seconds"] for step in steps[min(self.warm, len(steps) - 2) :])
        report = json.loads((folder / "run/memory.rank0.json").read_text(encoding="utf-8"))
        step, arena = report["step"], report["measured"]["arena"]
        return {
            "steps": len(steps),
            "ms": 1e3 * seconds,
            "tokens_per_second": self.tokens / seconds,
            "predicted_ms": 1e3 * step["predicted"]["step"],
            "exposed_ms": 1e3 * step["measured"]["exposed"],
            "gib": arena / 2**30,
            "bytes_off": arena - report["predicted"]["arena"],
            "loss": steps[-1]["loss"],
        }


@dataclass
class TorchTiming(Timing):
    """PyTorch's step beside ours, where it is installed."""

    def command(self, recollect: str, backend: str, folder: Path) -> list[str]:
        return [sys.executable, str(SHARE / "bench/torch_step.py"), f"--steps={self.steps}", *self.words]

    def read(self, folder: Path, log: Path) -> dict[str, object]:
        result = json.loads(log.read_text(encoding="utf-8").splitlines()[-1])
        seconds = statistics.median(result["seconds"])
        return {"steps": len(result["seconds"]), "ms": 1e3 * seconds, "tokens_per_second": self.tokens / seconds,
                "gib": result["peak_bytes"] / 2**30}  # fmt: skip


def gpt2(layers: int, width: int, heads: int, batch: int) -> str:
    return (f"model: {{type: gpt2, resid_pdrop: 0, embd_pdrop: 0, attn_pdrop: 0, n_positions: 1024, n_layer: {layers}, "
            f"n_embd: {width}, n_head: {heads}}}\ntraining: {{micro_batch_size: {batch}, precision: bf16}}\n"
            "data: {format: random}\n")  # fmt: skip


BERT = """task: sequence_classification
model: {type: bert, vocab_size: 30522, hidden_size: 1024, num_hidden_layers: 24, num_attention_heads: 16,
        intermediate_size: 4096, max_position_embeddings: 512, num_labels: 2}
training: {micro_batch_size: 4, seed: 42}
optimizer: {name: adamw, learning_rate: 5e-5}
data: {format: random, sequence_length: 512, low: 100, high: 30000}
"""
QWEN05 = """model: {type: qwen2, vocab_size: 151936, hidden_size: 896, num_hidden_layers: 24, num_attention_heads: 14,
        num_key_value_heads: 2, intermediate_size: 4864, max_position_embeddings: 32768, tie_word_embeddings: true,
        rope_theta: 1000000, rms_norm_eps: 1e-6}
training: {micro_batch_size: 32, gradient_accumulation_steps: 4, precision: bf16}
data: {format: random, sequence_length: 1024}
"""
LLAMA4 = """model: {type: llama, vocab_size: 128256, hidden_size: 4096, num_hidden_layers: 4, num_attention_heads: 32,
        num_key_value_heads: 8, intermediate_size: 14336, max_position_embeddings: 1048576, rope_theta: 500000}
training: {micro_batch_size: 1, precision: bf16}
data: {format: random, sequence_length: 32768}
"""
TINY = """model: {type: gpt2, vocab_size: 251, n_positions: 64, n_embd: 128, n_layer: 4, n_head: 4}
training: {micro_batch_size: 4, precision: bf16}
data: {format: random}
"""


def timings(backend: str) -> list[Timing]:
    """The most telling first: what comes after the deadline is left out."""
    if backend == "cpu":
        return [Timing("tiny none", TINY, 256, steps=12), Timing("tiny full + host", TINY, 256, HOST, steps=12)]
    small, large = gpt2(12, 768, 12, 32), gpt2(48, 1600, 25, 8)
    none_host = ("activation_checkpointing.cpu_checkpointing=true",)
    return [
        Timing("124M none", small, 32768),
        TorchTiming("124M torch compile", "", 32768, ("--compile",)),
        Timing("124M full", small, 32768, FULL), Timing("124M full + host", small, 32768, HOST),
        Timing("124M selective", small, 32768, ("activation_checkpointing.mode=selective",)),
        Timing("124M none + host", small, 32768, none_host, steps=16),
        Timing("1.5B none", large, 8192, steps=16, warm=6),
        Timing("1.5B full + host", large, 8192, HOST, steps=16, warm=6),
        Timing("BERT-large fp32", BERT, 2048, ("training.precision=fp32",)),
        Timing("BERT-large bf16", BERT, 2048, ("training.precision=bf16",), steps=40),
        Timing("Qwen2.5 0.5B", QWEN05, 131072, steps=4, warm=1),
        Timing("Llama-8B width, 32 K", LLAMA4, 32768, steps=4, warm=1),
        Timing("Llama-8B width, 32 K, full + host", LLAMA4, 32768, HOST, steps=4, warm=1),
        Timing("124M FP8", small, 32768, ("training.fp8=true",)),
        Timing("124M GELU in products", small, 32768, ("device.gelu_in_products=true",)),
    ]  # fmt: skip
