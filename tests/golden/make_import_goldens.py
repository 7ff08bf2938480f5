#!/usr/bin/env python3
"""Writes imports/: what Transformers' Trainer makes of TrainingArguments, for `recollect config import` to be held against.

- arguments-N.json: to_json_string() of arguments of which nobody gave any but the folder; N is the version that runs this
- optimizers.json: of each value of `optim` the class, and what reaches it. Packages that are not installed are stood in for
  by empty classes: what is written are the arguments that the Trainer passes
- schedules.json: of each value of `lr_scheduler_type` and arguments of it the rate of every step
- strategies.json: of each strategy the steps after which the Trainer evaluates, saves and logs
"""

import inspect
import json
import math
import pathlib
import sys
import types
from unittest import mock

import torch
import transformers
from transformers import Trainer, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import DefaultFlowCallback
from transformers.trainer_utils import SchedulerType
from transformers.training_args import OptimizerNames

FOLDER = pathlib.Path(__file__).with_name("imports")
GIVEN = {"learning_rate": 1e-3, "weight_decay": 0.1, "adam_beta1": 0.8, "adam_beta2": 0.97, "adam_epsilon": 1e-6}
STEPS, RATE = 12, 1e-3
SAMPLES, BATCH, EPOCHS = 10, 2, 3.0

# package -> classes that the Trainer takes from it
STAND_INS = {
    "bitsandbytes.optim": ["AdamW", "Lion", "RMSprop", "AdEMAMix"],
    "torchao.optim": ["AdamW4bit", "AdamW8bit"],
    "torch_xla.amp.syncfree": ["AdamW"],
    "torch_npu.optim": ["NpuFusedAdamW"],
    "torchdistx.optimizers": ["AnyPrecisionAdamW"],
    "grokadamw": ["GrokAdamW"],
    "schedulefree": ["AdamWScheduleFree", "SGDScheduleFree", "RAdamScheduleFree"],
    "optimi": ["StableAdamW"],
    "lomo_optim": ["Lomo", "AdaLomo"],
    "galore_torch": ["GaLoreAdafactor", "GaLoreAdamW", "GaLoreAdamW8bit"],
    "apollo_torch": ["APOLLOAdamW"],
}


def stand_in(names):
    """Modules with those classes, as if they were installed."""
    made = {}
    for path, classes in names.items():
        parts = path.split(".")
        for i in range(1, len(parts) + 1):
            made.setdefault(".".join(parts[:i]), types.ModuleType(".".join(parts[:i])))
        for name in classes:
            body = {"__module__": path, "__init__": lambda self, params, **_: None}
            setattr(made[path], name, type(name, (torch.optim.Optimizer,), body))
    return made


def arguments(**given):
    return TrainingArguments("out", use_cpu=True, report_to="none", **given)


def what_reaches(cls, kwargs):
    """Of a class that is there, all that it is made with; of one that is stood in for, what it is passed."""
    plain = {k: v for k, v in kwargs.items() if k not in ("params", "model", "optimizer_dict")}
    if cls.__module__ in STAND_INS:
        return plain
    signature = inspect.signature(cls.__init__)
    made = {k: p.default for k, p in signature.parameters.items() if p.default is not inspect.Parameter.empty}
    return made | plain


def optimizers():
    made = {}
    model = torch.nn.Sequential(torch.nn.Linear(4, 4))
    there = [f"is_{n}_available" for n in ("bitsandbytes", "torchao", "grokadamw", "schedulefree", "torch_optimi", "lomo",
                                           "galore_torch", "apollo_torch")]
    module = "transformers.trainer_optimizer."
    with mock.patch.dict(sys.modules, stand_in(STAND_INS)), mock.patch("importlib.metadata.version", lambda name: "0.12.0"):
        patches = [mock.patch(module + name, lambda *_: True) for name in there]
        for patch in patches:
            patch.start()
        for name in OptimizerNames:
            args = arguments(optim=name.value, optim_target_modules="all-linear", **GIVEN)
            cls, kwargs = Trainer.get_optimizer_cls_and_kwargs(args, model)
            reached = {k: v for k, v in what_reaches(cls, dict(kwargs)).items() if isinstance(v, (int, float, tuple, bool))}
            made[name.value] = {"class": f"{cls.__module__}.{cls.__name__}", "arguments": reached}
        for patch in patches:
            patch.stop()
    return {"given": GIVEN, "optim": made}


def rates(args):
    of = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=args.learning_rate)
    scheduler = transformers.get_scheduler(
        args.lr_scheduler_type, of, args.get_warmup_steps(STEPS), STEPS, scheduler_specific_kwargs=args.lr_scheduler_kwargs
    )
    made = []
    for _ in range(STEPS):
        made.append(scheduler.get_last_lr()[0])
        of.step()
        scheduler.step()
    return made


