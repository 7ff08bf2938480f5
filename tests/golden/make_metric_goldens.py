#!/usr/bin/env python3
"""Makes metrics.safetensors: what scikit-learn, SciPy, seqeval, SQuAD's script and utils_qa.py say of 1 000 cases each.

The cases themselves are not stored. Both sides draw them from the same random words (class Random here, and in
tests/parallel/metric_cases.h), call by call in the same order: a change here is a change there.

    make_metric_goldens.py SQUAD_METRICS UTILS_QA

SQUAD_METRICS: data/metrics/squad_metrics.py of a Transformers before 5 (SQuAD 2.0's script; 1.1's differs in where no word
is common). UTILS_QA: examples/pytorch/question-answering/utils_qa.py of Transformers.
"""

from __future__ import annotations

import argparse
import importlib.util
import logging
import math
import sys
import types
import warnings
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from scipy import stats
from seqeval import metrics as seqeval
from sklearn import metrics as sklearn

CASES = 1000
MASK = (1 << 64) - 1


class Random:
    """splitmix64."""

    def __init__(self, kind: int, case: int) -> None:
        self.state = kind * 1_000_003 + case

    def next(self) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def below(self, n: int) -> int:
        return self.next() % n

    def real(self) -> float:
        return (self.next() >> 11) * 2.0**-53

    def choose(self, list_: list) -> object:
        return list_[self.below(len(list_))]


def fnv(text: str) -> float:
    """24 bits, which a float holds."""
    value = 0x811C9DC5
    for byte in text.encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return float(value & 0xFFFFFF)


def classes(case: int) -> list[float]:
    random = Random(1, case)
    labels = 2 if random.below(2) == 0 else 3 + random.below(4)
    lazy = random.below(10) == 0
    truth, said = [], []
    for _ in range(1 + random.below(60)):
        truth.append(random.below(labels))
        said.append(0 if lazy else truth[-1] if random.below(2) else random.below(labels))
    f1 = sklearn.f1_score(truth, said, zero_division=0) if labels == 2 else -1.0
    return [sklearn.accuracy_score(truth, said), f1, sklearn.matthews_corrcoef(truth, said)]


def many_labels(case: int) -> list[float]:
    random = Random(2, case)
    labels, samples = 2 + random.below(5), 1 + random.below(20)
    often = 1 + random.below(6)
    rows = [[(random.below(6) < often, random.below(6) < often) for _ in range(labels)] for _ in range(samples)]
    truth, said = ([[pair[side] for pair in row] for row in rows] for side in (0, 1))
    return [sklearn.f1_score(np.array(truth), np.array(said), average="micro", zero_division=0)]


def numbers(case: int) -> list[float]:
    random = Random(3, case)
    coarse = random.below(2)
    a, b = [], []
    for _ in range(2 + random.below(60)):
        x, y = random.real(), random.real()
        a.append(math.floor(5 * x) if coarse else 10 * x - 5)
        b.append(math.floor(4 * y + x) if coarse else y + 0.25 * a[-1])
    return [sklearn.mean_squared_error(b, a), stats.pearsonr(a, b)[0], stats.spearmanr(a, b)[0]]


TAGS = [
    ["O", "I-PER", "I-LOC", "I-ORG"],
    ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"],
    ["O", "B-PER", "I-PER", "E-PER", "S-PER", "B-LOC", "I-LOC", "E-LOC", "S-LOC"],
    ["O", "B", "I", "E", "S", "B-X-Y", "I-X-Y", "I-Y", "B-"],
    ["LABEL_0", "LABEL_1", "LABEL_2"],
    ["O", "B-Größe", "I-Größe", "ÖPER", "ÜPER", "O-LOC", "I-LOC", "."],
]


def entities(case: int) -> list[float]:
    random = Random(4, case)
    tags = random.choose(TAGS)
    truth, said = [], []
    for _ in range(1 + random.below(5)):
        truth.append([])
        said.append([])
        for _ in range(1 + random.below(12)):
            truth[-1].append(random.choose(tags))
            other = random.choose(tags)
            said[-1].append(truth[-1][-1] if random.below(3) else other)
    scores = (seqeval.precision_score, seqeval.recall_score, seqeval.f1_score, seqeval.accuracy_score)
    return [score(truth, said) for score in scores]


WORDS = [
    "the", "The", "THE", "a", "An", "and", "other", "cat", "Cat", "don't", "U.S.", "_a_", "a-b", "42", "3.5", "½", "Ⅷ",
    "e\u0301", "the\u0301", "\u0301the", "Straße", "ẞ", "İstanbul", "ΑΘΗΝΑΣ", "ΣΑΣ", "Σ", "Σ'Σ", "ΑΣ\u0301", "ΑΣ·", "ΟΔΥΣΣΕΥΣ",
    "ǅ", "Ⓐ", "Ａ", "ａ", "—", "“a”", "東京", "٣", "x\u200dy", "\u00ada", "Москва", "ᲐᲑ", "𐐀𐐨", "!?",
]  # fmt: skip
SEPARATORS = [" ", " ", "  ", "\t", "-", "\u00a0", "\u3000", "\u2009", "\u001f", "\n", "", "—"]
BLOCKS = [(0x20, 0x7E), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x377), (0x388, 0x3FF), (0x400, 0x45F), (0x2000, 0x206F)]


def phrase(random: Random) -> str:
    text = ""
    for _ in range(random.below(6)):
        if random.below(4) == 0:
            for _ in range(1 + random.below(4)):
                first, last = random.choose(BLOCKS)
                text += chr(first + random.below(last - first + 1))
        else:
            text += random.choose(WORDS)
        text += random.choose(SEPARATORS)
    return text


