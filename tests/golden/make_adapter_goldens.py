#!/usr/bin/env python3
"""Makes the goldens of low-rank adapters, in adapters/ beside this script, with PyTorch, Transformers and PEFT.

Always true of what it writes: adapters are of models that are goldens themselves, seeded, and neither A nor B is zero; the
folder of a case is one that PEFT has saved; loss, gradients of what is trained ("grad/NAME") and five steps of AdamW
("adamw/...") are computed in fp64 from exactly these files, without dropout.
"""

from __future__ import annotations

import argparse
import copy
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import peft
import torch
import transformers
from make_family_goldens import STEPS, make_batch, run_model, widen
from make_goldens import MAX_GRAD_NORM, OPTIMIZERS, make_optimizer
from safetensors.torch import save_file

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Case:
    """`base`: the folder of the model below golden/."""

    name: str
    base: str
    model: type
    task: str
    lora: dict[str, object] = field(default_factory=dict)


CASES = [
    Case("gpt2", "plain", transformers.GPT2LMHeadModel, "causal_lm",
         {"r": 3, "lora_alpha": 7, "target_modules": ["c_attn", "c_proj"], "task_type": "CAUSAL_LM"}),
    Case("bert", "families/bert_class", transformers.BertForSequenceClassification, "sequence_classification",
         {"r": 2, "lora_alpha": 5, "target_modules": "all-linear", "task_type": "SEQ_CLS"}),
    Case("llama", "families/llama", transformers.LlamaForCausalLM, "causal_lm",
         {"r": 4, "lora_alpha": 6, "use_rslora": True, "target_modules": ["q_proj", "v_proj", "o_proj", "up_proj", "down_proj"],
          "task_type": "CAUSAL_LM"}),
    Case("gpt2_patterns", "plain", transformers.GPT2LMHeadModel, "causal_lm",
         {"r": 3, "lora_alpha": 7, "target_modules": r".*\.(attn\.c_attn|mlp\.c_\w+)", "exclude_modules": r".*h\.1\.mlp\.c_fc",
          "rank_pattern": {"h.0.attn.c_attn": 5, r"mlp\.c_.*": 2}, "alpha_pattern": {"c_proj": 1.5},
          "modules_to_save": ["ln_f"], "task_type": "CAUSAL_LM"}),
    Case("bert_layers", "families/bert_class", transformers.BertForSequenceClassification, "sequence_classification",
         {"r": 2, "lora_alpha": 5, "use_rslora": True, "target_modules": ["query", "output.dense"], "layers_to_transform": [1],
          "layers_pattern": "layer", "exclude_modules": ["attention.output.dense"], "alpha_pattern": {"query": 3},
          "modules_to_save": ["fier"], "task_type": "SEQ_CLS"}),
    Case("gpt_neox", "families/gpt_neox", transformers.GPTNeoXForCausalLM, "causal_lm",
         {"r": 3, "lora_alpha": 5, "target_modules": ["query_key_value", "dense"], "task_type": "CAUSAL_LM"}),
]  # fmt: skip

