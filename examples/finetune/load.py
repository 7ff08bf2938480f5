#!/usr/bin/env python3
"""Loads a model folder with Transformers and says its loss on the bytes of a text.

    load.py FOLDER TEXT_FILE [METRICS.jsonl]

With METRICS.jsonl of a run that evaluated the same 64 sequences, ends with 1 where the two losses differ.
"""
import json
import sys

import torch
from transformers import AutoModelForCausalLM

SEQUENCES = 64


def main():
    model = AutoModelForCausalLM.from_pretrained(sys.argv[1]).eval()
    length = model.config.n_positions
    text = open(sys.argv[2], "rb").read(SEQUENCES * length)
    batch = torch.tensor(list(text)).view(SEQUENCES, length)
    with torch.no_grad():
        loss = model(input_ids=batch, labels=batch).loss.item()
    print(f"{type(model).__name__}: loss {loss:.4f} on the first {len(text)} bytes of {sys.argv[2]}")
    if len(sys.argv) > 3:
        ours = [line["eval_loss"] for line in map(json.loads, open(sys.argv[3])) if "eval_loss" in line][-1]
        print(f"recollect: loss {ours:.4f}")
        sys.exit(abs(loss - ours) > 1e-3)


main()
