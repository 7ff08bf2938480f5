#!/usr/bin/env python3
"""Everything that needs a GPU, from a bundle and nothing else, in six minutes on one H100 or H200 with 16 cores.

    check.sh [--no-bench] [--json FILE] [--seconds 360] [--backend cuda|cpu]

Always true: a line runs in a process group, with a limit and a cache folder of its own, beside others while the device's
memory and the machine's cores allow; what measures memory or time runs alone, last. At the end stand one table of what is
right, one of what is fast, and both as JSON. The exit status is 1 if a line failed or was not reached, never because of a
speed. `--backend cpu` runs the lines that train, to try this script where no GPU is.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import lines  # noqa: E402  (beside this file)

SHARE = Path(__file__).resolve().parent

@dataclass
class Result:
    name: str
    verdict: str  # "ok", "FAILED" or "not reached"
    seconds: float = 0
    why: str = ""  # the end of what a line that failed has said


@dataclass
class Check:
    """What all lines share; each gets a folder of its own."""

    bundle: Path
    backend: str
    work: Path
    deadline: float
    running: set[int] = field(default_factory=set)  # process groups
    limit: float = 1e9  # of a line, whatever its own is

    @property
    def recollect(self) -> str:
        return str(self.bundle / "bin/recollect")

    @property
    def tests(self) -> str:
        return str(self.bundle / "bin/test_gpu")

    def environment(self, cache: str) -> dict[str, str]:
        own = {"XDG_CACHE_HOME": str(self.work / f"cache.{cache}"), "RECOLLECT_GOLDENS": str(SHARE / "golden")}
        return {**os.environ, **own}

    def run(self, command: list[str], limit: float, log: Path, cache: str, **more: str) -> int:
        """Its status; -9 where it was ended, with all that it started, since its time was over."""
        with log.open("a", encoding="utf-8") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                start_new_session=True, env={**self.environment(cache), **more},
            )  # fmt: skip
            self.running.add(process.pid)
            try:
                return process.wait(timeout=max(0.1, limit))
            except subprocess.TimeoutExpired:
                output.write(f"(ended; its limit is {limit:.0f} s)\n")
                return -9
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                self.running.discard(process.pid)

    def end(self, *_: object) -> None:
        for group in list(self.running):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        shutil.rmtree(self.work, ignore_errors=True)
        os._exit(130)


def one(check: Check, line: lines.Line) -> Result:
    start = time.monotonic()
    log = check.work / f"{line.file()}.log"
    folder = check.work / line.file()
    folder.mkdir()
    try:
        line.body(lines.Place(check, folder, log, start + min(line.limit, check.limit), line.file()))
        return Result(line.name, "ok", time.monotonic() - start)
    except lines.Wrong as wrong:
        said = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        why = f"{said}{wrong}\n"
        return Result(line.name, "FAILED", time.monotonic() - start, "\n".join(why.splitlines()[-40:]))


def side_by_side(check: Check, todo: list[lines.Line], memory: float, cores: int) -> list[Result]:
    """The longest first; a line begins when its memory and a core are free."""
    results: list[Result] = []
    waiting = sorted(todo, key=lambda line: -line.seconds)
    free = {"memory": memory, "cores": float(cores)}
    news = threading.Condition()

    def work(line: lines.Line) -> None:
        result = one(check, line)
        with news:
            results.append(result)
            free["memory"] += line.memory
            free["cores"] += line.cores
            news.notify()

    threads = []
    with news:
        while waiting:
            late = time.monotonic() > check.deadline
            if late:
                results += [Result(line.name, "not reached") for line in waiting]
                break
            idle = free["memory"] >= memory and free["cores"] >= cores
            fits = [x for x in waiting if idle or (x.memory <= free["memory"] and x.cores <= free["cores"])]
            if fits:
                line = fits[0]
                waiting.remove(line)
                free["memory"] -= line.memory
                free["cores"] -= line.cores
                threads.append(threading.Thread(target=work, args=(line,)))
                threads[-1].start()
            else:
                news.wait(timeout=1)
    for thread in threads:
        thread.join()
    return results


def timed(check: Check, timing: lines.Timing) -> dict[str, object]:
    """Of one training, alone: the median of its later steps, beside what was predicted."""
    row: dict[str, object] = {"name": timing.name, "steps": 0}
    if time.monotonic() > check.deadline:
        return {**row, "why": "not reached"}
    folder = check.work / f"time.{timing.file()}"
    folder.mkdir()
    log = folder / "log"
    limit = min(timing.limit, check.deadline + 30 - time.monotonic())
    command = timing.command(check.recollect, check.backend, folder)
    status = check.run(command, limit, log, "time")
    try:
        if status != 0:
            raise ValueError(log.read_text(encoding="utf-8", errors="replace").strip()[-300:] or f"status {status}")
        return {**row, **timing.read(folder, log)}
    except (OSError, ValueError, KeyError, IndexError) as error:
        return {**row, "why": f"{error}".strip().splitlines()[-1]}


def machine(check: Check) -> dict[str, object]:
    about: dict[str, object] = {"backend": check.backend, "cores": os.cpu_count()}
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm", "--format=csv,noheader,nounits"]
    with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError, IndexError):
        said = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True).stdout.splitlines()[0]
        name, driver, memory, clock = [word.strip() for word in said.split(",")]
        about |= {"card": name, "driver": driver, "memory_gib": round(int(memory) / 1024, 1), "clock_mhz": int(clock)}
    with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
        said = subprocess.run([check.recollect, "--version"], capture_output=True, text=True, timeout=30, check=True)
        about["recollect"] = said.stdout.splitlines()[0] if said.stdout else ""
        doctor = subprocess.run(
            [check.recollect, "doctor", "--json"], capture_output=True, text=True, timeout=120, check=False
        )
        found = {c["name"]: c["found"] for c in json.loads(doctor.stdout)["checks"] if c["group"] == "GPU"}
        about["libraries"] = {name: found[name] for name in ("cublasLt", "cudnn", "nccl") if name in found}
        about["cuda"] = found.get("CUDA driver", "")
    return about


def text_of(value: object, digits: int) -> str:
    return f"{value:.{digits}f}" if isinstance(value, (int, float)) else "-"


def print_tables(about: dict[str, object], results: list[Result], speed: list[dict[str, object]]) -> None:
    for result in results:
        if result.why:
            print(f"--- {result.name}\n{result.why}")
    print(f"\n{about.get('card', 'no GPU')}, driver {about.get('driver', '-')}, {about.get('cuda', '-')}")
    for name, found in dict(about.get("libraries", {})).items():  # type: ignore[call-overload]
        print(f"  {name}: {found}")
    print()
    for result in results:
        print(f"{result.name:44} {result.verdict:11} {result.seconds:4.0f} s")
    if not speed:
        return
    print(f"\n{'alone, one after the other':34} {'ms a step':>10} {'tokens/s':>10} {'predicted':>10} "
          f"{'ratio':>6} {'exposed':>8} {'GiB':>7}")  # fmt: skip
    for row in speed:
        if "ms" not in row:
            print(f"{row['name']!s:34} {row.get('why', '-')}")
            continue
        predicted = row.get("predicted_ms")
        ratio = row["ms"] / predicted if predicted else None  # type: ignore[operator]
        cells = [text_of(row["ms"], 2), text_of(row.get("tokens_per_second"), 0), text_of(predicted, 2)]
        cells += [text_of(ratio, 2), text_of(row.get("exposed_ms"), 2), text_of(row.get("gib"), 2)]
        widths = (10, 10, 10, 6, 8, 7)
        print(f"{row['name']!s:34} " + " ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-bench", action="store_true", help="leaves the timings out")
    parser.add_argument("--json", type=Path, help="writes both tables there; else check.json in the current folder")
    parser.add_argument("--seconds", type=float, default=360, help="no line begins after that")
    parser.add_argument("--backend", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--only", default="", help="a regular expression: lines and timings whose name has it")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1, help="that lines may share")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds of a line at most")
    parser.add_argument("--bundle", type=Path, default=SHARE.parent, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    args = parse_arguments()
    start = time.monotonic()
    check = Check(args.bundle.resolve(), args.backend, Path(tempfile.mkdtemp(prefix="recollect-check-")),
                  start + args.seconds)  # fmt: skip
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, check.end)
    about = machine(check)
    check.limit = args.limit
    wanted = [x for x in lines.all_lines() if re.search(args.only, x.name) and (x.trains or args.backend == "cuda")]
    memory = float(about.get("memory_gib", 8)) - 4  # type: ignore[arg-type]
    results = side_by_side(check, [x for x in wanted if not x.alone], memory, args.cores)
    results += [one(check, x) if time.monotonic() < check.deadline else Result(x.name, "not reached")
                for x in wanted if x.alone]  # fmt: skip
    order = [line.name for line in lines.all_lines()]
    results.sort(key=lambda result: order.index(result.name))
    timings = [] if args.no_bench else [x for x in lines.timings(args.backend) if re.search(args.only, x.name)]
    speed = [timed(check, x) for x in timings]
    print_tables(about, results, speed)
    took = time.monotonic() - start
    print(f"\nall {took:.0f} s")
    report = {"machine": about, "checks": [vars(r) for r in results], "speed": speed, "seconds": round(took, 1)}
    (args.json or Path("check.json")).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    shutil.rmtree(check.work, ignore_errors=True)
    return 0 if results and all(result.verdict == "ok" for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