def answer_scores(case: int, squad: types.ModuleType) -> list[float]:
    random = Random(5, case)
    answers = [phrase(random) for _ in range(1 + random.below(3))]
    said = random.choose(answers) if random.below(2) else phrase(random)
    if random.below(3) == 0:
        said = said + random.choose(SEPARATORS) + random.choose(WORDS)
    if random.below(8) == 0:
        answers = [""]

    def f1_of_1_1(answer: str) -> float:
        words, given = (squad.normalize_answer(text).split() for text in (said, answer))
        return squad.compute_f1(answer, said) if set(words) & set(given) else 0.0

    exact_1 = max(squad.compute_exact(answer, said) for answer in answers)
    f1_1 = max(f1_of_1_1(answer) for answer in answers)
    example = types.SimpleNamespace(qas_id="q", answers=[{"text": answer} for answer in answers])
    exact_2, f1_2 = squad.get_raw_scores([example], {"q": said})
    return [exact_1, f1_1, exact_2["q"], f1_2["q"], fnv(squad.normalize_answer(said))]


def answers(case: int, utils_qa: types.ModuleType) -> list[float]:
    random = Random(6, case)
    context, places = "", []  # the places of tokens
    for _ in range(3 + random.below(30)):
        word = random.choose(WORDS)
        places.append((len(context), len(context) + len(word)))
        context += word + " "
    absent, tied = random.below(2) == 1, random.below(2) == 1
    most_spans, most_tokens = random.choose([1, 3, 20]), random.choose([1, 3, 30])
    threshold = random.choose([0.0, 1.5, -2.0])
    features, logits = [], ([], [])
    for _ in range(1 + random.below(3)):
        question, first = 2 + random.below(5), random.below(len(places))
        size = 1 + random.below(len(places) - first)
        offsets = [None] * question + places[first : first + size] + [None]
        features.append({"example_id": "q", "offset_mapping": offsets})
        for side in logits:
            side.append([])
        for _ in offsets:
            for side in logits:
                side[-1].append((random.below(16) - 8) / 4 if tied else random.below(1 << 20) / 65536 - 8)
    arrays = tuple([np.array(row, dtype=np.float32) for row in side] for side in logits)
    spans: dict[str, object] = {}
    chosen = utils_qa.postprocess_qa_predictions(
        Examples([{"id": "q", "context": context}]), features, arrays, version_2_with_negative=absent,
        n_best_size=most_spans, max_answer_length=most_tokens, null_score_diff_threshold=threshold, spans=spans,
    )["q"]  # fmt: skip
    texts = "\n".join(span["text"] for span in spans["q"])
    return [fnv(chosen), fnv(texts), spans["q"][0]["probability"], spans["difference"] if absent else 0.0]


class Examples(list):
    """As much of a data set as utils_qa.py wants."""

    def __getitem__(self, key: object) -> object:
        return [row["id"] for row in self] if key == "id" else super().__getitem__(key)


class StableNumpy:
    """The module numpy, whose argsort leaves equal numbers in their order: which of them comes first is not left open."""

    def __getattr__(self, name: str) -> object:
        return getattr(np, name)

    @staticmethod
    def argsort(array: np.ndarray) -> np.ndarray:
        return np.argsort(array, kind="stable")


def load_squad_metrics(path: Path) -> types.ModuleType:
    """The file alone: of what it imports from its package, its scores need nothing."""
    for name in ("old", "old.data", "old.data.metrics", "old.models", "old.models.bert", "old.utils"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["old.models.bert"].BasicTokenizer = None
    sys.modules["old.utils"].logging = types.SimpleNamespace(get_logger=logging.getLogger)
    spec = importlib.util.spec_from_file_location("old.data.metrics.squad_metrics", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_utils_qa(path: Path) -> types.ModuleType:
    """With stable order, silent, and with what it would write into files in the dictionary `spans`."""
    spec = importlib.util.spec_from_file_location("utils_qa", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.np = StableNumpy()
    module.tqdm = lambda list_: list_
    original = module.postprocess_qa_predictions

    def postprocess(*inputs: object, spans: dict[str, object], **options: object) -> dict[str, str]:
        files: list[object] = []
        module.os = types.SimpleNamespace(path=types.SimpleNamespace(isdir=lambda _: True, join=lambda *names: names[-1]))
        module.open = lambda name, mode: __import__("contextlib").nullcontext(types.SimpleNamespace(write=lambda text: None))
        module.json = types.SimpleNamespace(dumps=lambda value, indent: files.append(value) or "")
        chosen = original(*inputs, output_dir="", **options)
        spans["q"] = files[1]["q"]
        spans["difference"] = files[2]["q"] if len(files) > 2 else 0.0
        return chosen

    module.postprocess_qa_predictions = postprocess
    return module


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("squad_metrics", type=Path)
    parser.add_argument("utils_qa", type=Path)
    parser.add_argument("--output", type=Path, default=Path(__file__).resolve().parent / "metrics.safetensors")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    squad, utils_qa = load_squad_metrics(options.squad_metrics), load_utils_qa(options.utils_qa)
    kinds = {
        "classes": (classes, np.float32),
        "many_labels": (many_labels, np.float32),
        "numbers": (numbers, np.float64),
        "entities": (entities, np.float32),
        "answer_scores": (lambda case: answer_scores(case, squad), np.float32),
        "answers": (lambda case: answers(case, utils_qa), np.float32),
    }
    tensors = {name: np.array([make(case) for case in range(CASES)], dtype=dtype) for name, (make, dtype) in kinds.items()}
    for name, table in tensors.items():
        print(f"{name:14s} {table.shape} means {np.nanmean(table, axis=0)}")
    save_file(tensors, options.output)


if __name__ == "__main__":
    main()
