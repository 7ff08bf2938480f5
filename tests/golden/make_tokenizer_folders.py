#!/usr/bin/env python3
"""Makes tokenizer/folders.json: what AutoTokenizer of Transformers makes of a folder, for the files that lie beside a vocabulary.

    make_tokenizer_folders.py [OUT]    needs transformers 5; the vocabularies are those of make_tokenizer_goldens.py

A case names a vocabulary, what is changed in its tokenizer.json, and the files beside it. What Transformers refuses has "refused".
SentencePiece's vocabularies are trained here, with the package sentencepiece, if they do not exist: tokenizer/spbp (pairs) and
tokenizer/spun (scores), with the tokenizer.json that T5Tokenizer makes from the second.
"""

import json
import logging
import os
import sys
import tempfile
import warnings
from pathlib import Path

import sentencepiece
import transformers
from sentencepiece import sentencepiece_model_pb2
from transformers import AutoTokenizer

from make_tokenizer_goldens import SENTENCES

FOLDER = Path(__file__).resolve().parent / "tokenizer"
TEXTS = ["Über den Café <new>the  whale</s> [MASK] <pad>東京x<|im_start|>y", " It's ÉTÉ<|endoftext|>the [CLS]sum <ent>!",
         "<s>the <extra_id_1> whale\n <mask>\u2581 xqzq <bos>Ishmael\t <ctl>"]
PAIR = ["the white whale", "Call me Ishmael, the sum"]
CONFIG, MAP, ADDED, MODEL = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "config.json"
SIZES = {"gpt2": len(json.loads((FOLDER / "gpt2/vocab.json").read_text())), "bert": len((FOLDER / "bert/vocab.txt").read_text().splitlines())}
KEYS = ["cls", "sep", "pad", "mask", "unk", "bos", "eos"]


def token(content: str, **more) -> dict:
    return {"content": content, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True} | more


def typed(content: str, **more) -> dict:
    return {"__type": "AddedToken"} | token(content, **more)


