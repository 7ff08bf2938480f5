#!/usr/bin/env python3
"""Twenty steps of each task beside Transformers' Trainer: the same weights, the same samples in the same order, fp32.

    trainer_parity.py RECOLLECT [TASK...]

Both sides read what this writes into a folder of its own: weights drawn from a seed, dropout 0, and lines of JSONL of
changing lengths. recollect cuts each batch into two micro-batches, each padded to its own longest sample; the Trainer has it
whole. (Question answering is padded to one length on both sides: its loss weighs the positions of padding too.) Every loss must agree to 1e-5, and so must what both evaluate after the last step, metrics by scikit-learn and SciPy.
Exit status 1 where anything differs. Needs PyTorch, Transformers with Accelerate, scikit-learn and SciPy; 2 minutes.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
import transformers
from scipy import stats
from sklearn import metrics as sklearn

STEPS, BATCH, EVALUATED = 20, 8, 40
TOLERANCE = 1e-5
VOCABULARY, LONGEST, CHOICES = 97, 28, 3
IGNORED = -100
OF_TOKENS = ("input_ids", "token_type_ids", "attention_mask")
Sample = dict[str, object]


def bert(**more: object) -> transformers.BertConfig:
    return transformers.BertConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.1, **more,
    )  # fmt: skip


def gpt2() -> transformers.GPT2Config:
    return transformers.GPT2Config(
        vocab_size=VOCABULARY, n_embd=32, n_layer=3, n_head=4, n_positions=32, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip


def no_metrics(_: np.ndarray, __: np.ndarray) -> dict[str, float]:
    return {}


def of_classes(logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    said = logits.argmax(-1)
    counts = labels != IGNORED
    return {"eval_accuracy": sklearn.accuracy_score(labels[counts], said[counts])}


def of_two_classes(logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    said = logits.argmax(-1)
    return of_classes(logits, labels) | {
        "eval_f1": sklearn.f1_score(labels, said),
        "eval_matthews_correlation": sklearn.matthews_corrcoef(labels, said),
    }


def of_numbers(logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    said, labels = logits.reshape(-1).astype(np.float64), labels.reshape(-1).astype(np.float64)
    return {
        "eval_mse": sklearn.mean_squared_error(labels, said),
        "eval_pearson": stats.pearsonr(said, labels)[0],
        "eval_spearmanr": stats.spearmanr(said, labels)[0],
    }


def of_labels(logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    return {"eval_f1": sklearn.f1_score(labels > 0.5, logits > 0, average="micro")}


@dataclass(frozen=True)
class Case:
    name: str
    task: str
    model: type
    config: transformers.PretrainedConfig
    label: Callable[[random.Random, list[int]], Sample]  # what is said of a sample's ids
    metrics: Callable[[np.ndarray, np.ndarray], dict[str, float]] = no_metrics
    keys: dict[str, object] = field(default_factory=dict)


def one_class(classes: int) -> Callable[[random.Random, list[int]], Sample]:
    return lambda rng, ids: {"labels": ids[0] % classes if rng.random() < 0.8 else rng.randrange(classes)}


def span(rng: random.Random, ids: list[int]) -> Sample:
    first = rng.randrange(len(ids))
    return {"start_positions": first, "end_positions": rng.randrange(first, len(ids))}


def later_ids(_: random.Random, ids: list[int]) -> Sample:
    return {"labels": [IGNORED] + ids[1:]}  # nothing predicts the first, yet the Trainer would count it


def some_ids(rng: random.Random, ids: list[int]) -> Sample:
    labels = [id_ if rng.random() < 0.3 else IGNORED for id_ in ids]
    return {"labels": [ids[0]] + labels[1:]}  # one at least


CASES = [
    Case("causal_lm", "causal_lm", transformers.GPT2LMHeadModel, gpt2(), later_ids),
    Case("masked_lm", "masked_lm", transformers.BertForMaskedLM, bert(), some_ids),
    Case("two_classes", "sequence_classification", transformers.BertForSequenceClassification, bert(num_labels=2),
         one_class(2), of_two_classes),
    Case("three_classes", "sequence_classification", transformers.BertForSequenceClassification, bert(num_labels=3),
         one_class(3), of_classes),
    Case("regression", "sequence_classification", transformers.BertForSequenceClassification, bert(num_labels=1),
         lambda rng, ids: {"labels": round(ids[0] / 20 + rng.random(), 3)}, of_numbers),
    Case("multi_label", "sequence_classification", transformers.BertForSequenceClassification,
         bert(num_labels=4, problem_type="multi_label_classification"),
         lambda rng, ids: {"labels": [float(rng.random() < 0.3 or ids[0] % 4 == i) for i in range(4)]}, of_labels),
    Case("multiple_choice", "multiple_choice", transformers.BertForMultipleChoice, bert(), one_class(CHOICES), of_classes,
         {"data.choices": CHOICES}),
    Case("question_answering", "question_answering", transformers.BertForQuestionAnswering, bert(), span,
         keys={"data.padding": "max", "data.sequence_length": LONGEST}),
    Case("token_classification", "token_classification", transformers.BertForTokenClassification, bert(num_labels=5),
         lambda rng, ids: {"labels": [IGNORED if rng.random() < 0.2 else id_ % 5 for id_ in ids]}, of_classes),
]  # fmt: skip


def make_samples(case: Case, rng: random.Random, count: int) -> list[Sample]:
    samples = []
    for _ in range(count):
        rows = [[rng.randrange(VOCABULARY) for _ in range(rng.randint(3, LONGEST))] for _ in
                range(CHOICES if case.task == "multiple_choice" else 1)]  # fmt: skip
        types = [[int(i > len(row) // 2) for i in range(len(row))] for row in rows]
        sample: Sample = {"input_ids": rows, "token_type_ids": types}
        if len(rows) == 1:
            sample = {key: value[0] for key, value in sample.items()}
        if case.task == "causal_lm":
            del sample["token_type_ids"]
        samples.append(sample | case.label(rng, rows[0]))
    return samples


def collate(case: Case, samples: list[Sample]) -> dict[str, torch.Tensor]:
    """A batch padded to its longest sequence."""

    def lists(value: list) -> list[list[int]]:
        return value if isinstance(value[0], list) else [value]

    longest = max(len(row) for sample in samples for row in lists(sample["input_ids"]))
    longest = LONGEST if case.task == "question_answering" else longest
    token_labels = case.task in ("causal_lm", "masked_lm", "token_classification")
    batch: dict[str, list] = {}
    for sample in samples:
        ids = lists(sample["input_ids"])
        whole = sample | {"attention_mask": [[1] * len(row) for row in ids]}
        for key, value in whole.items():
            if key in OF_TOKENS or (key == "labels" and token_labels):
                padding = IGNORED if key == "labels" else 0
                value = [row + [padding] * (longest - len(row)) for row in lists(value)]
                value = value if case.task == "multiple_choice" else value[0]
            batch.setdefault(key, []).append(value)
    return {key: torch.tensor(values) for key, values in batch.items()}


class InOrder(transformers.Trainer):
    """Keeps the order of the samples, and every step's loss with all of its digits."""

    losses: list[float]

    def _get_train_sampler(self, *_: object) -> torch.utils.data.Sampler:
        return torch.utils.data.SequentialSampler(self.train_dataset)

    def compute_loss(self, model: torch.nn.Module, *inputs: object, **options: object) -> object:
        result = super().compute_loss(model, *inputs, **options)
        if model.training:
            self.losses.append((result[0] if isinstance(result, tuple) else result).item())
        return result


