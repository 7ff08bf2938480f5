"""Chat templates as Transformers renders and tokenizes them: text, ids and assistant masks of random conversations.

    python tests/golden/make_chat_goldens.py [--records N --cases FILE]

Templates are those of chat/templates.txt. Writes chat/tokenizer (a byte-level BPE with the special tokens of all templates) and
chat/cases.json; of the small templates of chat/expressions.txt, which say what the language does, chat/expressions.json. With --records it writes that many cases, with their whole texts, to FILE in place of both.
Made with Transformers 5.24 and Jinja 3.1.6.
"""
import argparse
import json
import logging
import os
import random
from pathlib import Path

os.environ["TRANSFORMERS_OFFLINE"] = "1"
from tokenizers import AddedToken, Tokenizer, decoders
from transformers import PreTrainedTokenizerFast
from transformers.utils.chat_template_utils import _compile_jinja_template, _render_with_assistant_indices

HERE = Path(__file__).parent / "chat"
SPECIAL = ["<|im_start|>", "<|im_end|>", "<|im_sep|>", "<s>", "</s>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
           "<start_of_turn>", "<end_of_turn>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>", "<|start|>", "<|message|>",
           "<|channel|>", "<|call|>", "<|return|>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[|endofturn|]"]
PLAIN = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"]
PIECES = ["Call me Ishmael.", "The whale", " sounds\n\nand dives ", "how many? 42", "é 世界 🐋", "  blanks  ", "a\tb", "it's <b>bold</b> & \"quoted\"",
          "'single'", "\n", "ends with newline\n", "{\"json\": [1, 2.5, null]}", "</think>", "<think>\nhm\n</think>\n\nso", "x" * 30, "\\n raw", "100%"]


def templates():
    parts = (HERE / "templates.txt").read_text(encoding="utf-8").split("=== ")[1:]
    return {part.split("\n", 1)[0]: part.split("\n", 1)[1] for part in parts}


def make_tokenizer():
    tokenizer = Tokenizer.from_file(str(HERE.parent / "tokenizer/gpt2/tokenizer.json"))
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in SPECIAL])
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in PLAIN])
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<|end|>")


def text(r, parts=False):
    words = " ".join(r.choice(PIECES) for _ in range(r.randint(1, 3)))
    if parts and r.random() < 0.3:
        return [{"type": "text", "text": words}] + ([{"type": "text", "text": r.choice(PIECES)}] if r.random() < 0.3 else [])
    return words


def tool(r):
    properties = {r.choice("abcde") * 2: r.choice([
        {"type": "string", "description": "a name", "enum": ["x", "y"]}, {"type": "integer", "default": 3},
        {"type": "array", "items": {"type": "number"}}, {"type": ["string", "null"]},
        {"type": "object", "properties": {"q": {"type": "boolean"}}, "required": ["q"]}]) for _ in range(r.randint(0, 3))}
    return {"type": "function", "function": {"name": r.choice(["find", "count", "sail"]), "description": "does it, " + r.choice(PIECES),
                                             "parameters": {"type": "object", "properties": properties, "required": list(properties)[:1]}}}


def conversation(r):
    parts = r.random() < 0.2
    messages = []
    if r.random() < 0.4:
        messages.append({"role": "system", "content": text(r, parts)})
    for _ in range(r.randint(1, 3)):
        messages.append({"role": "user", "content": text(r, parts)})
        if r.random() < 0.25:
            calls = [{"id": "abcdefghi", "type": "function", "function": {"name": "find", "arguments": {
                "aa": r.choice(["x", 1, 2.5, None, [1, "b"]]), "n": {"k": r.choice([True, 1e-7])}}}} for _ in range(r.randint(1, 2))]
            call = {"role": "assistant", "tool_calls": calls}
            if r.random() < 0.5:
                call["content"] = r.choice([None, "", text(r)])
            messages.append(call)
            messages += [{"role": "tool", "name": "find", "content": text(r)} for _ in calls]
        answer = {"role": "assistant", "content": text(r, parts)}
        if r.random() < 0.2:
            answer[r.choice(["reasoning_content", "thinking"])] = text(r)
        messages.append(answer)
    if r.random() < 0.3:
        messages.append({"role": "user", "content": text(r, parts)})
    return messages, ([tool(r) for _ in range(r.randint(1, 3))] if r.random() < 0.3 else None)


