#!/usr/bin/env python3
"""Writes a tiny GPT-2 with random weights as Hugging Face stores one: config.json and model.safetensors.

    make_checkpoint.py FOLDER

It stands in for a checkpoint that you have. Needs Python alone.
"""
import array
import json
import os
import random
import struct
import sys

CONFIG = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "vocab_size": 256,
    "n_positions": 64,
    "n_embd": 64,
    "n_layer": 2,
    "n_head": 4,
    "activation_function": "gelu_new",
    "resid_pdrop": 0.1,
    "embd_pdrop": 0.1,
    "attn_pdrop": 0.1,
    "layer_norm_epsilon": 1e-5,
    "initializer_range": 0.02,
    "tie_word_embeddings": True,
    "bos_token_id": None,
    "eos_token_id": None,
}


def shapes(config):
    """Name and shape of each weight; those of linear layers are [inputs, outputs]."""
    width = config["n_embd"]
    norm = lambda name: {name + ".weight": [width], name + ".bias": [width]}
    linear = lambda name, rows, columns: {name + ".weight": [rows, columns], name + ".bias": [columns]}
    found = {"wte.weight": [config["vocab_size"], width], "wpe.weight": [config["n_positions"], width]}
    for layer in range(config["n_layer"]):
        at = f"h.{layer}."
        found |= norm(at + "ln_1") | linear(at + "attn.c_attn", width, 3 * width)
        found |= linear(at + "attn.c_proj", width, width) | norm(at + "ln_2")
        found |= linear(at + "mlp.c_fc", width, 4 * width) | linear(at + "mlp.c_proj", 4 * width, width)
    return {"transformer." + name: shape for name, shape in (found | norm("ln_f")).items()}


def values(name, count, draw):
    if name.endswith(".bias"):
        return array.array("f", bytes(4 * count))
    if ".ln_" in name:
        return array.array("f", [1.0] * count)
    return array.array("f", (draw.gauss(0, CONFIG["initializer_range"]) for _ in range(count)))


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    draw = random.Random(0)
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, shape in shapes(CONFIG).items():
        count = shape[0] * (shape[1] if len(shape) == 2 else 1)
        numbers = values(name, count, draw)
        if sys.byteorder == "big":
            numbers.byteswap()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * count]}
        data += numbers.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(CONFIG, file, indent=2)
    print(f"{folder}: {len(header) - 1} tensors, {len(data)} bytes")


main()
