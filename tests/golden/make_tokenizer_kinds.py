#!/usr/bin/env python3
"""Makes tokenizer/kinds/ with Hugging Face `tokenizers`: a small tokenizer of every kind, and digests of what each makes of
odd texts.

    make_tokenizer_kinds.py

A digest stands for the ids, the places and the decoded text of one text; four digits of it are kept, in the order of the
texts, which are made alike here and in tests/engine/test_tokenizer_kinds.cpp.
"""

import json
import tempfile
from pathlib import Path

import sentencepiece
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from make_tokenizer_goldens import FOLDER, RANGES, SENTENCES, SNIPPETS, Random, fnv
from make_tokenizer_pairs import PARTS

KINDS = FOLDER / "kinds"
COUNT, STREAMED = 1000, 200
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
GPT4 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = (r"[!" + '"' + r"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
            r"\s*[\r\n]+|\s+(?!\S)|\s+")
KIMI = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|"
        r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
# Beside those of the pairs: what the pieces of these tokenizers look like, and characters of new editions of Unicode.
MORE = ["\u2581", " \u2581 ", "<0x0A>", "<unk>", "<s>", "</s>", "<|eot|>", " <|eot|>\n\n x", "<mask>", " <mask>  x", "wordy", "word", "xwordx",
        "  ", "   \n", "\n\n", "\t \r\n x", "1234567", "12,345.67", "'S'T'Re", "\u017f's'\u017f", "don't WE'LL I'VE", "\u2160\u00bc\u0664",
        "\u180e x", "\u2028a\u0085b", "\U00011f04\U00011f05", "\U0001e4d0", "\U000323af\U0002ebf0", "\ua7dc\ua7cb", "\U00010d4a\U00010d65", "\u0897",
        "\U0001ccd6", "\u1c89\u1c8a", "\u31ef", "\U0001fae9", "e\u0301\u0327", "\u1112\u1161\u11ab", "\ud55c\u11a8", "\ufb00\ufb03 st\ufb05",
        "\u33a1\u2460\uff21\uff76\uff9e", "``x''", "a  b   c", "camelCaseWORDSHere", "x_1-y/z", "\u4e2d\u6587\u3042\u30a2\u30fc", "\r\n", "a\u200db",
        "\U0001f469\u200d\U0001f4bb", "\u0915\u094d\u0937", "\u0600 1", "##", "</w>", "|", "||x|", "_", "\u01c5\u02b0\u0e01\u0301"]


def odd_texts(count: int, seed: int = 17) -> list[str]:
    """Words of the sentences between everything that is odd."""
    random, texts = Random(seed), []
    words = " ".join(SENTENCES[:4]).split(" ")
    parts = PARTS + SNIPPETS + MORE
    for _ in range(count):
        out = []
        for _ in range(random.below(12)):
            kind = random.below(7)
            if kind < 2:
                out.append(words[random.below(len(words))] + " ")
            elif kind < 6:
                out.append(parts[random.below(len(parts))])
            else:
                first, last = RANGES[random.below(len(RANGES))]
                points = [first + random.below(last - first) for _ in range(random.below(6))]
                out.append("".join(chr(p) for p in points if not 0xD800 <= p < 0xE000))
        texts.append("".join(out))
    return texts


def record(tokenizer: Tokenizer, text: str) -> str:
    """Ids and places without special tokens and with them, and decoded texts."""
    values = []
    for encoding in (tokenizer.encode(text, add_special_tokens=False), tokenizer.encode(text)):
        values.append(len(encoding.ids))
        for id, (begin, end) in zip(encoding.ids, encoding.offsets):
            values += [id, begin, end]
    data = b"".join(v.to_bytes(4, "little") for v in values)
    for skip in (False, True):
        data += tokenizer.decode(encoding.ids, skip_special_tokens=skip).encode() + b"\0"
    return fnv(data)


def added(content: str, **options) -> AddedToken:
    return AddedToken(content, **({"normalized": False} | options))