def rendered(tokenizer, source, messages, tools, prompt):
    try:
        whole = tokenizer.apply_chat_template(messages, tools=tools, chat_template=source, add_generation_prompt=prompt, tokenize=False)
        out = tokenizer.apply_chat_template(messages, tools=tools, chat_template=source, add_generation_prompt=prompt, tokenize=True,
                                            return_dict=True, return_assistant_tokens_mask=True)
    except Exception:  # what the template refuses, and what it cannot compute
        return None
    return whole, out["input_ids"], out["assistant_masks"]


# What chat/expressions.txt reads.
VALUES = {"messages": [{"role": "user", "content": "Hi <b> 'q' \"d\" é 世界"}, {"role": "assistant", "content": "ok\n"}], "n": 3, "f": 1.5,
          "neg": -7, "big": 1e20, "small": 1e-7, "l": [1, 2.0, "a", None, True, {"x": [1]}], "d": {"b": 1, "a": {"items": [1, 2], "z": None}},
          "s": "  Hello World\nfoo\tbar  ", "e": "", "none": None, "t": True, "words": ["pear", "Apple", "fig", "apple"],
          "recs": [{"name": "x", "v": 3, "k": {"q": 1}}, {"name": "Y", "v": 1}, {"name": "a", "v": 2, "k": {"q": 5}}]}


def expression(source):
    values = {key: value for key, value in VALUES.items() if key != "messages"}
    try:
        text, spans = _render_with_assistant_indices(_compile_jinja_template(source), VALUES["messages"], None, None, False, **values)
        return {"text": text, "spans": spans} if spans else {"text": text}
    except Exception:
        return None


def fnv(data):
    value = 0xcbf29ce484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 & (1 << 64) - 1
    return f"{value:016x}"


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--records", type=int, default=0)
    options.add_argument("--cases")
    options = options.parse_args()
    logging.disable(logging.WARNING)
    tokenizer, sources, r = make_tokenizer(), templates(), random.Random(20261128 + options.records)
    conversations = [conversation(r) for _ in range(options.records or 40)]
    cases = []
    for number, (messages, tools) in enumerate(conversations):
        for place, (name, source) in enumerate(sources.items()):
            if not options.records and (number + place) % 4:
                continue
            prompt = r.random() < 0.3
            made = rendered(tokenizer, source, messages, tools, prompt)
            case = {"template": name, "conversation": number, "prompt": prompt}
            if made:
                ids = b"".join(id.to_bytes(4, "little") for id in made[1])
                case |= {"text": made[0] if options.records else fnv(made[0].encode()), "ids": made[1] if options.records else fnv(ids)}
                if any(made[2]):
                    case["mask"] = "".join(map(str, made[2])) if options.records else fnv(bytes(made[2]))
            cases.append(case)
    out = {"conversations": [{"messages": m} | ({"tools": t} if t else {}) for m, t in conversations], "cases": cases}
    if options.records:
        Path(options.cases).write_text(json.dumps(out, ensure_ascii=False), encoding="utf-8")
        return
    tokenizer.save_pretrained(HERE / "tokenizer")
    small = (HERE / "expressions.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n@@@\n")
    results = ",\n".join(json.dumps(expression(source), ensure_ascii=False) for source in small)
    values = json.dumps(VALUES, ensure_ascii=False)
    (HERE / "expressions.json").write_text(f'{{"values": {values},\n"results": [\n{results}]}}\n', encoding="utf-8")
    lines = ",\n".join(json.dumps(case) for case in cases)
    talks = ",\n".join(json.dumps(one, ensure_ascii=False) for one in out["conversations"])
    (HERE / "cases.json").write_text(f'{{"conversations": [\n{talks}],\n"cases": [\n{lines}]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
