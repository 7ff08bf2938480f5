#!/usr/bin/env python3
"""Makes the goldens of quantised weights, in quantised/ beside this script, with bitsandbytes, Transformers and PEFT, on a CPU.

(bitsandbytes 0.50.2, torch 2.15.0, Transformers 5.24.0, PEFT 0.21.2.)

numbers.safetensors: a weight ("w") and what bitsandbytes makes of it: "nf4", "fp4" and "int8" are codes, ".absmax" sizes, ".nested"
what those become when they are quantised too, ".rows" the numbers of some rows again ("rows").
NAME/whole is a model of bf16, NAME/stored what Transformers saves of it once it is quantised, NAME/adapters what PEFT saves of
adapters beside it, neither A nor B zero; NAME/golden.safetensors has the loss and the gradients ("grad/NAME") in fp64 of adapters
beside the dequantised weights, which are floats.

The library of bitsandbytes for CPUs misses the nearest entry for one of a thousand sizes that it quantises. Sizes are quantised as
its kernels for GPUs and its portable code do it, which is what `quantise_sizes` says again; how many differ is printed.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import bitsandbytes
import bitsandbytes.functional as bnb
import peft
import torch
import transformers
from make_adapter_goldens import name_in_model
from make_family_goldens import run_model, widen
from safetensors.torch import save_file

HERE = Path(__file__).resolve().parent
SEQUENCE, SAMPLES = 8, 2
library_quantize = bnb.quantize_blockwise
missed = [0, 0]

LLAMA = transformers.LlamaConfig(
    vocab_size=61, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=16, tie_word_embeddings=False, attn_implementation="eager", initializer_range=0.15,
    bos_token_id=None, eos_token_id=None,
)  # fmt: skip
GPT2 = transformers.GPT2Config(
    vocab_size=61, n_positions=16, n_embd=64, n_layer=1, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    attn_implementation="eager", initializer_range=0.15, bos_token_id=None, eos_token_id=None,
)  # fmt: skip
CASES = [
    ("llama_nf4", transformers.LlamaForCausalLM, LLAMA, ["q_proj", "v_proj", "o_proj", "down_proj"],
     {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}),
    ("gpt2_int8", transformers.GPT2LMHeadModel, GPT2, ["c_attn", "c_proj"], {"load_in_8bit": True}),
]  # fmt: skip


def quantise_sizes(sizes, code=None, absmax=None, out=None, blocksize=4096, nested=False):
    theirs, state = library_quantize(sizes, code, absmax, out, blocksize, nested)
    blocks = sizes.split(blocksize)
    largest = torch.stack([block.abs().max() for block in blocks])
    assert torch.equal(largest, state.absmax)
    shares = torch.cat([(block * (1.0 / most.clamp(min=1e-38))).clamp(-1, 1) for block, most in zip(blocks, largest)])
    ours = torch.bucketize(shares, (state.code[:-1] + state.code[1:]) / 2).to(torch.uint8)
    missed[0] += int((ours != theirs).sum())
    missed[1] += ours.numel()
    return ours, state


def make_numbers(path: Path) -> None:
    generator = torch.Generator().manual_seed(5)
    w = (torch.randn(34, 512, generator=generator) * torch.rand(34, 1, generator=generator)).to(torch.bfloat16)
    w[1, :64] = 0
    w[2] = (w[2] * 4).round() / 4
    rows = torch.tensor([0, 1, 2, 31, 32, 33])
    tensors = {"w": w, "rows": rows.to(torch.int32)}
    for name in ("nf4", "fp4"):
        for nested in (False, True):
            codes, state = bnb.quantize_4bit(w, blocksize=64, quant_type=name, compress_statistics=nested)
            state.dtype = torch.float32
            tensors[name] = codes.flatten()
            tensors[f"{name}.nested.rows" if nested else f"{name}.rows"] = bnb.dequantize_4bit(codes, state)[rows]
            if not nested:
                tensors[f"{name}.absmax"] = state.absmax
                continue
            tensors[f"{name}.nested"] = state.absmax
            tensors[f"{name}.nested.absmax"] = state.state2.absmax
            tensors[f"{name}.nested.offset"] = state.offset.reshape(1)
    codes, sizes, _ = bnb.int8_vectorwise_quant(w.to(torch.float16))
    tensors |= {"int8": codes.view(torch.uint8), "int8.absmax": sizes}
    tensors["int8.rows"] = bnb.int8_vectorwise_dequant(codes, sizes)[rows]
    save_file({k: v.contiguous() for k, v in tensors.items()}, path)


def dequantised(module: torch.nn.Module) -> torch.Tensor:
    """The floats of a module's weight, [out, in]."""
    if isinstance(module, bitsandbytes.nn.Linear4bit):
        module.weight.quant_state.dtype = torch.float32
        return bnb.dequantize_4bit(module.weight.data, module.weight.quant_state)
    return bnb.int8_vectorwise_dequant(module.weight.data, module.weight.SCB)