def trained(model, trainer, normalizer=None, pre_tokenizer=None, decoder=None, post_processor=None, tokens=()) -> Tokenizer:
    tokenizer = Tokenizer(model)
    for part, value in (("normalizer", normalizer), ("pre_tokenizer", pre_tokenizer)):
        if value is not None:
            setattr(tokenizer, part, value)
    tokenizer.train_from_iterator(SENTENCES, trainer)
    if decoder is not None:
        tokenizer.decoder = decoder
    if post_processor is not None:
        tokenizer.post_processor = post_processor
    for token in tokens:
        (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
    return tokenizer


def edited(tokenizer: Tokenizer, **parts) -> Tokenizer:
    """With parts of its file replaced: "model.x" is x in the model."""
    file = json.loads(tokenizer.to_str())
    for key, value in parts.items():
        target = file["model"] if key.startswith("model_") else file
        target[key.removeprefix("model_")] = value
    return Tokenizer.from_str(json.dumps(file))


def bpe_trainer(size: int, special=("<unk>",), alphabet=(), **more):
    return trainers.BpeTrainer(vocab_size=size, show_progress=False, special_tokens=list(special), initial_alphabet=list(alphabet), **more)


ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
ENDS = [AddedToken("<s>", special=True, normalized=False), AddedToken("<|eot|>", special=True, normalized=False, rstrip=True),
        AddedToken("<mask>", special=True, normalized=False, lstrip=True), AddedToken("word", single_word=True, normalized=True)]


def begins_with(tokenizer: Tokenizer, token: str, before=()) -> Tokenizer:
    """Puts the token before every text."""
    template = processors.TemplateProcessing(single=f"{token} $A", pair=f"{token} $A {token}:1 $B:1",
                                             special_tokens=[(token, tokenizer.token_to_id(token))])
    tokenizer.post_processor = processors.Sequence([*before, template]) if before else template
    return tokenizer


def byte_level_kinds() -> dict[str, Tokenizer]:
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)

    def by(*steps, normalizer=None, alphabet=ALPHABET, special=("<|end|>",), tokens=ENDS, size=380, **model) -> Tokenizer:
        return trained(models.BPE(**model), bpe_trainer(size, special, alphabet), normalizer,
                       pre_tokenizers.Sequence(list(steps)) if len(steps) > 1 else steps[0], decoders.ByteLevel(), tokens=tokens)

    def split(pattern: str) -> pre_tokenizers.Split:
        return pre_tokenizers.Split(Regex(pattern), "isolated")
    llama3 = begins_with(by(split(LLAMA3), byte_level, ignore_merges=True), "<s>", [processors.ByteLevel(trim_offsets=False)])
    neox = by(pre_tokenizers.ByteLevel(add_prefix_space=False), normalizer=normalizers.NFC(),
              tokens=[AddedToken(" " * n, normalized=True) for n in (5, 4, 3, 2)])
    roberta = by(pre_tokenizers.ByteLevel(add_prefix_space=True))
    end = ("<s>", roberta.token_to_id("<s>"))
    roberta.post_processor = processors.RobertaProcessing(end, end, trim_offsets=True, add_prefix_space=True)
    clip = by(pre_tokenizers.Split(Regex(CLIP), "removed", invert=True), pre_tokenizers.ByteLevel(add_prefix_space=False),
              normalizer=normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]),
              unk_token="<|end|>", end_of_word_suffix="</w>")
    return {
        "llama3": llama3, "qwen2": by(split(QWEN2), byte_level, normalizer=normalizers.NFC()),
        "gpt4": by(split(GPT4), byte_level), "gpt4o": by(split(GPT4O), byte_level), "kimi": by(split(KIMI), byte_level),
        "deepseek": by(split(r"\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"), split(DEEPSEEK), byte_level),
        "neox": neox, "roberta": roberta, "clip": edited(clip, decoder={"type": "BPEDecoder", "suffix": "</w>"}),
        "falcon": by(pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
                     pre_tokenizers.Digits(False), split("[0-9][0-9][0-9]")),
        "starcoder": by(pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)),
        "some_bytes": by(pre_tokenizers.ByteLevel(add_prefix_space=True), alphabet=(), special=("<unk>",), unk_token="<unk>", fuse_unk=True),
        "fewer_bytes": by(pre_tokenizers.ByteLevel(), alphabet=(), size=200),
        "byte_normalizer": trained(models.BPE(), bpe_trainer(360, (), ALPHABET), normalizers.Sequence([normalizers.NFKC(), normalizers.ByteLevel()]),
                                   pre_tokenizers.FixedLength(7), decoders.ByteLevel()),
    }


