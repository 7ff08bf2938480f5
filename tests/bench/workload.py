"""What a benchmark trains, on both sides: a configuration file of the engine with its words from the command line.

Always true: the keys under `model` bear the names of Hugging Face's config.json, so that Transformers' model is built
from the very file that the engine reads, and there is no second list of sizes. Model FLOPs are those of one training
step, whoever computes it; recomputation and the optimizer earn nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

ROOT = Path(__file__).resolve().parents[2]


class Unavailable(Exception):
    """Something that could not be measured; the text says why."""


@dataclass
class Workload:
    """`keys` are the sections of the file, the words applied."""

    path: Path
    words: tuple[str, ...]
    keys: dict[str, Any]

    def key(self, section: str, name: str) -> Any:
        try:
            return self.keys[section][name]
        except KeyError:
            raise Unavailable(f"{self.path.name} has no {section}.{name}, which a benchmark must know") from None

    @property
    def task(self) -> str:
        return self.keys.get("task", "causal_lm")

    @property
    def sequence(self) -> int:
        return self.key("data", "sequence_length")

    @property
    def micro_batch(self) -> int:
        return self.key("training", "micro_batch_size")

    @property
    def tokens(self) -> int:
        """Of a step, which is one micro-batch."""
        return self.sequence * self.micro_batch

    @property
    def name(self) -> str:
        return f"{self.path.stem}, {self.micro_batch} x {self.sequence}"

    @property
    def formula(self) -> Formula:
        kind = (self.key("model", "type"), self.task)
        if kind not in FORMULAS:
            raise Unavailable(f"no formula for the model FLOPs of {kind[0]} with task {kind[1]}")
        return FORMULAS[kind]

    def flops(self) -> float:
        return self.formula.count(self)


def plain(value: Any) -> Any:
    """PyYAML takes 1e-6 for a text, as it has no point."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def read_workload(path: Path, words: list[str]) -> Workload:
    """`words` are `section.key=value`, and win over the file."""
    try:
        import yaml
    except ImportError as error:
        raise Unavailable(f"{error}; Transformers brings it, or pip install pyyaml") from error
    try:
        keys = plain(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise Unavailable(f"{path}: {error}") from error
    for word in words:
        name, value = word.split("=", 1)
        *sections, last = name.split(".")
        section = keys
        for part in sections:
            section = section.setdefault(part, {})
        section[last] = plain(yaml.safe_load(value))
    return Workload(path, tuple(words), keys)


def gpt2_flops(work: Workload) -> float:
    """Each of T tokens meets each of N weights in two operations forward and four backward, and in each of L layers
    the s tokens of its sequence, in 4 h operations forward and twice that backward. N counts the tied head once and
    the position table, which is only read, not at all."""
    layers, hidden, vocabulary = (work.key("model", name) for name in ("n_layer", "n_embd", "vocab_size"))
    block = 12 * hidden * hidden + 13 * hidden
    parameters = vocabulary * hidden + layers * block + 2 * hidden
    return 6.0 * parameters * work.tokens + 12.0 * layers * hidden * work.sequence * work.tokens


def bert_classifier_flops(work: Workload) -> float:
    """As GPT-2, where N are the weights of the layers and of the embeddings' norm alone, as no table of embeddings is
    multiplied with. The P weights of pooler and classifier meet one token of each of the b samples."""
    names = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_labels")
    layers, hidden, inner, labels = (work.key("model", name) for name in names)
    block = 4 * hidden * (hidden + 1) + 2 * hidden * inner + inner + hidden + 4 * hidden
    parameters = layers * block + 2 * hidden
    classifier = hidden * (hidden + 1) + labels * (hidden + 1)
    layer_flops = 6.0 * parameters * work.tokens + 12.0 * layers * hidden * work.sequence * work.tokens
    return layer_flops + 6.0 * classifier * work.micro_batch


def llama_flops(work: Workload) -> float:
    """As GPT-2, with H query heads of size d, each of which meets a key/value head, its own or a shared one. N counts the
    head, tied or not, and no table of embeddings that is only read."""
    names = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "vocab_size")
    layers, hidden, inner, heads, vocabulary = (work.key("model", name) for name in names)
    key_value_heads = work.keys["model"].get("num_key_value_heads") or heads
    size = work.keys["model"].get("head_dim") or hidden // heads
    attention = hidden * (heads + 2 * key_value_heads) * size + heads * size * hidden
    block = attention + 3 * hidden * inner + 2 * hidden
    parameters = vocabulary * hidden + layers * block + hidden
    return 6.0 * parameters * work.tokens + 12.0 * layers * heads * size * work.sequence * work.tokens


@dataclass(frozen=True)
class Formula:
    text: str
    count: Callable[[Workload], float]


FORMULAS = {
    ("gpt2", "causal_lm"): Formula("6 N T + 12 L h s T", gpt2_flops),
    ("bert", "sequence_classification"): Formula("6 N T + 12 L h s T + 6 P b", bert_classifier_flops),
    ("llama", "causal_lm"): Formula("6 N T + 12 L H d s T", llama_flops),
    ("qwen3", "causal_lm"): Formula("6 N T + 12 L H d s T", llama_flops),  # norms of heads are not products
}