def train_theirs(case: Case, folder: Path, samples: list[Sample], evaluated: list[Sample]) -> tuple[list[float], dict[str, float]]:
    model = case.model.from_pretrained(folder / "model", attn_implementation="eager")
    arguments = transformers.TrainingArguments(
        output_dir=str(folder / "trainer"), max_steps=STEPS, per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=EVALUATED, learning_rate=1e-3, weight_decay=0.01, max_grad_norm=1.0,
        lr_scheduler_type="linear", use_cpu=True, save_strategy="no", logging_strategy="no", report_to=[], disable_tqdm=True,
        remove_unused_columns=False, dataloader_pin_memory=False,
    )  # fmt: skip
    trainer = InOrder(model=model, args=arguments, train_dataset=samples, eval_dataset=evaluated,
                      data_collator=lambda batch: collate(case, batch),
                      compute_metrics=lambda p: case.metrics(np.asarray(p.predictions), np.asarray(p.label_ids))
                      if case.metrics is not no_metrics else {})  # fmt: skip
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.losses = []
    trainer.train()
    judged = {key: value for key, value in trainer.evaluate().items() if key != "epoch"}
    for clock in ("eval_runtime", "eval_samples_per_second", "eval_steps_per_second", "eval_model_preparation_time"):
        judged.pop(clock, None)
    if case.task in ("causal_lm", "masked_lm"):
        judged["perplexity"] = math.exp(judged["eval_loss"])
    return trainer.losses, judged


