#!/usr/bin/env python3
"""Makes the golden files of tokenizer/ with Hugging Face `tokenizers`.

    make_tokenizer_goldens.py DATA    DATA: the folder with the official vocabularies and moby-dick.txt

Two small tokenizers, one of each kind, are trained on a few sentences and saved in every form that can be read. Texts and
their ids stand in cases.json; of long texts, made alike here and in tests/engine/test_tokenizer.cpp, only FNV-1a hashes.
"""

import json
import sys
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

FOLDER = Path(__file__).resolve().parent / "tokenizer"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
END = "<|endoftext|>"
SENTENCES = [
    "The whale, the white whale! Call me Ishmael; it's what they've called me, isn't it? We'll see: I'd say I'm here.",
    "for (int i = 0; i < 10; ++i) {\n    total += values[i];  // the sum\n}\n",
    "Über die Straße ging ein Café-Besitzer; naïve façade, résumé, señor. 1234567890 and 3.14159.",
    "東京は日本の首都です。 العربية لغة جميلة. Привет, мир! 안녕하세요 세계 🙂🚀",
] * 4
TEXTS = SENTENCES[:4] + [
    "", " ", "  ", "\n", " \n ", "a", " a", "  a", "\ta\t", "a  ", "a \n\n  b", "\u00a0x\u2003y\u3000z", "don't DON'T 'tis 's",
    "'ll've're'm'd't's'x", " 's ' '", "abc123def", "½²Ⅷ٣", "a\u0301e\u0327\u0301", "A\u030angstro\u0308m ÅNGSTRÖM İI ΑΣ Σ",
    f"one{END}two {END} {END}{END}<|endof", "[MASK] [mask] a[SEP]b[CLS", "\x00a\x01b\x7fc\u200bd\ufeffe\ufffdf",
    "漢字kanji\uf900\U0002f800", "한국어 각", "\u302e\U0001d165x\u302e\u0334\U0001d165\U00011127\u302e", "👩‍👩‍👧‍👦🇩🇪", "🙂" * 40,
    "x" * 100, "x" * 101, "é" * 100 + " " + "é" * 101, "a" * 300, "!?…—¿«»$+<=>^`|~", "\r\n\r\n", "\u2028\u2029\u0085\u180e",
]
MASK64 = (1 << 64) - 1


def fnv(data: bytes) -> str:
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & MASK64
    return f"{value:016x}"


def hash_ids(ids: list[int]) -> str:
    return fnv(b"".join(i.to_bytes(4, "little") for i in ids))


def every_code_point() -> str:
    """Each between letters, digits, blanks, marks and itself."""
    points = (p for p in range(0x110000) if not 0xD800 <= p < 0xE000)
    return "".join(f"a{chr(p)}b {chr(p)}\u302e{chr(p)}1\u0301{chr(p)} {chr(p)}\n" for p in points)


class Random:
    """Knuth's MMIX generator; its high bits."""

    def __init__(self, seed: int):
        self.state = seed

    def below(self, bound: int) -> int:
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) & MASK64
        return (self.state >> 33) % bound


RANGES = [(0x20, 0x7F), (0x00, 0x80), (0xA0, 0x250), (0x300, 0x370), (0x370, 0x530), (0x590, 0x700), (0x900, 0x1000),
          (0x1E00, 0x2100), (0x3000, 0x3100), (0x4E00, 0x9FFF), (0xAC00, 0xD7A4), (0xF900, 0xFB00), (0x1D100, 0x1D200),
          (0x1F300, 0x1F700), (0x0, 0x20000)]
SNIPPETS = [" ", "\n", "\r\n", "\t", "\u00a0", END, "<|endoftext", "[SEP]", "[mask]", "'s", " 'LL", "don't", "''re",
            "if (x != 0) { return f(&x)[i++]; }\n", "def f(self, *args):\n    return {**args}\n", "\u302e\U0001d165", "e\u0301", "-"]