def cases():
    """(name, vocabulary, changes of tokenizer.json, files beside)"""
    end = token("<|endoftext|>")
    for kind, cls in (("gpt2", "GPT2Tokenizer"), ("bert", "BertTokenizer")):
        first = SIZES[kind]
        for form in ("plain", "json"):
            of = f"{kind}.{form}"
            next_id = first + (0 if form == "plain" else 1 if kind == "gpt2" else 2)
            classes = [cls, cls + "Fast"] + (["PreTrainedTokenizerFast", "TokenizersBackend", "PreTrainedTokenizer", None]
                                             if form == "json" else [])
            for one in classes:
                said = {"tokenizer_class": one} if one else {}
                yield f"class {one}", of, {}, {CONFIG: said, MODEL: {"model_type": kind}}
                for key in ("add_bos_token", "add_eos_token"):
                    yield f"{key} {one}", of, {}, {CONFIG: said | {key: True}, MODEL: {"model_type": kind}}
                for key in ("do_lower_case", "strip_accents", "tokenize_chinese_chars", "add_prefix_space"):
                    for value in (True, False):
                        yield f"{key} {value} {one}", of, {}, {CONFIG: said | {key: value}, MODEL: {"model_type": kind}}
                yield f"null switches {one}", of, {}, {CONFIG: said | {"strip_accents": None, "do_lower_case": False}, MODEL: {"model_type": kind}}
            said = {"tokenizer_class": cls}
            yield "model type alone", of, {}, {MODEL: {"model_type": kind}}
            yield "class in config.json", of, {}, {MODEL: {"model_type": "llama", "tokenizer_class": cls}}
            yield "class against model type", of, {}, {CONFIG: said, MODEL: {"model_type": "llama"}}
            yield "class against mistral", of, {}, {CONFIG: said, MODEL: {"model_type": "mistral"}}
            yield "no class of that name", of, {}, {CONFIG: {"tokenizer_class": "MadeUpTokenizer"}}
            yield "added_tokens.json", of, {}, {CONFIG: said, ADDED: {"<new>": next_id, "the  whale": next_id + 1}}
            yield "added_tokens.json that special_tokens_map names", of, {}, {
                CONFIG: said, ADDED: {"<new>": next_id, "<pad>": next_id + 1}, MAP: {"pad_token": "<pad>", "additional_special_tokens": ["<new>"]}}
            decoder = {str(first): token("<new>"), str(first + 1): token("the  whale", special=False, normalized=True)}
            yield "added_tokens_decoder", of, {}, {CONFIG: said | {"added_tokens_decoder": decoder}}
            yield "added_tokens_decoder with a hole", of, {}, {CONFIG: said | {"added_tokens_decoder": {str(first + 9): token("<new>")}}}
            yield "added_tokens_decoder before the others", of, {}, {
                CONFIG: said | {"added_tokens_decoder": {str(first): token("<new>")}}, ADDED: {"<pad>": next_id}, MAP: {"pad_token": "<ent>"}}
            yield "added_tokens_decoder, wide tokens", of, {}, {CONFIG: said | {"added_tokens_decoder": {
                str(first): token("<new>", lstrip=True, rstrip=True), str(first + 1): token("Café", single_word=True)}}}
            for key in ("pad_token", "bos_token", "unk_token", "mask_token", "eos_token"):
                if key == "unk_token" and kind == "bert":
                    continue
                yield f"{key} text", of, {}, {CONFIG: said | {key: "<pad>"}}
                yield f"{key} typed", of, {}, {CONFIG: said | {key: typed("<pad>", lstrip=key == "mask_token")}}
                yield f"{key} in the map", of, {}, {CONFIG: said, MAP: {key: "<pad>"}}
                yield f"{key} null", of, {}, {CONFIG: said | {key: None}}
            yield "pad_token in the map, with its switches", of, {}, {CONFIG: said, MAP: {"pad_token": token("<pad>", rstrip=True)}}
            yield "map against configuration", of, {}, {CONFIG: said | {"pad_token": "<ent>"}, MAP: {"pad_token": "<pad>"}}
            for key in ("additional_special_tokens", "extra_special_tokens"):
                yield f"{key} list", of, {}, {CONFIG: said | {key: ["<new>", "<ent>"]}}
                yield f"{key} in the map", of, {}, {CONFIG: said, MAP: {key: ["<new>", token("<ent>")]}}
                yield f"{key} typed", of, {}, {CONFIG: said | {key: [typed("<new>", rstrip=True)]}}
            yield "both lists", of, {}, {CONFIG: said | {"additional_special_tokens": ["<new>"], "extra_special_tokens": ["<ent>"]}}
            yield "extra_special_tokens named", of, {}, {CONFIG: said | {"extra_special_tokens": {"image_token": "<new>"}}}
            yield "a token of a name of its own", of, {}, {CONFIG: said | {"image_token": "<new>", "video_token": "<ent>"}}
            yield "extra_special_tokens named, against a name of its own", of, {}, {
                CONFIG: said | {"image_token": "<new>", "extra_special_tokens": {"image_token": "<ent>"}}}
            for second in ("PreTrainedTokenizerFast", cls):
                if form == "plain" and second != cls:
                    continue
                yield f"a token of two names {second}", of, {}, {
                    CONFIG: {"tokenizer_class": second, "bos_token": "<new>", "pad_token": typed("<new>", rstrip=True)}}
                yield f"a token of two names, wide first {second}", of, {}, {
                    CONFIG: {"tokenizer_class": second, "bos_token": typed("<new>", rstrip=True), "pad_token": "<new>"}}
                yield f"a token of two names in the map {second}", of, {}, {
                    CONFIG: {"tokenizer_class": second}, MAP: {"pad_token": "<new>", "additional_special_tokens": [token("<new>", rstrip=True)]}}
            yield "special tokens of the text", of, {}, {CONFIG: said | {"eos_token": "</s>", "bos_token": "the", "pad_token": "</s>"}}
            yield "names of inputs", of, {}, {CONFIG: said | {"model_input_names": ["input_ids", "attention_mask"]}}
            yield "names of inputs, with types", of, {}, {CONFIG: said | {"model_input_names": ["input_ids", "token_type_ids"]}}
            yield "sides", of, {}, {CONFIG: said | {"truncation_side": "left", "padding_side": "left"}}
            yield "length", of, {}, {CONFIG: said | {"model_max_length": 6}}
            yield "length of old", of, {}, {CONFIG: said | {"max_len": 5}}
            yield "length without end", of, {}, {CONFIG: said | {"model_max_length": 10**30}}
            if kind == "bert":
                yield "cls and sep", of, {}, {CONFIG: said | {"cls_token": "<s>", "sep_token": "</s>"}}
                yield "cls in the vocabulary", of, {}, {CONFIG: said | {"cls_token": "[MASK]", "sep_token": "[PAD]"}}
                yield "another class of BERT's", of, {}, {CONFIG: {"tokenizer_class": "DistilBertTokenizer", "do_lower_case": False}}
                yield "Electra's class", of, {}, {CONFIG: {"tokenizer_class": "ElectraTokenizerFast"}}
            else:
                yield "pad and eos", of, {}, {CONFIG: said | {"pad_token": "<|endoftext|>", "add_prefix_space": True, "add_bos_token": True}}
                yield "bos and eos around", of, {}, {CONFIG: said | {
                    "bos_token": "<s>", "eos_token": "</s>", "add_bos_token": True, "add_eos_token": True}}
                yield "Llama's class over bytes", of, {}, {CONFIG: {"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": True}}
    # A tokenizer.json that says otherwise.
    bert = json.loads((FOLDER / "bert/tokenizer.json").read_text())
    gpt2 = json.loads((FOLDER / "gpt2/tokenizer.json").read_text())
    for one in ("BertTokenizer", "PreTrainedTokenizerFast"):
        said = {"tokenizer_class": one}
        cased = {"normalizer": bert["normalizer"] | {"lowercase": False, "strip_accents": False, "handle_chinese_chars": False}}
        yield f"cased file {one}", "bert.json", cased, {CONFIG: said}
        yield f"cased file, cased configuration {one}", "bert.json", cased, {CONFIG: said | {
            "do_lower_case": False, "strip_accents": False, "tokenize_chinese_chars": False}}
        yield f"file without a processor {one}", "bert.json", {"post_processor": None}, {CONFIG: said}
        yield f"file with padding {one}", "bert.json", {
            "padding": {"strategy": "BatchLongest", "direction": "Left", "pad_to_multiple_of": None, "pad_id": 2, "pad_type_id": 0, "pad_token": "[CLS]"},
            "truncation": {"direction": "Left", "max_length": 5, "strategy": "LongestFirst", "stride": 0}}, {CONFIG: said}
        yield f"other prefix {one}", "bert.json", {"model": bert["model"] | {"max_input_chars_per_word": 3}}, {CONFIG: said}
    # Classes that take the vocabulary alone, and make the rest anew.
    for one in ("RobertaTokenizer", "BartTokenizerFast", "GPTNeoXTokenizerFast", "CodeLlamaTokenizer", "CLIPTokenizer", "GemmaTokenizer",
                "CohereTokenizerFast", "WhisperTokenizer", "T5Tokenizer"):
        yield f"made anew by {one}", "gpt2.json", {}, {CONFIG: {"tokenizer_class": one}}
    for one in ("gpt_neox", "roberta", "t5", "falcon"):
        yield f"model type alone {one}", "gpt2.json", {}, {MODEL: {"model_type": one}}
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [0], "tokens": ["<|endoftext|>"]}}}
    prefixed = {"pre_tokenizer": gpt2["pre_tokenizer"] | {"add_prefix_space": True}}
    for one in ("GPT2Tokenizer", "PreTrainedTokenizerFast"):
        said = {"tokenizer_class": one}
        yield f"prefix in the file {one}", "gpt2.json", prefixed, {CONFIG: said}
        yield f"prefix in the file, not beside {one}", "gpt2.json", prefixed, {CONFIG: said | {"add_prefix_space": False}}
        yield f"prefix in both {one}", "gpt2.json", prefixed, {CONFIG: said | {"add_prefix_space": True}}
        yield f"template in the file {one}", "gpt2.json", {"post_processor": template}, {CONFIG: said | {"add_bos_token": False}}
        yield f"template in the file, eos asked {one}", "gpt2.json", {"post_processor": template}, {CONFIG: said | {"add_eos_token": True}}
        yield f"file without a processor {one}", "gpt2.json", {"post_processor": None}, {CONFIG: said | {"add_bos_token": True, "bos_token": "<|endoftext|>"}}
        yield f"file without added tokens {one}", "gpt2.json", {"added_tokens": []}, {CONFIG: said}
        yield f"file's added tokens against the decoder {one}", "gpt2.json", {}, {CONFIG: said | {"added_tokens_decoder": {
            "0": end, "420": token("<new>"), "421": token("<ent>", special=False)}}}
        yield f"the decoder repeats the file {one}", "gpt2.json", {}, {CONFIG: said | {"added_tokens_decoder": {
            "0": end, "420": token("the sum", special=False, normalized=True), "421": token("<ent>", special=False)}}}


    # SentencePiece's vocabularies with the classes that read them.
    mask = {"mask_token": typed("<mask>", lstrip=True)}
    for one in ("RobertaTokenizer", "BartTokenizerFast", "GPTNeoXTokenizerFast"):
        for form in ("plain", "json"):
            said = {"tokenizer_class": one}
            yield f"prefix {one}", f"gpt2.{form}", {}, {CONFIG: said | {"add_prefix_space": True, "trim_offsets": False} | mask}
            yield f"bos asked {one}", f"gpt2.{form}", {}, {CONFIG: said | {"add_bos_token": True, "add_eos_token": True}}
            yield f"other ends {one}", f"gpt2.{form}", {}, {CONFIG: said | {"cls_token": "the", "sep_token": "<|endoftext|>", "eos_token": "the"}}
    for one in ("roberta", "gpt_neox", "olmo", "qwen3"):
        yield f"model type alone {one}", "gpt2.plain", {}, {MODEL: {"model_type": one}}
    for one in ("falcon", "stablelm", "phi", "xlm-roberta", "camembert"):
        yield f"model type alone {one}", "gpt2.json", {}, {MODEL: {"model_type": one}}
    yield "class against stablelm", "gpt2.json", {}, {CONFIG: {"tokenizer_class": "GPTNeoXTokenizer"}, MODEL: {"model_type": "stablelm"}}
    pieces = {"0": token("<unk>"), "1": token("<s>"), "2": token("</s>")}
    for one in ("LlamaTokenizer", "GemmaTokenizer", "T5Tokenizer", "XLMRobertaTokenizerFast", "PreTrainedTokenizerFast", "MadeUpTokenizer", None):
        said = {"tokenizer_class": one} if one else {}
        for of in ("spbp.model", "spun.model", "spun.json"):
            if of == "spun.json" and one in ("LlamaTokenizer", "GemmaTokenizer"):
                continue
            yield f"pieces {one}", of, {}, {CONFIG: said}
            yield f"bos and eos {one}", of, {}, {CONFIG: said | {"add_bos_token": True, "add_eos_token": True}}
            yield f"prefix space {one}", of, {}, {CONFIG: said | {"add_prefix_space": False}}
            yield f"legacy {one}", of, {}, {CONFIG: said | {"legacy": one is None or one == "MadeUpTokenizer"}}
            yield f"not legacy {one}", of, {}, {CONFIG: said | {"legacy": False}}
            yield f"added tokens {one}", of, {}, {CONFIG: said | {"additional_special_tokens": ["<new>"], "extra_ids": 3}}
            yield f"more tokens {one}", of, {}, {CONFIG: said | {"extra_special_tokens": ["<new>"], "pad_token": "<ent>"} | mask}
            if of == "spbp.model":
                yield f"decoder {one}", of, {}, {CONFIG: said | {"added_tokens_decoder": pieces, "bos_token": typed("<s>"), "eos_token": "</s>"}}
                yield f"decoder with another name {one}", of, {}, {CONFIG: said | {"added_tokens_decoder": pieces | {"3": token("<new>")}}}
    for one in ("llama", "gemma", "gemma3_text", "t5", "mt5", "xlm-roberta", "mistral", "falcon"):
        yield f"model type alone {one}", "spbp.model" if one[0] in "glmf" and one != "mt5" else "spun.model", {}, {MODEL: {"model_type": one}}