def sentencepiece_kinds() -> dict[str, Tokenizer]:
    """Byte-pair encoding of characters, as it comes of SentencePiece's models."""
    decoder = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    old = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])

    def by(normalizer, pre_tokenizer, decoder, tokens=ENDS, special=("<unk>", *BYTES), **model) -> Tokenizer:
        words = pre_tokenizer or pre_tokenizers.Metaspace()  # to train on; a whole text is not a word there
        tokenizer = trained(models.BPE(**({"unk_token": "<unk>", "byte_fallback": True, "fuse_unk": True} | model)),
                            bpe_trainer(520, special), None, words, decoder)
        file = json.loads(tokenizer.to_str())
        file["added_tokens"] = [one for one in file["added_tokens"] if one["content"] == "<unk>"]
        file["normalizer"] = json.loads(normalizer.__getstate__()) if normalizer else None
        file["pre_tokenizer"] = json.loads(pre_tokenizer.__getstate__()) if pre_tokenizer else None
        tokenizer = Tokenizer.from_str(json.dumps(file))
        for token in tokens:
            (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
        return tokenizer
    gemma = by(normalizers.Replace(" ", "\u2581"), None, decoders.Sequence(decoder))
    gemma.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    return {
        "llama2": begins_with(by(old, None, decoders.Sequence([*decoder, decoders.Strip(" ", 1, 0)])), "<s>"),
        "llama2_first": by(None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False), decoders.Sequence([*decoder, decoders.Strip(" ", 1, 0)])),
        "gemma": gemma,
        "crossing": edited(by(old, None, decoders.Sequence(decoder), byte_fallback=False, fuse_unk=False, special=("<unk>",)),
                           pre_tokenizer=None),
        "metaspace_never": by(normalizers.NFKC(), pre_tokenizers.Metaspace(prepend_scheme="never"), decoders.Metaspace(prepend_scheme="never")),
        "metaspace_first": by(normalizers.Sequence([normalizers.NFKD(), normalizers.Strip(), normalizers.StripAccents()]),
                              pre_tokenizers.Metaspace(replacement="_", prepend_scheme="first"), decoders.Metaspace(replacement="_", prepend_scheme="first")),
        "whole_first": by(old, None, decoders.Sequence(decoder), ignore_merges=True, fuse_unk=False, byte_fallback=False),
    }


def charsmap() -> str:
    """SentencePiece's, of some rules; in base64."""
    rules = [("\ufb01", "fi"), ("\u00bd", "1/2"), ("\u2460", "1"), ("e\u0301", "\u00e9"), ("\u3000", " "), ("\t", " "), ("\u200b", ""),
             ("\u212b", "\u00c5"), ("\u0958", "\u0915\u093c"), ("A\u030a", "\u00c5"), ("\uff76\uff9e", "\u30ac"), ("\n", " "), ("\u0130", "i")]
    with tempfile.TemporaryDirectory() as folder:
        rules_file, text = Path(folder, "rules.tsv"), Path(folder, "text.txt")
        rules_file.write_text("".join("\t".join(" ".join(f"{ord(c):X}" for c in part) for part in rule) + "\n" for rule in rules))
        text.write_text("\n".join(SENTENCES))
        sentencepiece.SentencePieceTrainer.train(input=str(text), model_prefix=f"{folder}/m", vocab_size=260, hard_vocab_limit=False,
                                                 normalization_rule_tsv=str(rules_file), minloglevel=2)
        from sentencepiece import sentencepiece_model_pb2 as proto
        model = proto.ModelProto.FromString(Path(folder, "m.model").read_bytes())
    import base64
    return base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode()


