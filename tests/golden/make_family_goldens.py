#!/usr/bin/env python3
"""Makes the goldens of the other model families, in families/ beside this script, with PyTorch and Transformers.

Always true of what it writes: weights are seeded and nowhere trivial; dropout is zero, attention is eager; loss,
logits (of a span its start and its end, [..., 2]), gradients ("grad/NAME") and five steps of AdamW ("adamw/...")
are computed in fp64 from exactly the weights saved beside them. Transformers computes parts of Llama in fp32 whatever the model's dtype (RMS norms, softmax, angles):
here the same code computes them in fp64.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field
from pathlib import Path

import torch
import transformers
from make_goldens import IGNORED, MAX_GRAD_NORM, OPTIMIZERS, make_optimizer, save_model
from safetensors.torch import save_file
from transformers import modeling_rope_utils
from transformers.models.gemma2 import modeling_gemma2
from transformers.models.gemma3 import modeling_gemma3
from transformers.models.gpt_neox import modeling_gpt_neox
from transformers.models.llama import modeling_llama
from transformers.models.mistral import modeling_mistral
from transformers.models.modernbert import modeling_modernbert
from transformers.models.phi3 import modeling_phi3
from transformers.models.qwen2 import modeling_qwen2
from transformers.models.qwen3 import modeling_qwen3

STEPS = 5
SEQUENCE = 11


class TorchInDouble:
    """The module torch, in which fp32 is called fp64."""

    float32 = float = torch.float64

    def __getattr__(self, name: str) -> object:
        return getattr(torch, name)


def widen() -> None:
    """From here on Transformers computes in fp64 what it computes in fp32 whatever the model's dtype."""
    modules = (modeling_llama, modeling_mistral, modeling_qwen2, modeling_qwen3, modeling_phi3, modeling_gpt_neox, modeling_gemma2,
               modeling_gemma3, modeling_modernbert)  # fmt: skip
    for module in (*modules, modeling_rope_utils):
        module.torch = TorchInDouble()
    modeling_gemma2.Gemma2RMSNorm.forward = lambda self, x: self._norm(x) * (1.0 + self.weight)
    torch.set_default_dtype(torch.float64)
    torch.Tensor.float = torch.Tensor.double


@dataclass(frozen=True)
class Case:
    """`samples`: what a line of JSONL says of each; lists shorter than SEQUENCE are padded here."""

    name: str
    model: type
    task: str
    config: transformers.PretrainedConfig
    extra: dict[str, object] = field(default_factory=dict)  # keys that a test gives beside model.pretrained


def bert(**more: object) -> transformers.BertConfig:
    return transformers.BertConfig(
        vocab_size=41, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=36,
        max_position_embeddings=13, type_vocab_size=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        layer_norm_eps=1e-12, attn_implementation="eager", **more,
    )  # fmt: skip


ENCODER = dict(
    vocab_size=41, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=28, max_position_embeddings=15,
    attn_implementation="eager", bos_token_id=None, eos_token_id=None,
)  # fmt: skip


def roberta(kind: type = transformers.RobertaConfig, **more: object) -> transformers.RobertaConfig:
    common = dict(type_vocab_size=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, layer_norm_eps=1e-5, pad_token_id=1)
    return kind(**ENCODER | common | more)


def distilbert(**more: object) -> transformers.DistilBertConfig:
    sizes = {k: ENCODER[k] for k in ("vocab_size", "max_position_embeddings", "attn_implementation")}
    return transformers.DistilBertConfig(
        dim=24, n_layers=2, n_heads=4, hidden_dim=28, dropout=0.0, attention_dropout=0.0, qa_dropout=0.0,
        seq_classif_dropout=0.0, **sizes | more,
    )  # fmt: skip


def modernbert(**more: object) -> transformers.ModernBertConfig:
    rope = {"full_attention": {"rope_type": "default", "rope_theta": 200.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 20.0}}  # fmt: skip
    common = dict(num_hidden_layers=3, local_attention=5, rope_parameters=rope, pad_token_id=2, cls_token_id=None, sep_token_id=None)
    return transformers.ModernBertConfig(**ENCODER | common | more)


