#!/usr/bin/env python3
"""Kills runs that save a snapshot after every step, at random times, and starts them again until they are done.

Always true: a run that was killed any number of times ends with the same bits of all that a snapshot holds, and with the same
metrics, no step missing and none twice, as one that nobody touched. Whom a kill strikes, a rank or the launcher, and when, is
drawn; --seed draws the same again. Ends with 1, and keeps the folder, at the first run of which that is not so.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STEPS = 14
PATIENCE = 60.0  # seconds for a run to end by itself, or after a kill
ALONE = 10.0  # seconds that mpirun may live on without a rank
CONFIGURATION = """
model: {vocab_size: 61, n_positions: 16, n_embd: 48, n_layer: 3, n_head: 4, resid_pdrop: 0.1}
training: {micro_batch_size: 4, global_batch_size: 16, max_steps: %d, seed: 7}
optimizer: {learning_rate: 1e-2}
data: {format: random}
activation_checkpointing: {mode: full}
snapshot: {every_steps: 1}
memory_report: {at: []}
profiling: {step: 0}
logging: {progress: off}
parallelism: {timeout_seconds: 10}
output_dir: out
"""


def command(args: argparse.Namespace, kind: str, ranks: int) -> list[str]:
    words = [str(args.recollect), "train", "c.yaml", "parallelism.tensor_parallel_size=2"]
    if kind == "mpi":
        return ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks), *words]
    return [str(args.recollect), "run", "--standalone", "--nproc-per-node", str(ranks), *words, f"parallelism.communicator={kind}"]


def processes() -> dict[int, tuple[int, str]]:
    """Parent and name of everything that runs."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            name, rest = (entry / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
        except (OSError, IndexError):
            continue
        state, parent = rest.split()[:2]
        if state not in "ZX":
            found[int(entry.name)] = (int(parent), name)
    return found


def descendants(ancestor: int) -> list[int]:
    running = processes()
    found = [ancestor]
    for pid in found:
        found += [child for child, (parent, _) in running.items() if parent == pid]
    return [pid for pid in found[1:] if running[pid][1] == "recollect"]


def strike(child: subprocess.Popen[bytes], source: random.Random, launcher_too: bool) -> str:
    """Kills a random rank, or the launcher; says whom."""
    ranks = descendants(child.pid)
    if launcher_too and (not ranks or source.random() < 0.3):
        child.kill()
        return "launcher"
    if not ranks:
        return "nobody"
    try:
        os.kill(source.choice(ranks), signal.SIGKILL)
    except ProcessLookupError:
        return "nobody"
    return "rank"


def wait(child: subprocess.Popen[bytes], is_mpirun: bool) -> int:
    """Its status; -1 where it hangs. Open MPI 4.1.4's mpirun can, in PMIx_server_finalize, when a rank dies while it joins."""
    start = last = time.monotonic()
    while time.monotonic() < start + PATIENCE:
        if child.poll() is not None:
            return child.returncode
        if is_mpirun and time.monotonic() > last + ALONE / 2 and descendants(child.pid):
            last = time.monotonic()
        if is_mpirun and time.monotonic() > last + ALONE:
            print("mpirun hangs without a rank, and is killed", file=sys.stderr)
            child.kill()
            return child.wait()
        time.sleep(0.01)
    os.killpg(child.pid, signal.SIGKILL)
    return -1


def attempt(words: list[str], folder: Path, source: random.Random | None, seconds: float) -> tuple[int, str]:
    """Runs once, struck at a random time within `seconds` where there is a source. Returns status and who was struck."""
    # An mpirun that is killed leaves its ranks' shared memory behind.
    with (folder / "out.txt").open("ab") as out, tempfile.TemporaryDirectory(prefix="kill_loop_", dir="/dev/shm") as shared:
        environment = os.environ | {"OMPI_MCA_btl_vader_backing_directory": shared}
        child = subprocess.Popen(words, cwd=folder, env=environment, stdout=out, stderr=out, start_new_session=True)
        struck, ours = "nobody", set()
        if source is not None:
            try:
                child.wait(source.uniform(0, 1.1 * seconds))
            except subprocess.TimeoutExpired:
                ours = set(descendants(child.pid))  # nobody's, once the launcher is gone
                struck = strike(child, source, launcher_too=True)
        ours |= set(descendants(child.pid))
        status = wait(child, words[0] == "mpirun")
        deadline = time.monotonic() + PATIENCE
        while status != -1 and ours & set(processes()):  # ranks of a launcher that was killed
            if time.monotonic() > deadline:
                return -1, struck
            time.sleep(0.01)
    return status, struck


def state(folder: Path) -> str:
    """What the run has come to: the bits of its last snapshot, and its metrics but for times."""
    last = folder / f"out/snapshots/step-{STEPS:08}"
    digest = hashlib.sha256()
    for file in sorted(last.glob("*.safetensors")):
        digest.update(file.read_bytes())
    lines = [json.loads(line) for line in (folder / "out/metrics.jsonl").read_text().splitlines()]
    digest.update(json.dumps([[line["step"], line["loss"], line["grad_norm"]] for line in lines]).encode())
    if [line["step"] for line in lines] != list(range(1, STEPS + 1)):
        raise ValueError(f"metrics of steps {[line['step'] for line in lines]}")
    return digest.hexdigest()


def undisturbed(args: argparse.Namespace, kind: str, ranks: int) -> tuple[str, float]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "c.yaml").write_text(CONFIGURATION % STEPS)
        start = time.monotonic()
        status, _ = attempt(command(args, kind, ranks), folder, None, 0)
        if status != 0:
            raise SystemExit(f"{kind}, {ranks} ranks: exit {status}\n{(folder / 'out.txt').read_text()}")
        return state(folder), time.monotonic() - start


def killed(args: argparse.Namespace, kind: str, ranks: int, expected: str, seconds: float, source: random.Random) -> int:
    """One training, struck until three attempts have been, and let end. Returns how many kills it took."""
    folder = Path(tempfile.mkdtemp(prefix="kill_loop_"))
    (folder / "c.yaml").write_text(CONFIGURATION % STEPS)
    kills, status = 0, 1
    for number in range(40):
        status, struck = attempt(command(args, kind, ranks), folder, source if kills < 3 else None, seconds)
        kills += struck != "nobody"
        if status == 0 or status == -1 or (struck == "nobody" and kills >= 3):
            break
    try:
        same = status == 0 and state(folder) == expected
    except (OSError, ValueError, KeyError) as error:
        print(error, file=sys.stderr)
        same = False
    if not same:
        raise SystemExit(f"{kind}, {ranks} ranks: exit {status} after {kills} kills, or another result; see {folder}")
    shutil.rmtree(folder)
    return kills


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kills", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--recollect", type=Path, default=ROOT / "build/cpu/recollect")
    parser.add_argument("--progress", action="store_true", help="say how many kills are done")
    args = parser.parse_args()
    source = random.Random(args.seed)
    layouts = [(kind, ranks) for kind in ("local", "tcp", "mpi") for ranks in (2, 4)]
    expected = {layout: undisturbed(args, *layout) for layout in layouts}
    kills = runs = 0
    while kills < args.kills:
        for layout in layouts:
            kills += killed(args, *layout, *expected[layout], source)
            runs += 1
        if args.progress:
            print(f"{kills} kills", file=sys.stderr, flush=True)
    print(f"{kills} kills in {runs} runs of {len(layouts)} layouts: each ended with the bits and the metrics of one left alone")
    return 0


if __name__ == "__main__":
    sys.exit(main())