def unigram_kinds() -> dict[str, Tokenizer]:
    words = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])

    def by(normalizer, pre_tokenizer, tokens=ENDS, special=("<unk>", "</s>"), **model) -> Tokenizer:
        trainer = trainers.UnigramTrainer(vocab_size=300, show_progress=False, special_tokens=list(special), unk_token="<unk>")
        tokenizer = trained(models.Unigram(), trainer, normalizer, pre_tokenizer, decoders.Metaspace(), tokens=tokens)
        return edited(tokenizer, **{f"model_{key}": value for key, value in model.items()}) if model else tokenizer
    map_ = {"type": "Precompiled", "precompiled_charsmap": charsmap()}
    t5 = edited(by(None, words), normalizer=map_)
    t5.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    spaces = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
    quotes = [{"type": "Replace", "pattern": {"String": two}, "content": '"'} for two in ("``", "''")]
    albert = edited(by(None, words), normalizer={"type": "Sequence", "normalizers": [
        *quotes, {"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}, map_, spaces]})
    return {
        "t5": t5, "albert": albert, "xlmr": by(normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC()]), pre_tokenizers.Metaspace()),
        "unigram_bytes": by(None, pre_tokenizers.Metaspace(prepend_scheme="first"), special=("<unk>", *BYTES), tokens=(), byte_fallback=True),
        "unigram_whole": by(normalizers.Replace(" ", "\u2581"), None, tokens=()),
    }


def word_kinds() -> dict[str, Tokenizer]:
    piece = lambda size=260: trainers.WordPieceTrainer(vocab_size=size, show_progress=False, special_tokens=["[UNK]"])
    level = trainers.WordLevelTrainer(vocab_size=120, show_progress=False, special_tokens=["[UNK]"])

    def words(pre_tokenizer, normalizer=None, decoder=None) -> Tokenizer:
        return trained(models.WordLevel(unk_token="[UNK]"), level, normalizer, pre_tokenizer, decoder, tokens=ENDS)
    kinds = {
        "bert_as_is": trained(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=8), piece(),
                              normalizers.BertNormalizer(clean_text=False, strip_accents=True, lowercase=False), pre_tokenizers.BertPreTokenizer(),
                              decoders.WordPiece(), tokens=ENDS),
        "prefixes": trained(models.BPE(unk_token="[UNK]", continuing_subword_prefix="##", end_of_word_suffix="</w>"),
                            bpe_trainer(300, ["[UNK]"], continuing_subword_prefix="##", end_of_word_suffix="</w>"),
                            normalizers.BertNormalizer(), pre_tokenizers.Whitespace(), decoders.BPEDecoder()),
        "level": words(pre_tokenizers.Whitespace(), normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()])),
        "ctc": words(pre_tokenizers.CharDelimiterSplit("|"), None, decoders.CTC(pad_token="<s>", word_delimiter_token="|")),
        "punctuation": words(pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("merged_with_previous")]),
                             normalizers.Strip(right=False), decoders.Fuse()),
    }
    patterns = {"s": "a", "r": Regex(r"[aeiou]+|\s|\b"), "w": Regex(r"\w{2,3}+|^.|(?<=x)\W|$"), "h": Regex(r"(?i)the|\h{2}|[^x-z]\d{2}+")}
    for (name, pattern), (number, behavior) in ((a, b) for a in patterns.items() for b in enumerate(
            ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"])):
        if name == "s" or number in {"r": (0, 1, 4), "w": (2, 3), "h": (1, 3)}[name]:
            kinds[f"split_{name}{number}"] = words(pre_tokenizers.Split(pattern, behavior, invert=(number + len(name)) % 2 == 0 and name != "r"))
    return kinds


def all_kinds() -> dict[str, Tokenizer]:
    return byte_level_kinds() | sentencepiece_kinds() | unigram_kinds() | word_kinds()


def stream_record(tokenizer: Tokenizer, text: str) -> str:
    """Four digits of what decoding token by token gives, part by part; "----" where `tokenizers` ends with an error."""
    stream = decoders.DecodeStream(skip_special_tokens=True)
    try:
        parts = [stream.step(tokenizer, i) or "" for i in tokenizer.encode(text, add_special_tokens=False).ids]
    except Exception:  # the package's own, "Invalid prefix encountered"
        return "----"
    return fnv("|".join(parts).encode())[:4]


def main() -> None:
    KINDS.mkdir(parents=True, exist_ok=True)
    texts = odd_texts(COUNT)
    golden = {"tokenizers": tokenizers.__version__, "text": fnv("\n".join(texts).encode()), "files": {}, "digests": {}, "streams": {}}
    for name, tokenizer in all_kinds().items():
        golden["files"][name] = json.loads(tokenizer.to_str(pretty=False))
        golden["digests"][name] = "".join(record(tokenizer, text)[:4] for text in texts)
        golden["streams"][name] = "".join(stream_record(tokenizer, text) for text in texts[:STREAMED])
    (KINDS / "kinds.json").write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