def sizes(**more: object) -> dict[str, object]:
    common = dict(
        vocab_size=43, hidden_size=20, intermediate_size=28, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=6, max_position_embeddings=16, rms_norm_eps=1e-5, attn_implementation="eager",
        bos_token_id=None, eos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    return common | more


def neox(**more: object) -> transformers.GPTNeoXConfig:
    common = dict(
        vocab_size=43, hidden_size=32, intermediate_size=36, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=16, attn_implementation="eager", bos_token_id=None, eos_token_id=None,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5},
    )  # fmt: skip
    return transformers.GPTNeoXConfig(**common | more)


YARN = {
    "rope_type": "yarn", "rope_theta": 300.0, "factor": 2.0, "original_max_position_embeddings": 8, "beta_fast": 0.6,
    "beta_slow": 0.05, "truncate": False,
}  # fmt: skip
LONGROPE = {
    "rope_type": "longrope", "rope_theta": 200.0, "short_factor": [1.0, 1.25, 1.5], "long_factor": [1.0, 1.75, 3.5],
    "partial_rotary_factor": 0.75,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 12,
}  # fmt: skip
CASES = [
    Case("bert_masked_lm", transformers.BertForMaskedLM, "masked_lm", bert()),
    Case("bert_class", transformers.BertForSequenceClassification, "sequence_classification", bert(num_labels=3)),
    Case("bert_regression", transformers.BertForSequenceClassification, "sequence_classification", bert(num_labels=1)),
    Case("bert_multi_label", transformers.BertForSequenceClassification, "sequence_classification",
         bert(num_labels=4, problem_type="multi_label_classification")),
    Case("bert_choice", transformers.BertForMultipleChoice, "multiple_choice", bert(), {"data.choices": 3}),
    Case("bert_question", transformers.BertForQuestionAnswering, "question_answering", bert()),
    Case("bert_token_class", transformers.BertForTokenClassification, "token_classification", bert(num_labels=5)),
    Case("llama", transformers.LlamaForCausalLM, "causal_lm", transformers.LlamaConfig(**sizes())),
    Case("llama_linear", transformers.LlamaForCausalLM, "causal_lm", transformers.LlamaConfig(
        **sizes(tie_word_embeddings=True, num_key_value_heads=1,
                rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}))),
    Case("llama_llama3", transformers.LlamaForCausalLM, "causal_lm", transformers.LlamaConfig(
        **sizes(attention_bias=True, mlp_bias=True, num_key_value_heads=4, head_dim=10, rope_parameters=LLAMA3))),
    Case("mistral", transformers.MistralForCausalLM, "causal_lm", transformers.MistralConfig(**sizes(sliding_window=None))),
    Case("qwen2", transformers.Qwen2ForCausalLM, "causal_lm", transformers.Qwen2Config(**sizes())),
    Case("qwen3", transformers.Qwen3ForCausalLM, "causal_lm", transformers.Qwen3Config(
        **sizes(tie_word_embeddings=True, rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}))),
    Case("qwen3_yarn", transformers.Qwen3ForCausalLM, "causal_lm", transformers.Qwen3Config(
        **sizes(attention_bias=True, num_key_value_heads=1, head_dim=12, rms_norm_eps=0.05, rope_parameters=YARN))),
    Case("llama_dynamic", transformers.LlamaForCausalLM, "causal_lm", transformers.LlamaConfig(
        **sizes(max_position_embeddings=8, rope_parameters={"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}))),
    Case("phi3", transformers.Phi3ForCausalLM, "causal_lm", transformers.Phi3Config(
        **sizes(hidden_size=32, head_dim=8, num_key_value_heads=4, original_max_position_embeddings=8, rope_parameters=LONGROPE))),
    Case("gpt_neox", transformers.GPTNeoXForCausalLM, "causal_lm", neox()),
    Case("gpt_neox_serial", transformers.GPTNeoXForCausalLM, "causal_lm", neox(
        use_parallel_residual=False, tie_word_embeddings=True, attention_bias=False, hidden_act="gelu_new",
        rope_parameters={"rope_type": "linear", "rope_theta": 500.0, "factor": 2.0, "partial_rotary_factor": 1.0})),
]  # fmt: skip
# Cases by seed. Windows are shorter than SEQUENCE.
SEEDED = {
    71: Case("mistral_window", transformers.MistralForCausalLM, "causal_lm",
             transformers.MistralConfig(**sizes(sliding_window=4))),
    72: Case("qwen2_window", transformers.Qwen2ForCausalLM, "causal_lm", transformers.Qwen2Config(
        **sizes(num_hidden_layers=3, use_sliding_window=True, sliding_window=3,
                layer_types=["sliding_attention", "full_attention", "sliding_attention"]))),
    73: Case("gemma2", transformers.Gemma2ForCausalLM, "causal_lm", transformers.Gemma2Config(
        **sizes(sliding_window=4, query_pre_attn_scalar=9, attn_logit_softcapping=2.0, final_logit_softcapping=3.0,
                num_hidden_layers=3))),
    74: Case("gemma2_untied", transformers.Gemma2ForCausalLM, "causal_lm", transformers.Gemma2Config(
        **sizes(sliding_window=3, query_pre_attn_scalar=6, attn_logit_softcapping=None, final_logit_softcapping=None,
                num_key_value_heads=1, pad_token_id=5, tie_word_embeddings=False,
                layer_types=["full_attention", "sliding_attention"]))),
    81: Case("roberta_masked_lm", transformers.RobertaForMaskedLM, "masked_lm", roberta(hidden_act="gelu_new")),
    82: Case("roberta_class", transformers.RobertaForSequenceClassification, "sequence_classification", roberta(num_labels=3)),
    83: Case("xlm_roberta_choice", transformers.XLMRobertaForMultipleChoice, "multiple_choice",
             roberta(transformers.XLMRobertaConfig, type_vocab_size=2, pad_token_id=0), {"data.choices": 2}),
    84: Case("distilbert_masked_lm", transformers.DistilBertForMaskedLM, "masked_lm", distilbert()),
    85: Case("distilbert_regression", transformers.DistilBertForSequenceClassification, "sequence_classification",
             distilbert(num_labels=1, pad_token_id=3)),
    86: Case("distilbert_question", transformers.DistilBertForQuestionAnswering, "question_answering", distilbert()),
    87: Case("modernbert_masked_lm", transformers.ModernBertForMaskedLM, "masked_lm", modernbert()),
    88: Case("modernbert_class", transformers.ModernBertForSequenceClassification, "sequence_classification", modernbert(
        num_labels=3, classifier_pooling="mean", norm_bias=True, attention_bias=True, mlp_bias=True, classifier_bias=True,
        classifier_activation="gelu_new", hidden_activation="gelu_pytorch_tanh", num_hidden_layers=2,
        layer_types=["sliding_attention", "full_attention"])),
    89: Case("modernbert_choice", transformers.ModernBertForMultipleChoice, "multiple_choice",
             modernbert(num_hidden_layers=2, attention_bias=True, hidden_activation="silu"), {"data.choices": 2}),
    90: Case("modernbert_token_class", transformers.ModernBertForTokenClassification, "token_classification",
             modernbert(num_labels=5, num_hidden_layers=2, mlp_bias=True)),
    91: Case("gemma3", transformers.Gemma3ForCausalLM, "causal_lm", transformers.Gemma3TextConfig(
        **sizes(sliding_window=4, query_pre_attn_scalar=9, num_hidden_layers=3, sliding_window_pattern=2,
                rope_parameters={"full_attention": {"rope_type": "linear", "rope_theta": 500.0, "factor": 8.0},
                                 "sliding_attention": {"rope_type": "default", "rope_theta": 50.0}}))),
    92: Case("gemma3_untied", transformers.Gemma3ForCausalLM, "causal_lm", transformers.Gemma3TextConfig(
        **sizes(sliding_window=3, query_pre_attn_scalar=6, final_logit_softcapping=3.0, num_key_value_heads=1,
                pad_token_id=5, tie_word_embeddings=False, layer_types=["full_attention", "sliding_attention"],
                rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 500.0},
                                 "sliding_attention": {"rope_type": "linear", "rope_theta": 50.0, "factor": 2.0}}))),
}  # fmt: skip


def build_model(case: Case, seed: int) -> torch.nn.Module:
    model = case.model(case.config).double().eval()
    for module in model.modules():
        if hasattr(module, "embed_scale"):  # Transformers makes it in fp32, and then rounds it to the model's dtype
            module.embed_scale.copy_(torch.tensor(module.scalar_embed_scale, dtype=torch.float32))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            if "norm" in name.lower() and name.endswith("weight"):
                parameter.copy_((0.0 if "gemma" in case.name else 1.0) + 0.2 * noise)
            elif parameter.ndim == 1:
                parameter.copy_(0.2 * noise)
            elif "embed" in name:
                parameter.copy_(0.4 * noise)
            else:
                parameter.copy_(noise / parameter.shape[1] ** 0.5)
    return model


def name_in_file(case: Case, name: str) -> str:
    """The name in files: that of GPT-NeoX's head differs from the module's."""
    return name.replace("lm_head.", "embed_out.") if case.name.startswith("gpt_neox") else name


def make_samples(case: Case, seed: int) -> list[dict[str, object]]:
    """Lines of JSONL: ragged where the model attends to a part of each sample; some with an explicit mask."""
    generator = torch.Generator().manual_seed(1000 + seed)

    def numbers(high: int, count: int) -> list[int]:
        return torch.randint(high, (count,), generator=generator).tolist()

    vocabulary, labels, types = case.config.vocab_size, case.config.num_labels, getattr(case.config, "type_vocab_size", 0)
    samples: list[dict[str, object]] = []
    # What windows make of padding means nothing: where tokens have logits there is none.
    full = case.name in ("modernbert_masked_lm", "modernbert_token_class")
    for i, length in enumerate((SEQUENCE,) * 3 if full else (SEQUENCE, 4, 7)):
        if case.task == "causal_lm":
            tokens = numbers(vocabulary, SEQUENCE)
            samples.append({"input_ids": tokens, "labels": [IGNORED if i == 1 and j > 5 else t for j, t in enumerate(tokens)]})
            continue
        rows = case.extra.get("data.choices", 1)
        lines = [
            {"input_ids": numbers(vocabulary, n)} | ({"token_type_ids": numbers(types, n)} if types else {})
            for n in [length if row != 1 else 5 for row in range(rows)]
        ]
        sample: dict[str, object] = dict(lines[0]) if rows == 1 else {k: [line[k] for line in lines] for k in lines[0]}
        if i == 2 and rows == 1 and not full:  # padding of the file's own
            sample = {k: v + [0, 0] for k, v in sample.items()} | {"attention_mask": [1] * length + [0, 0]}
        tokens = len(sample["input_ids"])
        if case.task == "masked_lm":
            sample["labels"] = [t if j % 3 == 0 else IGNORED for j, t in enumerate(numbers(vocabulary, tokens))]
        elif case.task == "token_classification":
            sample["labels"] = [IGNORED if j == 2 else t for j, t in enumerate(numbers(labels, tokens))]
        elif case.task == "question_answering":
            start, end = [(2, 5), (40, 3), (0, 6)][i]  # the second start lies behind what is kept
            sample |= {"start_positions": start, "end_positions": end}
        elif case.name.endswith("regression"):
            sample["labels"] = [0.5, -1.25, 2.0][i]
        elif case.name.endswith("multi_label"):
            sample["labels"] = [float(n) for n in numbers(2, labels)]
        else:
            sample["labels"] = numbers(rows if rows > 1 else labels, 1)[0]
        samples.append(sample)
    return samples


def make_batch(task: str, samples: list[dict[str, object]], length: int, padding: int = 0) -> dict[str, torch.Tensor]:
    """What a model takes, padded to `length`; ids with `padding`. Numbers are as wide as torch makes them: fp32."""
    of_tokens = ["input_ids", "token_type_ids", "attention_mask"]
    if task in ("causal_lm", "masked_lm", "token_classification"):
        of_tokens.append("labels")

    def padded(values: list, padding: int) -> list:
        if values and isinstance(values[0], list):
            return [padded(row, padding) for row in values]
        return values + [padding] * (length - len(values))

    def ones(values: list) -> list:
        return [ones(row) for row in values] if isinstance(values[0], list) else [1] * len(values)

    batch: dict[str, list] = {}
    for sample in samples:
        sample = dict(sample)
        sample.setdefault("attention_mask", ones(sample["input_ids"]))
        if task == "causal_lm":
            sample.setdefault("labels", sample["input_ids"])
        for key, value in sample.items():
            if key in of_tokens:
                value = padded(value, {"labels": IGNORED, "input_ids": padding}.get(key, 0))
            batch.setdefault(key, []).append(value)
    return {key: torch.tensor(value) for key, value in batch.items()}


def run_model(task: str, model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Loss and logits. Transformers' own loss of causal_lm casts the logits to fp32: here it is not cast."""
    if task == "causal_lm":
        logits = model(input_ids=batch["input_ids"], use_cache=False).logits
        shifted = logits[:, :-1].reshape(-1, logits.shape[-1])
        targets = batch["labels"][:, 1:].reshape(-1)
        return torch.nn.functional.cross_entropy(shifted, targets, ignore_index=IGNORED), logits
    output = model(**{k: v.to(model.dtype) if v.dtype == torch.float32 else v for k, v in batch.items()})
    spans = task == "question_answering"
    return output.loss, torch.stack([output.start_logits, output.end_logits], dim=-1) if spans else output.logits


def is_unseen(case: Case, name: str) -> bool:
    """What adds the same to all that a softmax compares: its gradient is nothing but rounding."""
    return (
        name.endswith(("self.key.bias", "k_lin.bias"))
        or (case.task == "question_answering" and name in (
            "qa_outputs.bias", "bert.encoder.layer.1.output.LayerNorm.bias", "distilbert.transformer.layer.1.output_layer_norm.bias"))
        or (case.task == "multiple_choice" and name == "classifier.bias")
    )


def make_case(case: Case, seed: int, root: Path) -> None:
    directory = root / case.name
    model = build_model(case, seed)
    save_model(model, directory)
    samples = make_samples(case, seed)
    (directory / "batch.jsonl").write_text("".join(json.dumps(s) + "\n" for s in samples), encoding="utf-8")
    batch = make_batch(case.task, samples, SEQUENCE, case.config.pad_token_id or 0)
    loss, logits = run_model(case.task, model, batch)
    loss.backward()
    golden = {"loss": loss.detach().reshape(1), "logits": logits.detach()}
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, f"{case.name}: {name} has no gradient"
        if is_unseen(case, name):
            assert parameter.grad.abs().max() < 1e-12
            continue
        golden[f"grad/{name_in_file(case, name)}"] = parameter.grad.clone()
        assert parameter.grad.square().mean().sqrt() > 1e-5, f"{case.name}: the gradient of {name} is nearly zero"
    optimizer = make_optimizer(OPTIMIZERS[0], model)
    losses, norms = [], []
    for _ in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        step_loss, _ = run_model(case.task, model, batch)
        step_loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM).item())
        losses.append(step_loss.item())
        optimizer.step()
    golden |= {f"adamw/step5/{name_in_file(case, n)}": p.detach().to(torch.float32) for n, p in model.named_parameters()}
    golden["adamw/loss"] = torch.tensor(losses, dtype=torch.float64)
    golden["adamw/grad_norm"] = torch.tensor(norms, dtype=torch.float64)
    save_file({k: v.contiguous() for k, v in golden.items()}, directory / "golden.safetensors")
    described = {"task": case.task, "samples": len(samples), "sequence": SEQUENCE, "keys": case.extra}
    (directory / "case.json").write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
    print(f"{case.name:18s} loss {loss.item():.17g}, after {STEPS} steps {losses[-1]:.6f}, norm {norms[0]:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path(__file__).resolve().parent / "families")
    parser.add_argument("--only", nargs="*", help="names of cases; all without it")
    arguments = parser.parse_args()
    root = arguments.output
    root.mkdir(parents=True, exist_ok=True)
    widen()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for seed, case in (dict(enumerate(CASES, start=21)) | SEEDED).items():
        if arguments.only is None or case.name in arguments.only:
            make_case(case, seed, root)


if __name__ == "__main__":
    main()
