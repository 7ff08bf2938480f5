#!/usr/bin/env python3
"""Makes tokenizer/pairs.json with Hugging Face `tokenizers`, for the tokenizers that make_tokenizer_goldens.py left.

    make_tokenizer_pairs.py DATA    DATA: the folder with the official vocabularies

Of 1 000 pairs of odd texts: hashes of everything that is asked about them, eight digits each: places, types, words, special
tokens around texts, windows, and texts decoded from ids.
"""

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, processors

from make_tokenizer_goldens import FOLDER, RANGES, SENTENCES, SNIPPETS, Random, fnv, plain

# Beside RANGES: marks that are reordered, joiners, directions, Hangul parts, and what decomposes in more ways than one.
PARTS = ["e\u0301", "a\u0323\u0307", "\u1e69", "\u0344x", "\u0958", "\u1100\u1161\u11a8", "\uac01", "\U0001d15e\u0334", "\u302e\u0301",
         "\u302e\u0334", "x\U0001d165\u0345\u0334", "\u0f71\u0f72\u0f74", "\u0f73", "\u1b44\u0300", "\u0130", "\ufb01", "\u2126",
         "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\u200b", "\u200e", "\u202e\u05d0\u05d1\u202c", "\ufeff",
         "\x00", "\x07", "\x85", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff", "\ufffd", "\u4e00\uf900", "\u3000", "##a", "\u0120"]


def odd_texts(count: int) -> list[str]:
    """Words of the sentences between everything that is odd."""
    random, texts = Random(13), []
    words = " ".join(SENTENCES[:4]).split(" ")
    for _ in range(count):
        out = []
        for _ in range(random.below(16)):
            kind = random.below(6)
            if kind < 3:
                out.append(words[random.below(len(words))] + " ")
            elif kind == 3:
                out.append(PARTS[random.below(len(PARTS))])
            elif kind == 4:
                out.append(SNIPPETS[random.below(len(SNIPPETS))])
            else:
                first, last = RANGES[random.below(len(RANGES))]
                points = [first + random.below(last - first) for _ in range(random.below(6))]
                out.append("".join(chr(p) for p in points if not 0xD800 <= p < 0xE000))
        texts.append("".join(out))
    return texts


def signature(encoding) -> str:
    """Of each token its id, type, place, word, sequence."""
    values = []
    for i, (id, type, (begin, end), word, special) in enumerate(zip(
            encoding.ids, encoding.type_ids, encoding.offsets, encoding.word_ids, encoding.special_tokens_mask)):
        sequence = None if special else encoding.token_to_sequence(i)
        values += [id, type, begin, end, -1 if word is None else word, -1 if sequence is None else sequence]
    return fnv(b"".join((v & 0xFFFFFFFF).to_bytes(4, "little") for v in values))


def combined(signatures: list[str]) -> str:
    return fnv(" ".join(signatures).encode())


STRATEGIES = ["longest_first", "only_first", "only_second"]


def odd_record(tokenizer: Tokenizer, number: int, first: str, second: str) -> str:
    """Everything that is asked about one pair of texts, as record() of tests/engine/test_tokenizer_pairs.cpp."""
    tokenizer.no_truncation()
    parts = [tokenizer.encode(first, add_special_tokens=False), tokenizer.encode(first), tokenizer.encode(first, second),
             tokenizer.encode(first, second, add_special_tokens=False)]
    if number % 4 == 0:
        parts.append(tokenizer.encode(first.split(" "), is_pretokenized=True))
    signatures = [signature(part) for part in parts]
    ids = parts[2].ids
    signatures += [fnv(tokenizer.decode(ids, skip_special_tokens=skip).encode()) for skip in (False, True)]
    random = Random(number)
    for strategy in STRATEGIES:
        length, stride = (48 if strategy == STRATEGIES[0] else 8) + random.below(60), random.below(4)
        tokenizer.enable_truncation(length, stride=stride, strategy=strategy)
        try:
            encoding = tokenizer.encode(first, second)
            signatures += [signature(one) for one in [encoding, *encoding.overflowing]]
        except BaseException as error:
            signatures.append("none")
    return combined(signatures)


def variants() -> dict[str, Tokenizer]:
    """The trained ones, and with every other way of putting special tokens around texts."""
    def changed(name: str, **parts) -> Tokenizer:
        json_ = json.loads((FOLDER / name / "tokenizer.json").read_text())
        for key, value in parts.items():
            target = json_["pre_tokenizer"] if key == "add_prefix_space" else json_["normalizer"] if key in ("lowercase", "strip_accents") else json_
            target[key] = value
        return Tokenizer.from_str(json.dumps(json_))
    ends = ["<|endoftext|>", 0]
    trim = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    around = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
              "pair": [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                       {"SpecialToken": {"id": "<|endoftext|>", "type_id": 1}}, {"Sequence": {"id": "B", "type_id": 1}}],
              "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [0, 0], "tokens": ["<|endoftext|>", "<|endoftext|>"]}}}
    return {
        "gpt2": changed("gpt2"), "bert": changed("bert"),
        "gpt2_trimmed": changed("gpt2", post_processor=trim),
        "gpt2_roberta": changed("gpt2", add_prefix_space=True, post_processor={
            "type": "RobertaProcessing", "sep": ends, "cls": ends, "trim_offsets": True, "add_prefix_space": True}),
        "gpt2_llama": changed("gpt2", post_processor={"type": "Sequence", "processors": [trim, around]}, decoder=trim),
        "bert_old": changed("bert", post_processor={"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
                            decoder={"type": "WordPiece", "prefix": "##", "cleanup": True}),
        "bert_cased": changed("bert", lowercase=False, strip_accents=None, decoder={"type": "WordPiece", "prefix": "##", "cleanup": False}),
        "bert_accents": changed("bert", strip_accents=False, lowercase=True),
    }


def main() -> None:
    data = Path(sys.argv[1])
    official = plain(models.BPE.from_file(str(data / "gpt2-vocab.json"), str(data / "gpt2-merges.txt")),
                     models.WordPiece.from_file(str(data / "bert-base-uncased-vocab.txt"), unk_token="[UNK]"))
    texts = odd_texts(2000)
    tokenizers_ = variants()
    official[0].decoder, official[1].decoder = decoders.ByteLevel(), decoders.WordPiece()
    official[0].post_processor = processors.TemplateProcessing(single="$A:0", pair="$A:0 $B:1", special_tokens=[])
    official[1].post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 101), ("[SEP]", 102)])
    tokenizers_ |= {"gpt2_official": official[0], "bert_official": official[1]}
    golden = {"text": combined([fnv(text.encode()) for text in texts]), "variants": {}, "hashes": {}}
    for name, tokenizer in tokenizers_.items():
        if not name.endswith("_official"):
            full = json.loads(tokenizer.to_str())
            golden["variants"][name] = {k: full[k] for k in ("post_processor", "decoder", "pre_tokenizer", "normalizer")}
        records = [odd_record(tokenizer, i, texts[i], texts[1000 + i]) for i in range(1000)]
        golden["hashes"][name] = "".join(record[:8] for record in records)
    (FOLDER / "pairs.json").write_text(json.dumps(golden, separators=(",", ":")).replace(',"', ',\n"') + "\n")


if __name__ == "__main__":
    main()
