#!/usr/bin/env python3
"""Prints the runs of a store, oldest first, as MLflow's own client reads them, as JSON: id, name, status, parameters, tags, and
metrics as name -> [[step, value]]. Values that are not finite are null."""
import json
import math
import os
import pathlib
import sys

os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"  # newer clients ask whether folders are meant

from mlflow import MlflowClient  # noqa: E402

client = MlflowClient(tracking_uri=pathlib.Path(sys.argv[1]).resolve().as_uri())
runs = client.search_runs([e.experiment_id for e in client.search_experiments()], order_by=["attributes.start_time ASC"])


def points(run, key):
    history = client.get_metric_history(run.info.run_id, key)
    return [[m.step, m.value if math.isfinite(m.value) else None] for m in history]


print(json.dumps([{"id": run.info.run_id, "name": run.info.run_name, "status": run.info.status,
                   "parameters": run.data.params, "tags": run.data.tags,
                   "metrics": {key: points(run, key) for key in run.data.metrics}} for run in runs]))
