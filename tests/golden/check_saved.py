#!/usr/bin/env python3
"""Loads a saved model's directory with Transformers and prints its loss, or compares two directories.

    check_saved.py DIR                         loads; exit 1 on missing, unexpected or misshapen tensors
    check_saved.py DIR --batch batch.jsonl     ... and prints {"loss": ...}
        --loss 5.11 --tolerance 1e-10          ... and exits 1 when the loss is further off, relatively
    check_saved.py DIR --same-as OTHER         ... and compares every parameter with OTHER's, and the logits
        --batch batch.jsonl --tolerance 0          where there is a batch; exit 1 when the largest difference exceeds this

Always true: the model is the one that config.json names under "architectures", and its family and task are those of
the class that Transformers finds for it; nothing is initialised at random in silence, and standard output is one JSON
object. Weights are widened to fp64 as stored, and so is what Transformers computes in fp32 in any model;
--dtype float32 has all in fp32 instead. Exit 0 all as asked; 1 it is not; 2 the directory cannot be read at all.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

import torch
import transformers
from make_family_goldens import make_batch, run_model, widen
from safetensors import safe_open

# What a class does, by the end of its name.
TASKS = {
    "LMHeadModel": ("AutoModelForCausalLM", "causal_lm"),
    "ForCausalLM": ("AutoModelForCausalLM", "causal_lm"),
    "ForMaskedLM": ("AutoModelForMaskedLM", "masked_lm"),
    "ForSequenceClassification": ("AutoModelForSequenceClassification", "sequence_classification"),
    "ForMultipleChoice": ("AutoModelForMultipleChoice", "multiple_choice"),
    "ForQuestionAnswering": ("AutoModelForQuestionAnswering", "question_answering"),
    "ForTokenClassification": ("AutoModelForTokenClassification", "token_classification"),
}


def stored_names(directory: Path) -> set[str]:
    """The tensor names in the directory; an index must name exactly what its shards hold."""
    index = directory / "model.safetensors.index.json"
    if not index.exists():
        with safe_open(directory / "model.safetensors", framework="pt") as file:
            return set(file.keys())
    weight_map: dict[str, str] = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
    held: set[str] = set()
    for shard in sorted(set(weight_map.values())):
        with safe_open(directory / shard, framework="pt") as file:
            names = set(file.keys())
        mapped = {name for name, where in weight_map.items() if where == shard}
        if names != mapped:
            raise ValueError(f"{index}: {shard} and the index differ in {sorted(names ^ mapped)}")
        held |= names
    return held


def class_and_task(directory: Path) -> tuple[str, str, str]:
    """The class that config.json names, the one to load it with, and its task."""
    named = json.loads((directory / "config.json").read_text(encoding="utf-8"))["architectures"][0]
    ending = re.search("|".join(TASKS), named)
    if not ending:
        raise ValueError(f"{directory}: config.json names {named}, whose task is not known here")
    return named, *TASKS[ending.group()]


def load(directory: Path, dtype: torch.dtype) -> tuple[torch.nn.Module, list[str]]:
    """The model and what is wrong with its files, one sentence each."""
    names = stored_names(directory)
    named, automatic, _ = class_and_task(directory)
    model, info = getattr(transformers, automatic).from_pretrained(
        directory,
        dtype=dtype,
        attn_implementation="eager",
        output_loading_info=True,
        ignore_mismatched_sizes=True,
        local_files_only=True,
    )
    if type(model).__name__ != named:
        raise ValueError(f"{directory}: config.json names {named}, Transformers makes a {type(model).__name__}")
    wrong = [f"{directory}: missing tensor {name}" for name in sorted(info["missing_keys"])]
    wrong += [f"{directory}: misshapen tensor {entry}" for entry in sorted(map(str, info["mismatched_keys"]))]
    # Transformers forgives names it knows from old releases (attn.bias); what we saved must not need that.
    known = set(model.state_dict())
    if model.base_model_prefix == "gpt_neox" and "lm_head.weight" in known:  # its name in files
        known.add("embed_out.weight")
    prefix = model.base_model_prefix + "."
    wrong += [
        f"{directory}: unexpected tensor {name}"
        for name in sorted(names)
        if name not in known and prefix + name not in known
    ]
    return model.eval(), wrong


def read_batch(path: Path, task: str, padding: int) -> dict[str, torch.Tensor]:
    """What a model takes, all samples as long as the longest."""
    samples = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    rows = [row for sample in samples for row in ([sample["input_ids"]] if task != "multiple_choice" else sample["input_ids"])]
    return make_batch(task, samples, max(map(len, rows)), padding)


@torch.no_grad()
def loss_and_logits(model: torch.nn.Module, directory: Path, batch: Path) -> tuple[float, torch.Tensor]:
    _, _, task = class_and_task(directory)
    loss, logits = run_model(task, model, read_batch(batch, task, getattr(model.config, "pad_token_id", None) or 0))
    return loss.item(), logits


def largest_difference(ours: torch.nn.Module, theirs: torch.nn.Module) -> tuple[float, str, list[str]]:
    """The largest absolute difference with its tensor, and the tensors that cannot be compared."""
    other = dict(theirs.named_parameters())
    mine = dict(ours.named_parameters())
    wrong = [f"only one side has {name}" for name in sorted(mine.keys() ^ other.keys())]
    worst, where = 0.0, ""
    for name in mine.keys() & other.keys():
        if mine[name].shape != other[name].shape:
            wrong.append(f"{name}: {list(mine[name].shape)} against {list(other[name].shape)}")
            continue
        difference = (mine[name] - other[name]).abs().max().item()
        # Written so that a NaN counts as the worst.
        if not difference <= worst:
            worst, where = difference, name
    return worst, where, wrong


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--batch", type=Path, help="jsonl whose fields are the model's arguments")
    parser.add_argument("--loss", type=float, help="the loss that is expected of --batch")
    parser.add_argument("--same-as", type=Path, help="another directory to compare every parameter with")
    parser.add_argument("--dtype", choices=["float64", "float32"], default="float64", help="of all that is computed")
    parser.add_argument("--tolerance", type=float, default=0.0)
    args = parser.parse_args()
    if args.loss is not None and args.batch is None:
        parser.error("--loss needs --batch")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()

    dtype = getattr(torch, args.dtype)
    if dtype == torch.float64:
        widen()
    result: dict[str, object] = {"directory": str(args.directory)}
    try:
        model, wrong = load(args.directory, dtype)
        result["class"] = type(model).__name__
        if args.batch:
            loss, logits = loss_and_logits(model, args.directory, args.batch)
            result["loss"] = loss
            if args.loss is not None and not abs(loss - args.loss) <= args.tolerance * abs(args.loss):
                wrong.append(f"loss {loss:.17g} is not {args.loss:.17g} within {args.tolerance:g}")
        if args.same_as:
            other, other_wrong = load(args.same_as, dtype)
            worst, where, incomparable = largest_difference(model, other)
            result |= {"largest_difference": worst, "where": where}
            wrong += other_wrong + incomparable
            if not worst <= args.tolerance:
                wrong.append(f"{where} differs by {worst:.3g}, more than {args.tolerance:g}")
        if args.same_as and args.batch:
            _, expected = loss_and_logits(other, args.same_as, args.batch)
            difference = result["logits_difference"] = (logits - expected).abs().max().item()
            if not difference <= args.tolerance * expected.abs().max().item():
                wrong.append(f"logits differ by {difference:.3g}")
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        print(f"check_saved: {error}", file=sys.stderr)
        return 2
    print(json.dumps(result))
    for line in wrong:
        print(f"check_saved: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
