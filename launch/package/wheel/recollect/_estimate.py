"""What a run will take, before it runs."""
from __future__ import annotations

import dataclasses
import json
from typing import Any, Mapping

from ._program import Config, Overrides, run, words_of


@dataclasses.dataclass(frozen=True)
class Phase:
    """Bytes of a rank's device in forward, backward or optimizer, where that takes most."""

    categories: Mapping[str, int]  # "parameters", "gradients", "optimizer", "activations", ...
    total: int
    peak_op: str


@dataclasses.dataclass(frozen=True)
class Estimate:
    """Of each rank; all are alike. Bytes and seconds."""

    ranks: int
    device: int  # what is reserved of the device
    host: int  # of host memory, for saved activations and the like
    disk: int
    resident: int | None  # of the whole process, where that can be said
    phases: Mapping[str, Phase]
    flops: float  # of a micro-batch
    recomputed_flops: float
    step_seconds: float  # with the rates of `device.model`
    exposed_seconds: float
    device_model: str
    remarks: tuple[str, ...]  # on switches that do less than they could
    json: Mapping[str, Any] = dataclasses.field(repr=False, compare=False)  # all that `recollect estimate --json` says


def estimate(config: Config, overrides: Overrides | None = None) -> Estimate:
    """Predicts memory and step time without training. Raises a RecollectError."""
    with words_of(config, overrides) as (words, names):
        said: dict[str, Any] = json.loads(run(["estimate", *words, "--json"], names))
    memory = said["memory"]
    work = said["per_micro_batch"]
    resident = said.get("resident", {}).get("predicted", 0)
    return Estimate(
        ranks=said["ranks"], device=memory["arena"], host=memory["host_arena"], disk=memory["disk"],
        resident=resident or None,
        phases={name: _phase(memory[name]) for name in ("forward", "backward", "optimizer")},
        flops=work["flops"], recomputed_flops=work["recomputed_flops"], step_seconds=said["step_seconds"],
        exposed_seconds=said["exposed_seconds"], device_model=said["device_model"], remarks=tuple(said["remarks"]),
        json=said)


def _phase(said: Mapping[str, Any]) -> Phase:
    categories = {name: value for name, value in said.items() if name not in ("total", "peak_op")}
    return Phase(categories=categories, total=said["total"], peak_op=said["peak_op"])