RULES = "C9\t45\nFB01\t66 69\n3000\t20\n"  # normalization rules: few, for small files


def forget_paths(model: Path) -> None:
    """A model remembers the files that it was trained from."""
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.read_bytes())
    proto.trainer_spec.ClearField("input")
    proto.trainer_spec.ClearField("model_prefix")
    proto.normalizer_spec.ClearField("normalization_rule_tsv")
    model.write_bytes(proto.SerializeToString())


def train() -> None:
    """Writes small SentencePiece models, and a tokenizer.json of one."""
    with tempfile.TemporaryDirectory() as scratch:
        text, rules = Path(scratch) / "text", Path(scratch) / "rules"
        text.write_text("\n".join(SENTENCES))
        rules.write_text(RULES)
        for name, options in (("spbp", {"model_type": "bpe", "byte_fallback": True, "vocab_size": 400, "character_coverage": 0.99,
                                        "control_symbols": ["<ctl>"], "user_defined_symbols": ["<ent>", "  "]}),
                              ("spun", {"model_type": "unigram", "vocab_size": 150, "hard_vocab_limit": False, "pad_id": 0, "eos_id": 1,
                                        "unk_id": 2, "bos_id": -1, "control_symbols": ["<ctl>"]})):
            (FOLDER / name).mkdir(exist_ok=True)
            sentencepiece.SentencePieceTrainer.train(input=str(text), model_prefix=str(FOLDER / name / "tokenizer"), num_threads=1, minloglevel=2,
                                                     normalization_rule_tsv=str(rules), **options)
            (FOLDER / name / "tokenizer.vocab").unlink()
            forget_paths(FOLDER / name / "tokenizer.model")
    tokenizer = transformers.T5Tokenizer.from_pretrained(FOLDER / "spun")
    tokenizer.backend_tokenizer.save(str(FOLDER / "spun/tokenizer.json"), pretty=False)


