#!/usr/bin/env python3
"""Makes preparation.json with Transformers' fast tokenizers: what its example scripts make of 1 000 odd records a format.

    make_preparation_goldens.py

The records follow from odd_texts() by rules that tests/engine/test_preparation_goldens.cpp repeats, and so does a digest of
each 100 records' features: of every field how many values there are, and these.
"""

import json
import struct
from itertools import chain

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from make_tokenizer_goldens import FOLDER, Random, fnv
from make_tokenizer_pairs import odd_texts, variants

RECORDS, BLOCK = 1000, 100
TEXTS = odd_texts(4000)
LABELS = ["n\u00f6", "yes", "10", "2"]
TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def digests(records: list[list[list[int]]]) -> list[str]:
    blocks = []
    for begin in range(0, len(records), BLOCK):
        words = chain.from_iterable([len(field), *field] for record in records[begin:begin + BLOCK] for field in record)
        blocks.append(fnv(b"".join(struct.pack("<i", word) for word in words)))
    return blocks


def classification(tokenizer, pairs: bool, length: int) -> dict:
    """run_classification.preprocess_function, and its list of labels."""
    names = [LABELS[i % 4] for i in range(RECORDS)]
    labels = sorted(set(names))
    texts = [TEXTS[:RECORDS]] + ([TEXTS[1000:1000 + RECORDS]] if pairs else [])
    result = tokenizer(*texts, padding=False, max_length=length, truncation=True)
    return {"labels": labels, "blocks": digests(
        [[ids, types, [labels.index(name)]] for ids, types, name in zip(result["input_ids"], result["token_type_ids"], names)])}


def tables(tokenizer, pairs: bool, names: list[str], length: int) -> dict:
    """run_glue.preprocess_function, of tables in which no field may hold a tab or the end of a line."""
    texts = [[text.translate({9: " ", 10: " ", 13: " "}) for text in TEXTS[begin:begin + RECORDS]]
             for begin in ([2000, 3000] if pairs else [2000])]
    result = tokenizer(*texts, padding=False, max_length=length, truncation=True)
    return {"labels": names, "blocks": digests(
        [[ids, types, [i % len(names)]] for i, (ids, types) in enumerate(zip(result["input_ids"], result["token_type_ids"]))])}


def choices(tokenizer, count: int, header: bool, length: int) -> dict:
    """run_swag.preprocess_function."""
    records = []
    for i in range(RECORDS):
        begin = TEXTS[1000 + i][:12] + " " if header else ""
        second = [begin + TEXTS[2000 + (7 * i + 13 * k) % 2000] for k in range(count)]
        result = tokenizer([TEXTS[i]] * count, second, truncation=True, max_length=length, padding=False)
        records.append([*result["input_ids"], *result["token_type_ids"], [3 * i % count]])
    return {"labels": [str(k) for k in range(count)], "blocks": digests(records)}


def tags(tokenizer, columns: bool, length: int) -> dict:
    """run_ner.tokenize_and_align_labels."""
    records, labels = [], sorted(TAGS) if columns else list(range(11))
    for i in range(RECORDS):
        words = TEXTS[i].split(" ")
        if columns:
            words = ["the"] + [word for word in words if word and not set(word) & set("\t\n\r")]
        names = [TAGS[(i + k) % 5] if columns else (i + k) % 11 for k in range(len(words))]
        result = tokenizer(words, truncation=True, max_length=length, is_split_into_words=True)
        targets, before = [], None
        for word in result.word_ids():
            targets.append(-100 if word is None or word == before else labels.index(names[word]))
            before = word
        records.append([result["input_ids"], result["token_type_ids"], targets])
    return {"labels": [str(label) for label in labels], "blocks": digests(records)}


def question(i: int) -> tuple[str, str, list[tuple[int, str]]]:
    context = " ".join(["the whale", *TEXTS[i // 4 * 4:i // 4 * 4 + 4]])
    asked = ("\x1f\u00a0" if i % 3 == 0 else "") + TEXTS[1000 + i][:20]
    random = Random(i)
    begin = random.below(len(context))
    answer = context[begin:begin + 1 + random.below(30)]
    return asked, context, [] if i % 7 == 0 else [(begin, answer)]


def positions(tokenizer, result, window: int, answers) -> tuple[int, int]:
    """run_qa.prepare_train_features, of one window."""
    ids, offsets, sequence = result["input_ids"][window], result["offset_mapping"][window], result.sequence_ids(window)
    none = ids.index(tokenizer.cls_token_id) if tokenizer.cls_token_id in ids else \
        ids.index(tokenizer.bos_token_id) if tokenizer.bos_token_id in ids else 0
    if not answers:
        return none, none
    begin, end = answers[0][0], answers[0][0] + len(answers[0][1])
    first, last = sequence.index(1), len(ids) - 1
    while sequence[last] != 1:
        last -= 1
    if offsets[first][0] > begin or offsets[last][1] < end:
        return none, none
    while first < len(offsets) and offsets[first][0] <= begin:
        first += 1
    while offsets[last][1] >= end:
        last -= 1
    return first - 1, last + 1


def questions(tokenizer, length: int, stride: int) -> dict:
    """run_qa's features for training and for evaluation; places in bytes of the context."""
    records, windows = [], 0
    for i in range(RECORDS):
        asked, context, answers = question(i)
        result = tokenizer(asked.lstrip(), context, truncation="only_second", max_length=length, stride=stride,
                           return_overflowing_tokens=True, return_offsets_mapping=True, padding=False)
        bytes_before = [0]
        for c in context:
            bytes_before.append(bytes_before[-1] + len(c.encode()))
        record = []
        for window, (ids, types) in enumerate(zip(result["input_ids"], result["token_type_ids"])):
            places = [(bytes_before[begin], bytes_before[end]) if sequence == 1 else (-1, -1)
                      for (begin, end), sequence in zip(result["offset_mapping"][window], result.sequence_ids(window))]
            record += [ids, types, list(positions(tokenizer, result, window, answers)), [i], list(chain(*places))]
            windows += 1
        records.append(record)
    return {"labels": [], "length": length, "stride": stride, "windows": windows, "blocks": digests(records)}


def main() -> None:
    changed = {"gpt2": variants()["gpt2_roberta"], "bert": Tokenizer.from_file(str(FOLDER / "bert" / "tokenizer.json"))}
    special = {"gpt2": {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"},
               "bert": {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}}
    golden = {"text": fnv("\n".join(TEXTS).encode())}
    for name, tokenizer_object in changed.items():
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer_object, model_input_names=["input_ids", "token_type_ids"],
                                            **special[name])
        golden[name] = {
            "csv": classification(tokenizer, False, 40), "csv_pairs": classification(tokenizer, True, 48),
            "cola": tables(tokenizer, False, ["unacceptable", "acceptable"], 40),
            "mrpc": tables(tokenizer, True, ["not_equivalent", "equivalent"], 48),
            "tsv": tables(tokenizer, True, ["a", "b", "c"], 56),
            "swag": choices(tokenizer, 4, True, 64), "choices": choices(tokenizer, 3, False, 32),
            "conll": tags(tokenizer, True, 32), "tags": tags(tokenizer, False, 24),
            "squad": questions(tokenizer, *((128, 20) if name == "gpt2" else (48, 10)))}
    (FOLDER.parent / "preparation.json").write_text(json.dumps(golden, indent=0, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main()
