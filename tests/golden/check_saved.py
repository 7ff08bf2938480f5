#!/usr/bin/env python3
"""Loads a saved GPT-2 directory with Transformers and prints its loss in fp64, or compares two directories.

    check_saved.py DIR                         loads; exit 1 on missing, unexpected or misshapen tensors
    check_saved.py DIR --batch batch.jsonl     ... and prints {"loss": ...}
        --loss 5.11 --tolerance 1e-10          ... and exits 1 when the loss is further off, relatively
    check_saved.py DIR --same-as OTHER         ... and compares every parameter with OTHER's
        --tolerance 0                          ... exit 1 when the largest difference exceeds this

Always true: weights are widened to fp64 as stored, nothing is initialised at random in silence, and standard
output is one JSON object. Exit 0 all as asked; 1 it is not; 2 the directory cannot be read at all.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import torch
import transformers
from safetensors import safe_open
from transformers import GPT2LMHeadModel

IGNORED = -100


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


def load(directory: Path) -> tuple[GPT2LMHeadModel, list[str]]:
    """The model in fp64 and what is wrong with its files, one sentence each."""
    names = stored_names(directory)
    model, info = GPT2LMHeadModel.from_pretrained(
        directory,
        dtype=torch.float64,
        attn_implementation="eager",
        output_loading_info=True,
        ignore_mismatched_sizes=True,
        local_files_only=True,
    )
    wrong = [f"{directory}: missing tensor {name}" for name in sorted(info["missing_keys"])]
    wrong += [f"{directory}: misshapen tensor {entry}" for entry in sorted(map(str, info["mismatched_keys"]))]
    # Transformers forgives names it knows from old releases (attn.bias); what we saved must not need that.
    known = set(model.state_dict())
    prefix = model.base_model_prefix + "."
    wrong += [
        f"{directory}: unexpected tensor {name}"
        for name in sorted(names)
        if name not in known and prefix + name not in known
    ]
    return model.eval(), wrong


def read_batch(path: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and labels (samples, longest), short rows padded with token 0 and label -100."""
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines if line.strip()]
    longest = max(len(row["input_ids"]) for row in rows)
    tokens = torch.zeros(len(rows), longest, dtype=torch.long)
    labels = torch.full((len(rows), longest), IGNORED, dtype=torch.long)
    for i, row in enumerate(rows):
        length = len(row["input_ids"])
        tokens[i, :length] = torch.tensor(row["input_ids"])
        labels[i, :length] = torch.tensor(row.get("labels", row["input_ids"]))
    return tokens, labels


@torch.no_grad()
def fp64_loss(model: GPT2LMHeadModel, tokens: torch.Tensor, labels: torch.Tensor) -> float:
    """Mean cross-entropy over valid shifted labels, from the logits (Transformers casts them to fp32)."""
    logits = model(input_ids=tokens, use_cache=False).logits[:, :-1]
    targets = labels[:, 1:].reshape(-1)
    return torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), targets, ignore_index=IGNORED
    ).item()


def largest_difference(ours: GPT2LMHeadModel, theirs: GPT2LMHeadModel) -> tuple[float, str, list[str]]:
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
    parser.add_argument("--batch", type=Path, help="jsonl with input_ids and labels")
    parser.add_argument("--loss", type=float, help="the loss that is expected of --batch")
    parser.add_argument("--same-as", type=Path, help="another directory to compare every parameter with")
    parser.add_argument("--tolerance", type=float, default=0.0)
    args = parser.parse_args()
    if args.loss is not None and args.batch is None:
        parser.error("--loss needs --batch")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()

    result: dict[str, object] = {"directory": str(args.directory)}
    try:
        model, wrong = load(args.directory)
        if args.batch:
            loss = result["loss"] = fp64_loss(model, *read_batch(args.batch))
            if args.loss is not None and not abs(loss - args.loss) <= args.tolerance * abs(args.loss):
                wrong.append(f"loss {loss:.17g} is not {args.loss:.17g} within {args.tolerance:g}")
        if args.same_as:
            other, other_wrong = load(args.same_as)
            worst, where, incomparable = largest_difference(model, other)
            result |= {"largest_difference": worst, "where": where}
            wrong += other_wrong + incomparable
            if not worst <= args.tolerance:
                wrong.append(f"{where} differs by {worst:.3g}, more than {args.tolerance:g}")
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        print(f"check_saved: {error}", file=sys.stderr)
        return 2
    print(json.dumps(result))
    for line in wrong:
        print(f"check_saved: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
