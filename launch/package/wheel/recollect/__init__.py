"""Trains transformers whose activations do not fit in memory.

The package carries the program `recollect`; these functions run it and read what it writes. A configuration is the path of a
YAML file or a mapping of the same form; `overrides` sets keys by their full names, as the command line does::

    estimate = recollect.estimate("config.yaml", {"training.micro_batch_size": 16})
    for said in recollect.train("config.yaml"):
        print(said.step, said.loss)
    print(recollect.load("runs/a").results)
    print(recollect.generate("config.yaml", "Once upon").pop().text)
"""
from ._apply import Continuation, generate, predict
from ._estimate import Estimate, Phase, estimate
from ._program import (ConfigurationError, DeviceMemoryError, HostMemoryError, InputError, IntegrityError, NumericsError,
                       PeerLost, Preempted, RanksDisagree, RecollectError, StorageError, program, version)
from ._runs import Evaluation, Results, Run, Step, load
from ._train import Training, train

__version__ = version()

__all__ = [
    "ConfigurationError", "Continuation", "DeviceMemoryError", "Estimate", "Evaluation", "HostMemoryError", "InputError",
    "IntegrityError", "NumericsError", "PeerLost", "Phase", "Preempted", "RanksDisagree", "RecollectError", "Results", "Run",
    "Step", "StorageError", "Training", "estimate", "generate", "load", "predict", "program", "train",
]
