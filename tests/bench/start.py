#!/usr/bin/env python3
"""How long a run takes from its start to its first step, of one program or of several in turn.

    start.py CONFIG [--program PATH]... [--rounds N] [--cold] [WORDS...]

Every round runs each program's `train CONFIG WORDS training.max_steps=1` once. Seconds to the first step are those until its
line comes, less the step's own; processor seconds are those of the whole process, the step's among them. --cold: the files of
model.pretrained are put out of the system's memory before every run. Where a model is read, the rate of reading its files one
after the other, cold or not, is measured before each run and told beside it. Parts of the start are as train_results.json has them.
"""
import argparse
import glob
import json
import os
import resource
import statistics
import subprocess
import tempfile
import time


def files_of(words):
    folders = [w.split("=", 1)[1] for w in words if w.startswith("model.pretrained=")]
    return [f for folder in folders for f in sorted(glob.glob(os.path.join(folder, "*.safetensors")))]


def put_out(files):
    for name in files:
        with open(name, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_rate(files):
    """Bytes a second of plain reads, 8 MiB at a time into the same memory."""
    block, total, start = bytearray(8 << 20), 0, time.monotonic()
    for name in files:
        with open(name, "rb", buffering=0) as file:
            while count := file.readinto(block):
                total += count
    return total / (time.monotonic() - start)


def run_once(program, config, words):
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "out")
        command = [program, "train", config, *words, "training.max_steps=1", "logging.progress=off",
                   f"output_dir={output}", "memory_report.at=[]", "checkpoint.save_model=false"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        first = None
        for line in process.stdout:
            if line.startswith("step 1/"):
                first = time.monotonic() - start
        error = process.stderr.read()
        if process.wait() != 0 or first is None:
            raise SystemExit(error)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        with open(os.path.join(output, "metrics.jsonl")) as lines:
            step = json.loads(lines.readline())["step_seconds"]
        with open(os.path.join(output, "train_results.json")) as file:
            parts = json.load(file).get("start_seconds", {})
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return first - step, processor, parts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("words", nargs="*")
    parser.add_argument("--program", action="append")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cold", action="store_true")
    given = parser.parse_intermixed_args()
    programs = given.program or ["build/cpu/recollect"]
    files = files_of(given.words)
    results, rates = {p: [] for p in programs}, []
    for _ in range(given.rounds):
        for program in programs:
            if files:
                if given.cold:
                    put_out(files)
                rates.append(read_rate(files))
                if given.cold:
                    put_out(files)
            results[program].append(run_once(program, given.config, given.words))
    print("| program | s to the first step, median | range | processor, s | parts |")
    print("|---|---|---|---|---|")
    for program, runs in results.items():
        times = [r[0] for r in runs]
        told = {k: statistics.median(r[2][k] for r in runs) for k in runs[0][2]}
        parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in told.items() if seconds >= 0.005)
        print(f"| {program} | {statistics.median(times):.2f} | {min(times):.2f}-{max(times):.2f} | "
              f"{statistics.median(r[1] for r in runs):.2f} | {parts} |")
    if files:
        size = sum(os.path.getsize(f) for f in files)
        print(f"\n{size / 1e9:.2f} GB; plain reads {min(rates) / 1e9:.2f} to {max(rates) / 1e9:.2f} GB/s, "
              f"median {statistics.median(rates) / 1e9:.2f}, {'cold' if given.cold else 'warm'}; "
              f"load average at the end {os.getloadavg()[0]:.1f}")
    else:
        print(f"\nload average at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
