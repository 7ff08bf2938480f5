"""Who trains what in compare.py: models, contenders, the command of each, and what is read from its output.

Always true: a contender's command does the model's whole step, optimizer included, at the settings that its authors published
or that PyTorch recommends; what it prints is read as its sources print it (llm.c: train_gpt2.cu; llmq: src/training/logging.cpp).
A line that is not there is an error, never a guess.
"""

from __future__ import annotations

import json
import re
import statistics
import struct
import sys
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Contender:
    name: str
    words: tuple[str, ...] = ()  # of recollect train, or of the peer
    base: str | None = None
    reach: str = ""
    peer: str = ""  # torch, trainer, llmc or llmq; "": ourselves


@dataclass(frozen=True)
class Model:
    name: str
    title: str
    tokens: int  # of a step
    flops: float  # of a step: 6 N T + 12 L h s T, the tied head counted once, nothing for recomputation
    config: str  # ours, without what words say
    words: tuple[str, ...]
    contenders: tuple[Contender, ...]
    sizes: dict[str, int] = field(default_factory=dict)
    needs: str = ""  # the peer without which nobody asks for it


@dataclass
class Row:
    seconds: dict[int, float] = field(default_factory=dict)  # round -> median of its steps
    peak_bytes: int = 0
    predicted_bytes: int = 0
    exposed_ms: float = 0.0


@dataclass(frozen=True)
class Bench:
    """What a command needs to know."""

    recollect: Path
    llmc: Path | None
    llmq: Path | None
    steps: int
    warmup: int

    def has(self, peer: str) -> bool:
        return {"llmc": self.llmc, "llmq": self.llmq}.get(peer, True) is not None


def ac(**keys: str) -> tuple[str, ...]:
    return tuple(f"activation_checkpointing.{key}={value}" for key, value in keys.items())


def gpt2(name: str, layers: int, hidden: int, heads: int, micro_batch: int, llmc: tuple[str, ...]) -> Model:
    sequence = 1024
    tokens = micro_batch * sequence
    parameters = 50257 * hidden + layers * (12 * hidden**2 + 13 * hidden) + 2 * hidden
    contenders = (
        Contender("torch eager", peer="torch"),
        Contender("torch compile", ("--compile",), peer="torch"),
        Contender("torch checkpoint, compile", ("--compile", "--checkpoint"), "torch compile", peer="torch"),
        Contender("torch save_on_cpu", ("--save-on-cpu",), "torch eager", peer="torch"),
        Contender("llm.c", (f"-e=d{layers}", f"-b={micro_batch}", f"-t={sequence}", f"-d={tokens}", *llmc), peer="llmc"),
        Contender("none", (), "torch compile", "at most -33 %"),
        Contender("none, against llm.c", (), "llm.c", "at most -9 %"),
        Contender("selective", ac(mode="selective"), "none", "at most 5 %"),
        Contender("full", ac(mode="full"), "none", "at most 17 % (124M), 24 % (1.5B)"),
        Contender("full + host", ac(mode="full", cpu_checkpointing="true"), "full", "at most 3 % (124M), 1 % (1.5B)"),
        Contender("none + host", ac(cpu_checkpointing="true"), "torch save_on_cpu"),
    )
    words = (f"model.n_layer={layers}", f"model.n_embd={hidden}", f"model.n_head={heads}", f"model.n_positions={sequence}")
    return Model(
        name,
        f"GPT-2 {name}, sequence {sequence}, micro-batch {micro_batch}, bf16",
        tokens,
        (6.0 * parameters + 12.0 * layers * hidden * sequence) * tokens,
        "model: {type: gpt2, resid_pdrop: 0, embd_pdrop: 0, attn_pdrop: 0}\n",
        (*words, f"training.micro_batch_size={micro_batch}", "training.precision=bf16"),
        contenders,
        {"layers": layers, "hidden": hidden, "heads": heads, "sequence": sequence, "micro-batch": micro_batch},
    )