def write(folder: Path, vocabulary: str, changes: dict, files: dict) -> None:
    kind, form = vocabulary.split(".")
    if form == "model":
        (folder / "tokenizer.model").write_bytes((FOLDER / kind / "tokenizer.model").read_bytes())
    elif form == "json":
        whole = json.loads((FOLDER / kind / "tokenizer.json").read_text()) | changes
        (folder / "tokenizer.json").write_text(json.dumps(whole))
    else:
        for name in ("vocab.txt",) if kind == "bert" else ("vocab.json", "merges.txt"):
            (folder / name).write_text((FOLDER / kind / name).read_text())
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))


def result(folder: Path) -> dict:
    try:
        t = AutoTokenizer.from_pretrained(folder)
        known = t.get_vocab()

        def ids(*texts, **options):
            return t(*texts, return_attention_mask=False, **options)["input_ids"]

        longest = getattr(t, "model_max_length", None)
        special = {key: getattr(t, f"{key}_token_id") for key in KEYS}
        return {"texts": [ids(text, add_special_tokens=False) for text in TEXTS],
                "decoded": [t.decode(ids(text, add_special_tokens=False)) for text in TEXTS], "around": ids(PAIR[0]), "pair": ids(*PAIR),
                "types": t(*PAIR).get("token_type_ids", [0] * len(ids(*PAIR))),
                "windows": ids(PAIR[1], truncation=True, max_length=6, stride=1, return_overflowing_tokens=True),
                "cut": ids(*PAIR, truncation=True, max_length=7), "size": len(known),
                "special": {key: value for key, value in special.items() if value is not None},
                "length": longest if longest < 10**9 else None, "pads_left": t.padding_side == "left"}
    except Exception as error:  # whatever it is: what is refused there cannot be compared
        return {"refused": f"{type(error).__name__}: {error}".split("\n")[0][:120]}


def main() -> None:
    logging.disable(logging.CRITICAL)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    if not (FOLDER / "spun/tokenizer.json").exists():
        train()
    warnings.filterwarnings("ignore")
    found, results = [], []
    for name, vocabulary, changes, files in cases():
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), vocabulary, changes, files)
            one = result(Path(folder))
        one = {key: value.replace(folder, "FOLDER") if key == "refused" else value for key, value in one.items()}
        if one not in results:
            results.append(one)
        found.append({"name": name, "vocabulary": vocabulary, "changes": changes, "files": files, "result": results.index(one)})
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER / "folders.json"

    def lines(list_of: list) -> str:
        return ",\n".join(json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in list_of)

    out.write_text(f'{{"transformers": "{transformers.__version__}", "texts": {json.dumps(TEXTS, ensure_ascii=False)}, '
                   f'"pair_texts": {json.dumps(PAIR)},\n"results": [\n{lines(results)}\n],\n"cases": [\n{lines(found)}\n]}}\n')


if __name__ == "__main__":
    main()