def save_cleanly(model: torch.nn.Module, folder: Path) -> None:
    model.save_pretrained(folder)
    for extra in ("generation_config.json", "README.md"):
        (folder / extra).unlink(missing_ok=True)


def make_model(name, kind, config, targets, quantisation, seed, root: Path):
    torch.manual_seed(seed)
    folder = root / name
    shutil.rmtree(folder, ignore_errors=True)
    save_cleanly(kind(config).to(torch.bfloat16), folder / "whole")
    stored = kind.from_pretrained(
        folder / "whole", quantization_config=transformers.BitsAndBytesConfig(**quantisation), dtype=torch.bfloat16,
        device_map="cpu", attn_implementation="eager",
    )  # fmt: skip
    save_cleanly(stored, folder / "stored")
    model = kind.from_pretrained(folder / "whole", dtype=torch.float32, attn_implementation="eager")
    quantised = (bitsandbytes.nn.Linear4bit, bitsandbytes.nn.Linear8bitLt)
    with torch.no_grad():
        for path, module in stored.named_modules():
            if isinstance(module, quantised):
                weight = model.get_submodule(path).weight
                numbers = dequantised(module)
                weight.copy_(numbers if weight.shape == numbers.shape and kind is not transformers.GPT2LMHeadModel else numbers.T)
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, lora_alpha=5, target_modules=targets, task_type="CAUSAL_LM"))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for path, parameter in adapted.named_parameters():
            if "lora_" in path:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) / parameter.shape[1] ** 0.5)
    save_cleanly(adapted, folder / "adapters")
    described = json.loads((folder / "adapters/adapter_config.json").read_text(encoding="utf-8"))
    described |= {"base_model_name_or_path": name, "target_modules": sorted(targets)}
    (folder / "adapters/adapter_config.json").write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
    return adapted


def make_golden(name: str, model: torch.nn.Module, seed: int, root: Path) -> None:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 61, (SAMPLES, SEQUENCE), generator=generator)
    with (root / name / "batch.jsonl").open("w", encoding="utf-8") as lines:
        for sample in ids.tolist():
            lines.write(json.dumps({"input_ids": sample}) + "\n")
    model = model.double().eval()
    for module in model.modules():  # made in fp32
        if hasattr(module, "inv_freq"):
            module.inv_freq = type(module)(module.config).inv_freq
    loss, _ = run_model("causal_lm", model, {"input_ids": ids, "labels": ids})
    loss.backward()
    golden = {"loss": loss.detach().reshape(1)}
    for path, parameter in model.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad.square().mean().sqrt() > 1e-6, f"{name}: the gradient of {path} is nearly zero"
            golden[f"grad/{name_in_model(path)}"] = parameter.grad.clone()
    save_file({k: v.contiguous() for k, v in golden.items()}, root / name / "golden.safetensors")
    print(f"{name:10s} loss {loss.item():.17g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=HERE / "quantised")
    root = parser.parse_args().output
    root.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    bnb.quantize_blockwise = quantise_sizes
    make_numbers(root / "numbers.safetensors")
    models = [(case[0], make_model(*case, seed, root)) for seed, case in enumerate(CASES, start=11)]
    widen()
    for seed, (name, model) in enumerate(models, start=11):
        make_golden(name, model, seed, root)
    print(f"{missed[0]} of {missed[1]} sizes are other entries in bitsandbytes' library for CPUs")


if __name__ == "__main__":
    main()
