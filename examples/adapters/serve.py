#!/usr/bin/env python3
"""Continues a prompt with Transformers and PEFT: a model, and the adapters that were trained beside it.

    serve.py MODEL_FOLDER ADAPTER_FOLDER SAID.json

SAID.json is what `recollect generate --json` printed; ends with 1 where the two continue differently.
"""
import json
import sys

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer


def main():
    base, adapters, said = sys.argv[1:]
    with open(said) as file:
        ours = json.loads(file.read())
    tokenizer = AutoTokenizer.from_pretrained(base)
    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), adapters).eval()
    prompt = tokenizer(ours["prompt"], return_tensors="pt")
    with torch.no_grad():
        ids = model.generate(**prompt, do_sample=False, max_new_tokens=len(ours["ids"]))[0]
    continued = ids[prompt["input_ids"].shape[1] :].tolist()
    print(tokenizer.decode(ids))
    print("the same tokens" if continued == ours["ids"] else f"other tokens: {continued} and {ours['ids']}")
    sys.exit(continued != ours["ids"])


main()
