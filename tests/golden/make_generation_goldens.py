#!/usr/bin/env python3
"""Makes generation.json beside this script: what Transformers' generate() continues prompts of ids with, greedily and
in fp64, for the tiny models of make_goldens.py and make_family_goldens.py; and what its logits processors leave of
made-up logits. Ties are among those; in the models no two logits come near each other."""

from __future__ import annotations

import json
from pathlib import Path

import torch
import transformers
from transformers.generation.logits_process import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

HERE = Path(__file__).parent
FAMILIES = ["llama", "llama_linear", "llama_llama3", "llama_dynamic", "mistral", "qwen2", "qwen3", "qwen3_yarn", "phi3", "gpt_neox", "gpt_neox_serial",
            "mistral_window", "qwen2_window", "gemma2", "gemma2_untied", "gemma3", "gemma3_untied"]
MODELS = ["plain", *(f"families/{family}" for family in FAMILIES)]
LONGEST = 16
PROMPT_LENGTHS = [1, 4, 7]
LOGITS = [1.5, -0.25, 3.0, 3.0, 0.0, 2.25, -4.0, 2.25, 1.5, 0.75]
SAMPLINGS = [
    {"temperature": 1.0, "top_k": 0, "top_p": 1.0}, {"temperature": 0.7, "top_k": 0, "top_p": 1.0},
    {"temperature": 1.0, "top_k": 3, "top_p": 1.0}, {"temperature": 2.5, "top_k": 1, "top_p": 1.0},
    {"temperature": 1.0, "top_k": 50, "top_p": 0.9}, {"temperature": 1.3, "top_k": 6, "top_p": 0.8},
    {"temperature": 0.5, "top_k": 4, "top_p": 0.55}, {"temperature": 1.0, "top_k": 0, "top_p": 0.05},
    {"temperature": 1.0, "top_k": 0, "top_p": 0.0},
]  # fmt: skip


def continued(folder: str) -> list[dict[str, list[int]]]:
    model = transformers.AutoModelForCausalLM.from_pretrained(HERE / folder, attn_implementation="eager").double().eval()
    vocabulary = model.config.vocab_size
    generator = torch.Generator().manual_seed(1)
    cases = []
    for length in PROMPT_LENGTHS:
        prompt = torch.randint(vocabulary, (1, length), generator=generator)
        made = model.generate(
            prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=LONGEST - length,
            eos_token_id=None, pad_token_id=0, return_dict_in_generate=True, output_scores=True,
        )  # fmt: skip
        for scores in made.scores:
            best = scores[0].topk(2).values
            assert best[0] - best[1] > 1e-4, "two logits are near each other: take another seed"
        cases.append({"prompt": prompt[0].tolist(), "ids": made.sequences[0, length:].tolist()})
    return cases


def sampled(sampling: dict[str, float]) -> list[float]:
    scores = torch.tensor([LOGITS], dtype=torch.float64)
    if sampling["temperature"] != 1.0:
        scores = TemperatureLogitsWarper(sampling["temperature"])(None, scores)
    if sampling["top_k"]:
        scores = TopKLogitsWarper(sampling["top_k"])(None, scores)
    if sampling["top_p"] < 1.0:
        scores = TopPLogitsWarper(sampling["top_p"])(None, scores)
    return scores.softmax(-1)[0].tolist()


def main() -> None:
    golden = {
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "continued": {folder: continued(folder) for folder in MODELS},
        "logits": LOGITS,
        "sampled": [sampling | {"probabilities": sampled(sampling)} for sampling in SAMPLINGS],
    }
    (HERE / "generation.json").write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