# Arguments beside those without any; None where it cannot be made without.
KWARGS = {
    "cosine": [{"num_cycles": 0.5}, {"num_cycles": 1.5}],
    "cosine_with_restarts": [{"num_cycles": 3}],
    "polynomial": [{"power": 2.0}, {"lr_end": 1e-5}, {"lr_end": 0.0, "power": 0.5}],
    "inverse_sqrt": [{"timescale": 5}],
    "cosine_with_min_lr": [None, {"min_lr": 1e-4}, {"min_lr_rate": 0.1}, {"min_lr_rate": 0.1, "num_cycles": 1.0}],
    "cosine_warmup_with_min_lr": [None, {"min_lr_rate": 0.1}],
    "warmup_stable_decay": [
        None,
        {"num_decay_steps": 4},
        {"num_decay_steps": 4, "decay_type": "linear", "min_lr_ratio": 0.1},
        {"num_decay_steps": 4, "decay_type": "1-sqrt"},
        {"num_decay_steps": 4, "num_stable_steps": 5},
        {"num_decay_steps": 4, "num_stable_steps": 3},
        {"num_decay_steps": 4, "warmup_type": "cosine"},
    ],
}


def schedules():
    made = []
    for name in SchedulerType:
        if name in (SchedulerType.REDUCE_ON_PLATEAU, SchedulerType.GREEDY):  # which have no rates without a metric
            made.append({"arguments": {"lr_scheduler_type": name.value}})
            continue
        several = KWARGS.get(name.value, [])
        for kwargs in ([] if None in several else [{}]) + [k for k in several if k is not None]:
            for warm in (0, 3, 0.3):
                given = {"lr_scheduler_type": name.value, "warmup_steps": warm, "max_steps": STEPS, "learning_rate": RATE}
                if kwargs:
                    given["lr_scheduler_kwargs"] = kwargs
                made.append({"arguments": given, "rates": rates(arguments(**given))})
    return {"max_steps": STEPS, "cases": made}


def occasions(args):
    """After which steps the Trainer's own callback evaluates, saves and logs."""
    a_epoch = math.ceil(SAMPLES / BATCH)
    steps = args.max_steps if args.max_steps > 0 else math.ceil(EPOCHS * a_epoch)
    state, flow = TrainerState(max_steps=steps), DefaultFlowCallback()
    state.compute_steps(args, steps)
    found = {"evaluates": [], "saves": [], "logs": []}
    for step in range(1, steps + 1):
        state.global_step, control = step, TrainerControl()
        flow.on_step_end(args, state, control)
        if step % a_epoch == 0:
            flow.on_epoch_end(args, state, control)
        for what, is_due in (("evaluates", control.should_evaluate), ("saves", control.should_save), ("logs", control.should_log)):
            if is_due:
                found[what].append(step)
    return {"steps": steps, **found}


def strategies():
    made = []
    for given in (
        {},
        {"eval_strategy": "no", "eval_steps": 4},
        {"eval_strategy": "steps", "eval_steps": 4},
        {"eval_strategy": "steps", "logging_steps": 6},
        {"eval_strategy": "steps", "eval_steps": 0.25, "max_steps": 10},
        {"eval_strategy": "steps", "eval_steps": 0.2},
        {"eval_strategy": "epoch"},
        {"save_strategy": "no"},
        {"save_strategy": "steps", "save_steps": 4},
        {"save_strategy": "steps", "save_steps": 0.5, "max_steps": 11},
        {"save_strategy": "epoch"},
        {"save_strategy": "epoch", "eval_strategy": "epoch", "load_best_model_at_end": True},
        {"save_strategy": "best", "eval_strategy": "epoch", "metric_for_best_model": "loss"},
        {"logging_strategy": "no"},
        {"logging_strategy": "steps", "logging_steps": 2},
        {"logging_strategy": "epoch"},
    ):
        args = arguments(num_train_epochs=EPOCHS, per_device_train_batch_size=BATCH, **given)
        made.append({"arguments": given, **occasions(args)})
    return {"samples": SAMPLES, "batch": BATCH, "epochs": EPOCHS, "cases": made}


def write(name, value):
    """A line for each key, and of lists and of mappings of mappings for each entry."""

    def lines(key, inner):
        head = f"{json.dumps(key)}: "
        if isinstance(inner, list) and inner and isinstance(inner[0], dict):
            return head + "[\n" + ",\n".join("  " + json.dumps(one) for one in inner) + "\n]"
        if isinstance(inner, dict) and key == "optim":
            return head + "{\n" + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in inner.items()) + "\n}"
        return head + json.dumps(inner)

    text = "{\n" + ",\n".join(lines(k, v) for k, v in value.items()) + "\n}\n"
    (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    untouched = json.loads(TrainingArguments("out", use_cpu=True).to_json_string())
    untouched |= {"use_cpu": False, "dataloader_pin_memory": True}  # which only tells that there is no GPU here
    write(f"arguments-{transformers.__version__.split('.')[0]}.json", untouched)
    if sys.argv[1:] != ["--arguments"]:  # all that older versions are asked for
        write("optimizers.json", optimizers())
        write("schedules.json", schedules())
        write("strategies.json", strategies())
