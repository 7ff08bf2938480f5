"""What a run has written: its metrics, its results, its reports and its model."""
from __future__ import annotations

import dataclasses
import json
import math
import os
import pathlib
from typing import Any, Mapping, Union

from ._program import InputError


@dataclasses.dataclass(frozen=True)
class Step:
    """Of one optimizer step. What is not finite is nan."""

    step: int
    loss: float
    grad_norm: float
    learning_rate: float
    tokens: int
    tokens_per_second: float
    step_seconds: float
    device_memory: int
    skipped: bool  # its update was left out
    other: Mapping[str, float]  # further metrics, by their names in metrics.jsonl


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Of the evaluation behind a step."""

    step: int
    loss: float
    tokens: int
    seconds: float
    other: Mapping[str, float]  # the task's metrics: "perplexity", "eval_accuracy", ...


@dataclasses.dataclass(frozen=True)
class Results:
    """What a run closed with."""

    loss: float  # the mean of its steps
    seconds: float
    steps: int
    samples: int
    tokens_per_second: float
    device_memory_peak: int
    device_memory_predicted: int
    other: Mapping[str, Any]  # all else that train_results.json has


@dataclasses.dataclass(frozen=True)
class Run:
    """The folder of a run, as it was when it was loaded."""

    path: pathlib.Path
    steps: tuple[Step, ...]
    evaluations: tuple[Evaluation, ...]
    results: Results | None  # of a run that has ended well

    @property
    def config(self) -> pathlib.Path:
        """A configuration that can be run again."""
        return self.path / "config.resolved.yaml"

    @property
    def model(self) -> pathlib.Path | None:
        """The folder of the trained model, for Transformers or `model.pretrained`."""
        return self._with_model(self.path)

    @property
    def best_model(self) -> pathlib.Path | None:
        return self._with_model(self.path / "best_model")

    def report(self, rank: int = 0) -> Mapping[str, Any]:
        """What memory.rankN.json says of that rank."""
        path = self.path / f"memory.rank{rank}.json"
        if not path.is_file():
            raise InputError(3, f"{self.path} has no report of rank {rank}: memory_report.formats has json for that")
        report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return report

    @staticmethod
    def _with_model(folder: pathlib.Path) -> pathlib.Path | None:
        names = ("model.safetensors", "model.safetensors.index.json")
        return folder if any((folder / name).is_file() for name in names) else None


def metric_of(line: str | bytes) -> Step | Evaluation:
    """A line of metrics.jsonl."""
    said: dict[str, Any] = {key: math.nan if value is None else value for key, value in json.loads(line).items()}
    if "eval_loss" in said:
        return Evaluation(step=said.pop("step"), loss=said.pop("eval_loss"), tokens=said.pop("eval_tokens"),
                          seconds=said.pop("eval_seconds"), other=said)
    return Step(step=said.pop("step"), loss=said.pop("loss"), grad_norm=said.pop("grad_norm"),
                learning_rate=said.pop("learning_rate"), tokens=said.pop("tokens"),
                tokens_per_second=said.pop("tokens_per_second"), step_seconds=said.pop("step_seconds"),
                device_memory=said.pop("device_memory"), skipped=said.pop("skipped", False), other=said)


def load(run_dir: Union[str, "os.PathLike[str]"]) -> Run:
    """Reads the `output_dir` of a run, which may still go on. Raises an InputError where there is none."""
    path = pathlib.Path(run_dir)
    if not (path / "config.resolved.yaml").is_file():
        raise InputError(3, f"{path} is no run's folder: it has no config.resolved.yaml")
    metrics = [metric_of(line) for line in _whole_lines(path / "metrics.jsonl")]
    return Run(path=path, steps=tuple(metric for metric in metrics if isinstance(metric, Step)),
               evaluations=tuple(metric for metric in metrics if isinstance(metric, Evaluation)),
               results=_results(path / "train_results.json"))


def _whole_lines(path: pathlib.Path) -> list[bytes]:
    return path.read_bytes().split(b"\n")[:-1] if path.is_file() else []


def _results(path: pathlib.Path) -> Results | None:
    if not path.is_file():
        return None
    said: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return Results(loss=said.pop("train_loss"), seconds=said.pop("train_runtime"), steps=said.pop("train_steps"),
                   samples=said.pop("train_samples"), tokens_per_second=said.pop("train_tokens_per_second"),
                   device_memory_peak=said.pop("device_memory_peak"),
                   device_memory_predicted=said.pop("device_memory_predicted"), other=said)