def mixed_text(novel: str) -> str:
    """More than a megabyte: the novel's lines in pieces, between code, emoji, scripts, marks and long runs."""
    random, out = Random(2026), []
    lines = novel.split("\n")
    for _ in range(9000):
        kind = random.below(4)
        if kind == 0:
            at = random.below(len(lines))
            out.append("\n".join(lines[at:at + 8]))
        elif kind == 1:
            first, last = RANGES[random.below(len(RANGES))]
            points = [first + random.below(last - first) for _ in range(random.below(60))]
            out.append("".join(chr(p) for p in points if not 0xD800 <= p < 0xE000))
        elif kind == 2:
            out.append(SNIPPETS[random.below(len(SNIPPETS))])
        else:
            out.append(SNIPPETS[random.below(len(SNIPPETS))] * random.below(40))
    return "".join(out)


def byte_level(model) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def word_piece(model) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def train() -> tuple[Tokenizer, Tokenizer]:
    gpt2 = byte_level(models.BPE())
    gpt2.train_from_iterator(SENTENCES, trainers.BpeTrainer(
        vocab_size=420, show_progress=False, special_tokens=[END], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    gpt2.add_tokens([AddedToken("the sum", normalized=True)])
    bert = word_piece(models.WordPiece(unk_token="[UNK]"))
    bert.train_from_iterator(SENTENCES, trainers.WordPieceTrainer(
        vocab_size=330, show_progress=False, special_tokens=SPECIAL))
    bert.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    bert.add_tokens([AddedToken("Straße", normalized=True), AddedToken("Besitzer", normalized=False)])
    return gpt2, bert


def save(gpt2: Tokenizer, bert: Tokenizer) -> None:
    for name, tokenizer in (("gpt2", gpt2), ("bert", bert)):
        (FOLDER / name).mkdir(parents=True, exist_ok=True)
        tokenizer.save(str(FOLDER / name / "tokenizer.json"), pretty=False)
        tokenizer.model.save(str(FOLDER / name))


def encode(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False).ids


def plain(gpt2_model, bert_model) -> tuple[Tokenizer, Tokenizer]:
    """What the other files stand for: only the usual special tokens."""
    gpt2, bert = byte_level(gpt2_model), word_piece(bert_model)
    gpt2.add_special_tokens([END])
    bert.add_special_tokens(SPECIAL)
    return gpt2, bert


def main() -> None:
    data = Path(sys.argv[1])
    trained = train()
    save(*trained)
    small = plain(models.BPE.from_file(str(FOLDER / "gpt2/vocab.json"), str(FOLDER / "gpt2/merges.txt")),
                  models.WordPiece.from_file(str(FOLDER / "bert/vocab.txt"), unk_token="[UNK]"))
    official = plain(models.BPE.from_file(str(data / "gpt2-vocab.json"), str(data / "gpt2-merges.txt")),
                     models.WordPiece.from_file(str(data / "bert-base-uncased-vocab.txt"), unk_token="[UNK]"))
    points = every_code_point()
    novel = (data / "moby-dick.txt").read_bytes().decode()
    mixed = mixed_text(novel)
    # Normalization and words by themselves: most of these code points are unknown to any vocabulary.
    switches = {"uncased": normalizers.BertNormalizer(), "cased": normalizers.BertNormalizer(lowercase=False),
                "accents": normalizers.BertNormalizer(strip_accents=False),
                "no_cjk": normalizers.BertNormalizer(handle_chinese_chars=False)}
    bert_words = {}
    for name, normalizer in switches.items():
        words = pre_tokenizers.BertPreTokenizer().pre_tokenize_str(normalizer.normalize_str(points))
        bert_words[name] = fnv("".join(word + "\n" for word, _ in words).encode())
    golden = {
        "tokenizers": tokenizers.__version__,
        "every_code_point": {"text": fnv(points.encode()), "gpt2": hash_ids(encode(trained[0], points)),
                             "bert_words": bert_words},
        "mixed": {"text": fnv(mixed.encode()), "bytes": len(mixed.encode()), "gpt2": hash_ids(encode(official[0], mixed)),
                  "bert": hash_ids(encode(official[1], mixed))},
        "novel": {"gpt2": hash_ids(encode(official[0], novel)), "bert": hash_ids(encode(official[1], novel))},
        "cases": [{"text": text, "gpt2": encode(trained[0], text), "bert": encode(trained[1], text),
                   "gpt2_plain": encode(small[0], text), "bert_plain": encode(small[1], text)} for text in TEXTS],
    }
    (FOLDER / "cases.json").write_text(json.dumps(golden, ensure_ascii=True, separators=(",", ":")).replace('{"text"', '\n{"text"') + "\n")


if __name__ == "__main__":
    main()