def train_ours(case: Case, folder: Path, recollect: Path) -> tuple[list[float], dict[str, float]]:
    keys = {
        "task": case.task, "model.pretrained": "model", "device.threads": 1, "training.precision": "fp32",
        "training.micro_batch_size": BATCH // 2, "training.global_batch_size": BATCH, "training.max_steps": STEPS,
        "optimizer.name": "adamw", "optimizer.learning_rate": 1e-3, "optimizer.weight_decay": 0.01,
        "optimizer.max_grad_norm": 1, "scheduler.name": "linear", "data.format": "jsonl", "data.path": "train.jsonl",
        "data.shuffle": "false", "data.padding": "longest",
        "evaluation.path": "evaluated.jsonl", "evaluation.every_steps": STEPS, "output_dir": "out", "overwrite": "true",
        "logging.progress": "off",
    } | case.keys  # fmt: skip
    (folder / "c.yaml").write_text("{}\n", encoding="utf-8")
    if keys["data.padding"] == "longest":
        keys["data.pad_to_multiple_of"] = 1
    words = [f"{key}={value}" for key, value in keys.items()]
    subprocess.run([recollect, "train", "c.yaml", *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    losses, judged = [], {}
    for line in map(json.loads, (folder / "out" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()):
        if "loss" in line:
            losses.append(line["loss"])
        else:
            judged = {key: value for key, value in line.items() if key.startswith("eval_") or key == "perplexity"}
    for other in ("eval_tokens", "eval_valid_targets", "eval_seconds"):
        del judged[other]
    return losses, judged


def difference(ours: float, theirs: float) -> float:
    return abs(ours - theirs) / max(1.0, abs(theirs))


def compare(case: Case, root: Path, recollect: Path) -> bool:
    folder = root / case.name
    folder.mkdir()
    torch.manual_seed(5)
    case.model(case.config).save_pretrained(folder / "model")
    rng = random.Random(11)
    samples, evaluated = make_samples(case, rng, STEPS * BATCH), make_samples(case, rng, EVALUATED)
    for name, lines in (("train", samples), ("evaluated", evaluated)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    ours, our_metrics = train_ours(case, folder, recollect)
    theirs, their_metrics = train_theirs(case, folder, samples, evaluated)
    same_names = our_metrics.keys() == their_metrics.keys()
    worst = max(map(difference, ours, theirs)) if len(ours) == len(theirs) == STEPS else math.inf
    of_metrics = max(difference(our_metrics[key], their_metrics[key]) for key in our_metrics) if same_names else math.inf
    agree = worst <= TOLERANCE and of_metrics <= TOLERANCE
    told = " ".join(f"{key.removeprefix('eval_')} {value:.6f}" for key, value in our_metrics.items())
    print(f"{case.name:21s} {ours[0]:.6f} {ours[-1]:.6f} {worst:.1e} {of_metrics:.1e} {'' if agree else 'DIFFERS'} {told}", flush=True)
    if not same_names:
        print(f"  ours {sorted(our_metrics)}, theirs {sorted(their_metrics)}")
    return agree


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recollect", type=Path)
    parser.add_argument("tasks", nargs="*", help="names of cases; none: all")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    chosen = [case for case in CASES if not options.tasks or case.name in options.tasks]
    print(f"{'':21s} {'first':8s} {'last':8s} losses  metrics")
    with tempfile.TemporaryDirectory() as root:
        agree = [compare(case, Path(root), options.recollect.resolve()) for case in chosen]
    return 0 if agree and all(agree) else 1


if __name__ == "__main__":
    sys.exit(main())