def qwen(size: str, hidden: int, wide: int, heads: int, kv_heads: int, layers: int, *, bf16: str, fp8: str) -> Model:
    """At llmq's settings (benchmarks/H100x1.md): 524,288 tokens a step, sequence 1024."""
    tied, head, samples = size != "7B", hidden // heads, 512
    layer = hidden * (hidden + 2 * kv_heads * head) + hidden * hidden + 3 * hidden * wide
    parameters = 151936 * hidden * (1 if tied else 2) + layers * layer
    shape = f"hidden_size: {hidden}, intermediate_size: {wide}, num_attention_heads: {heads}, num_key_value_heads: {kv_heads}"
    contenders = []
    for name, settings, matmul, ours in (("bf16", bf16, "bf16", ()), ("FP8", fp8, "e4m3", ("training.fp8=true",))):
        batch = settings.split()[0]
        ours = (*ours, f"training.micro_batch_size={batch}", f"training.gradient_accumulation_steps={samples // int(batch)}")
        words = (f"--matmul-dtype={matmul}", f"--batch-size={batch}", f"--grad-accumulation={samples // int(batch)}")
        contenders.append(Contender(f"llmq {name}", (*words, *settings.split()[1:]), peer="llmq"))
        contenders.append(Contender(f"none, {name}", ours, f"llmq {name}", "at most -9 %"))
    return Model(
        f"qwen-{size}",
        f"Qwen2.5 {size}, sequence 1024, {samples} samples a step",
        samples * 1024,
        (6.0 * (parameters - (0 if tied else 151936 * hidden)) + 12.0 * layers * heads * head * 1024) * samples * 1024,
        f"model: {{type: qwen2, vocab_size: 151936, {shape}, num_hidden_layers: {layers}, max_position_embeddings: 32768,\n"
        f"        tie_word_embeddings: {str(tied).lower()}, rope_theta: 1000000, rms_norm_eps: 1e-6}}\n",
        ("training.precision=bf16", "data.sequence_length=1024"),
        tuple(contenders),
        needs="llmq",
    )


def bert_large(precision: str) -> Model:
    layers, hidden, sequence, batch = 24, 1024, 512, 4
    tokens = batch * sequence
    return Model(
        f"bert-large-{precision}",
        f"BERT-large, {batch} x {sequence}, {precision}, dropout 0.1",
        tokens,
        (6.0 * layers * 12 * hidden**2 + 12.0 * layers * hidden * sequence) * tokens,
        "task: sequence_classification\nmodel: {type: bert, vocab_size: 30522, hidden_size: 1024, num_hidden_layers: 24,\n"
        "        num_attention_heads: 16, intermediate_size: 4096, max_position_embeddings: 512, num_labels: 2}\n",
        (f"training.precision={precision}", f"training.micro_batch_size={batch}", f"data.sequence_length={sequence}")
        + ("data.low=100", "data.high=30000"),
        (
            Contender("Hugging Face's Trainer", ("--bf16",) if precision == "bf16" else (), peer="trainer"),
            Contender("none", (), "Hugging Face's Trainer", "at most -17 %"),
        ),
        needs="trainer",
    )


MODELS = [
    gpt2("124M", 12, 768, 12, 32, ()),
    gpt2("1.5B", 48, 1600, 25, 8, ("-ge=1",)),  # as scripts/run_gpt2_1558M.sh has it
    bert_large("fp32"),
    bert_large("bf16"),
    qwen("0.5B", 896, 4864, 14, 2, 24, bf16="32", fp8="32"),
    qwen("1.5B", 1536, 8960, 12, 2, 28, bf16="32 --lmhead-chunks=4", fp8="32"),
    qwen("3B", 2048, 11008, 16, 2, 36, bf16="16", fp8="16"),
    qwen(
        "7B", 3584, 18944, 28, 4, 28, bf16="4 --lmhead-chunks=2 --attn-bwd-chunks=2",
        fp8="16 --lmhead-chunks=4 --attn-bwd-chunks=4 --recompute-ffn --recompute-norm --offload-residual",
    ),
]  # fmt: skip