GPT2, BERT, LLAMA = CASES[0], CASES[1], CASES[2]
# What PEFT makes of a LoraConfig: which modules have an adapter, of which rank and scale, and what is trained whole.
VARIANTS = [
    (GPT2, {"target_modules": ["c_attn"]}),
    (GPT2, {"target_modules": ["attn.c_proj"]}),
    (GPT2, {"target_modules": ["transformer.h.1.attn.c_attn"]}),
    (GPT2, {"target_modules": ["h.0.mlp.c_fc", "c_attn"]}),
    (GPT2, {"target_modules": ["_attn"]}),
    (GPT2, {"target_modules": ["h.0"]}),
    (GPT2, {"target_modules": r".*\.h\.0\.attn\..*proj"}),
    (GPT2, {"target_modules": r"transformer\.h\.\d+\.(attn\.c_attn|mlp\.c_fc)"}),
    (GPT2, {"target_modules": r".*\.h\.(?!0)\d\..*\.c_\w+"}),
    (GPT2, {"target_modules": r"h\.0\.attn\.c_attn"}),
    (GPT2, {"target_modules": r".*\.(?P<what>attn)\.c_(attn|proj)$"}),
    (GPT2, {"target_modules": "all-linear"}),
    (GPT2, {"target_modules": "all-linear", "exclude_modules": ["c_proj"]}),
    (GPT2, {"target_modules": "all-linear", "exclude_modules": r".*mlp.*"}),
    (GPT2, {"target_modules": ["c_attn", "c_fc"], "exclude_modules": ["transformer.h.0.attn.c_attn"]}),
    (GPT2, {"target_modules": ["c_attn"], "exclude_modules": ["c_attn"]}),
    (GPT2, {"target_modules": ["c_attn"], "layers_to_transform": 1}),
    (GPT2, {"target_modules": ["c_attn", "c_proj"], "layers_to_transform": [0, 1], "layers_pattern": "h"}),
    (GPT2, {"target_modules": ["c_attn"], "layers_to_transform": [0], "layers_pattern": ["layers", "h"]}),
    (GPT2, {"target_modules": ["c_attn"], "layers_to_transform": [0], "layers_pattern": "layers"}),
    (GPT2, {"target_modules": ["transformer.h.1.attn.c_attn", "c_fc"], "layers_to_transform": [0]}),
    (GPT2, {"target_modules": ["h.1.attn.c_attn", "transformer.h.1.mlp.c_proj"], "layers_to_transform": [0], "layers_pattern": "h"}),
    (GPT2, {"target_modules": ["c_attn", "c_proj"], "rank_pattern": {"c_attn": 5, "attn.c_proj": 2}}),
    (GPT2, {"target_modules": ["c_attn"], "rank_pattern": {"h.0.attn.c_attn": 5, "c_attn": 2}}),
    (GPT2, {"target_modules": ["c_attn", "c_fc"], "rank_pattern": {r"^transformer\.h\.1\..*": 6}}),
    (GPT2, {"target_modules": ["c_attn", "c_fc"], "alpha_pattern": {r"h\.\d\.mlp\.c_fc": 3, r"attn\..*": 9}}),
    (GPT2, {"target_modules": ["c_attn"], "rank_pattern": {"c_attn": 4}, "alpha_pattern": {"c_attn": 3}, "use_rslora": True}),
    (GPT2, {"target_modules": ["c_attn"], "modules_to_save": ["ln_f", "ln_1"]}),
    (GPT2, {"target_modules": ["c_attn", "c_fc"], "modules_to_save": ["mlp"]}),
    (GPT2, {"target_modules": ["c_attn"], "modules_to_save": ["n_f"]}),
    (BERT, {"target_modules": ["query", "value"], "modules_to_save": ["classifier"]}),
    (BERT, {"target_modules": ["query"], "modules_to_save": ["fier", "pooler"]}),
    (BERT, {"target_modules": ["dense"], "modules_to_save": ["classifier"]}),
    (BERT, {"target_modules": r".*layer\.1\..*(query|value)", "modules_to_save": ["classifier"]}),
    (BERT, {"target_modules": ["query"], "layers_to_transform": [1], "layers_pattern": "layer", "modules_to_save": ["classifier"]}),
    (BERT, {"target_modules": ["query", "classifier"], "layers_to_transform": [1]}),
    (BERT, {"target_modules": ["output.dense"], "exclude_modules": ["attention.output.dense"], "modules_to_save": ["classifier"]}),
    (BERT, {"target_modules": "all-linear", "exclude_modules": ["pooler.dense"], "modules_to_save": ["classifier"]}),
    (LLAMA, {"target_modules": ["q_proj", "v_proj"], "layers_to_transform": [0], "layers_pattern": ["layers"]}),
    (LLAMA, {"target_modules": r"model\.layers\.[0-9]+\.self_attn\.(q|k|v|o)_proj"}),
    (LLAMA, {"target_modules": r".*\.mlp\.(gate|up)_proj", "rank_pattern": {"up_proj": 1}}),
    (LLAMA, {"target_modules": ["q_proj"], "modules_to_save": ["model.norm", "input_layernorm"]}),
]  # fmt: skip


