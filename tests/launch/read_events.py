#!/usr/bin/env python3
"""Prints the scalars of a folder of event files, as TensorBoard itself reads them, as JSON: tag -> [[step, value]]."""
import json
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

accumulator = EventAccumulator(sys.argv[1])
accumulator.Reload()
print(json.dumps({tag: [[e.step, e.value] for e in accumulator.Scalars(tag)]
                  for tag in accumulator.Tags()["scalars"]}))