def command_of(bench: Bench, model: Model, contender: Contender, folder: Path) -> list[str]:
    steps, words = bench.warmup + bench.steps, list(contender.words)
    if contender.peer == "torch":
        sizes = [f"--{key}={value}" for key, value in model.sizes.items()]
        return [sys.executable, str(HERE / "torch_step.py"), f"--steps={bench.steps}", f"--warmup={bench.warmup}", *sizes, *words]
    if contender.peer == "trainer":
        return [sys.executable, str(HERE / "trainer_step.py"), f"--steps={bench.steps}", f"--warmup={bench.warmup}", *words]
    if contender.peer == "llmc":
        pairs = [f"-i={folder}/train.bin", f"-j={folder}/train.bin", f"-x={steps}", "-l=0.0001", "-c=0.1", "-r=0"]
        pairs += ["-v=1000000", "-m=1", "-s=0", *words]  # it divides by -v
        return [str(bench.llmc / "train_gpt2cu"), *(part for pair in pairs for part in pair.split("=", 1))]
    if contender.peer == "llmq":
        common = [f"--model=Qwen2.5-{model.name.removeprefix('qwen-')}", "--from-scratch", "--seq-length=1024", "--gpus=1"]
        common += ["--model-dtype=bf16", "--opt-m-dtype=bf16", "--opt-v-dtype=bf16", "--use-cuda-graphs"]
        common += [f"--train-file={folder}/train.bin", f"--eval-file={folder}/train.bin", "--eval-every-n-steps=0"]
        common += ["--ckpt-interval=1000000", f"--out-dir={folder}/out", f"--log-file={folder}/log.json"]
        return [str(bench.llmq / "train"), *common, f"--steps={steps + 1}", *words]  # ended before it saves the model
    common = ["data.format=random", f"training.max_steps={steps}", f"output_dir={folder}/run"]
    return [str(bench.recollect), "train", f"{folder}/config.yaml", *common, *model.words, *words]


def prepare(model: Model, contender: Contender, folder: Path) -> None:
    """The files that the command reads."""
    if contender.peer == "llmc":  # 256 words of header; random words of the vocabulary
        count = 4 * model.tokens + 1
        tokens = bytes(b for i in range(count) for b in struct.pack("<H", i * 40503 % 50257))
        (folder / "train.bin").write_bytes(struct.pack("<256i", 20240520, 1, count, *[0] * 253) + tokens)
    elif contender.peer == "llmq":  # 1024 bytes of header
        count = 2 * model.tokens + 1
        header = b"BIN.TOK\n" + struct.pack("<5i", 2, 4, count, 151936, 0)
        tokens = b"".join(struct.pack("<i", i * 40503 % 151936) for i in range(count))
        (folder / "train.bin").write_bytes(header.ljust(1024, b"*") + tokens)
    elif not contender.peer:
        (folder / "config.yaml").write_text(model.config + "device: {backend: cuda}\n", encoding="utf-8")


LLMC_STEP = re.compile(r"^step +(\d+)/\d+ \|.*\| ([0-9.]+) ms \|.* tok/s$", re.MULTILINE)
LLMC_MEMORY = re.compile(r"^device memory usage: (\d+) MiB / \d+ MiB$", re.MULTILINE)
LLMQ_STEP = re.compile(r"^\[T\] step +(\d+) \[.*?\] \| time: +(\d+) +(ms|s) \|", re.MULTILINE)


def timed_steps(found: list[float], warmup: int, what: str) -> float:
    if len(found) <= warmup:
        raise ValueError(f"{len(found)} steps in what {what} printed, of which {warmup} are to warm up")
    return statistics.median(found[warmup:])


def read_llmc(output: str, warmup: int) -> tuple[float, int]:
    """Seconds of a step, and bytes in use on the device once all is allocated."""
    memory = LLMC_MEMORY.search(output)
    seconds = timed_steps([float(ms) / 1e3 for _, ms in LLMC_STEP.findall(output)], warmup, "llm.c")
    return seconds, int(memory[1]) << 20 if memory else 0


def llmq_steps(output: str) -> list[float]:
    return [int(time) / (1e3 if unit == "ms" else 1) for _, time, unit in LLMQ_STEP.findall(output)]


def read(bench: Bench, contender: Contender, folder: Path, output: str, row: Row, number: int) -> None:
    if contender.peer in ("torch", "trainer"):
        result = json.loads(output.splitlines()[-1])
        row.seconds[number] = statistics.median(result["seconds"])
        row.peak_bytes = max(row.peak_bytes, result["peak_bytes"])
    elif contender.peer == "llmc":
        row.seconds[number], row.peak_bytes = read_llmc(output, bench.warmup)
    elif contender.peer == "llmq":
        row.seconds[number] = timed_steps(llmq_steps(output), bench.warmup, "llmq")
    else:
        lines = (folder / "run/metrics.jsonl").read_text(encoding="utf-8").splitlines()
        memory = json.loads((folder / "run/memory.rank0.json").read_text(encoding="utf-8"))
        row.seconds[number] = timed_steps([json.loads(line)["step_seconds"] for line in lines], bench.warmup, "recollect")
        row.peak_bytes = memory["measured"]["arena"]
        row.predicted_bytes = memory["predicted"]["arena"]
        row.exposed_ms = 1e3 * memory["step"]["measured"]["exposed"]