def name_in_model(name: str) -> str:
    """What the parameter would be called, if the model itself had it."""
    return name.removeprefix("base_model.model.").replace(".modules_to_save", "").replace(".default", "")


def make_adapters(case: Case, seed: int) -> peft.PeftModel:
    model = case.model.from_pretrained(HERE / case.base, attn_implementation="eager").double()
    model = peft.get_peft_model(model, peft.LoraConfig(**copy.deepcopy(case.lora))).double().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.copy_(noise / parameter.shape[1] ** 0.5)
    return model


def make_case(case: Case, seed: int, root: Path) -> None:
    directory = root / case.name
    shutil.rmtree(directory, ignore_errors=True)
    model = make_adapters(case, seed)
    model.save_pretrained(directory)
    (directory / "README.md").unlink(missing_ok=True)
    config = json.loads((directory / "adapter_config.json").read_text(encoding="utf-8"))
    for lists in ("target_modules", "exclude_modules"):
        if isinstance(config[lists], list):
            config[lists] = sorted(config[lists])
    config |= {"base_model_name_or_path": case.base}
    (directory / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    lines = (HERE / case.base / "batch.jsonl").read_text(encoding="utf-8").splitlines()
    samples = [json.loads(line) for line in lines]
    longest = max(len(sample["input_ids"]) for sample in samples)
    batch = make_batch(case.task, samples, longest)
    loss, _ = run_model(case.task, model, batch)
    loss.backward()
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    golden = {"loss": loss.detach().reshape(1)}
    for name, parameter in trained.items():
        golden[f"grad/{name_in_model(name)}"] = parameter.grad.clone()
        assert parameter.grad.square().mean().sqrt() > 1e-6, f"{case.name}: the gradient of {name} is nearly zero"
    optimizer = make_optimizer(OPTIMIZERS[0], model)
    losses, norms = [], []
    for _ in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        step_loss, _ = run_model(case.task, model, batch)
        step_loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(trained.values(), MAX_GRAD_NORM).item())
        losses.append(step_loss.item())
        optimizer.step()
    golden |= {f"adamw/step5/base_model.model.{name_in_model(n)}": p.detach() for n, p in trained.items()}
    golden["adamw/loss"] = torch.tensor(losses, dtype=torch.float64)
    golden["adamw/grad_norm"] = torch.tensor(norms, dtype=torch.float64)
    save_file({k: v.contiguous() for k, v in golden.items()}, directory / "golden.safetensors")
    described = {"base": case.base, "task": case.task, "samples": len(samples), "sequence": longest}
    (directory / "case.json").write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
    print(f"{case.name:8s} loss {loss.item():.17g}, after {STEPS} steps {losses[-1]:.6f}, norm {norms[0]:.3f}")


def make_variant(case: Case, lora: dict[str, object]) -> dict[str, object]:
    result: dict[str, object] = {"case": case.name, "lora": copy.deepcopy({"r": 3, "lora_alpha": 7} | lora)}
    model = case.model.from_pretrained(HERE / case.base)
    try:
        task = str(case.lora["task_type"])
        model = peft.get_peft_model(model, peft.LoraConfig(r=3, lora_alpha=7, task_type=task, **lora))
    except ValueError:
        return result | {"refused": True}
    adapters = {}
    for name, module in model.base_model.model.named_modules():
        if isinstance(module, peft.tuners.lora.LoraLayer):
            adapters[name] = [module.r["default"], module.scaling["default"]]
    whole = {name_in_model(n) for n, p in model.named_parameters() if p.requires_grad and "modules_to_save" in n}
    return result | {"adapters": adapters, "whole": sorted(whole)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=HERE / "adapters")
    root = parser.parse_args().output
    root.mkdir(parents=True, exist_ok=True)
    widen()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for seed, case in enumerate(CASES, start=41):
        make_case(case, seed, root)
    variants = ",\n".join(json.dumps(make_variant(case, lora)) for case, lora in VARIANTS)
    (root / "variants.json").write_text(f"[{variants}]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
