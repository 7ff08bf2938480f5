"""Trainings that take their steps in turn: one takes a step while the others are stopped (SIGSTOP), then the next one.

Always true: a step is timed from outside, from when its processes go on to when its line is in metrics.jsonl. What is compared
lies seconds apart, not minutes, so that a machine which is slow for a while is so for all. What a stopped process measures of
itself counts the pause; its times are not used.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from workload import ROOT, Unavailable

POLL = 0.002  # seconds


@dataclass
class Training:
    """A command that writes one line a step into `metrics`, by itself or by processes that it starts."""

    command: list[str]
    metrics: Path
    threads: int  # of a process


@dataclass
class Taken:
    seconds: list[float]  # a step, of each timed turn
    rss: int  # bytes, of the largest process
    output: str  # of the command


def descendants(root: int) -> list[int]:
    """A process and all that it has started, itself first."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            parents.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for process in found:
        found += parents.get(process, [])
    return found


class Running:
    def __init__(self, training: Training) -> None:
        self.training = training
        self.out, self.err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
        environment = os.environ | {"OMP_NUM_THREADS": str(training.threads)}
        try:
            self.child = subprocess.Popen(training.command, stdout=self.out, stderr=self.err, env=environment, cwd=ROOT)
        except OSError as error:
            raise Unavailable(f"{training.command[0]}: {error.strerror}") from error
        self.processes: list[int] = []
        self.output = ""
        self.size = self.lines = self.rss = 0
        self.quickest: float | None = None  # seconds of a timed turn
        self.ended = False

    def send(self, number: signal.Signals) -> None:
        if not self.processes or number != signal.SIGCONT:
            self.processes = descendants(self.child.pid)
        for process in self.processes:
            try:
                os.kill(process, number)
            except ProcessLookupError:
                pass

    def steps(self) -> int:
        """Lines of steps so far."""
        try:
            size = self.training.metrics.stat().st_size
        except FileNotFoundError:
            return 0
        if size != self.size:
            self.size = size
            self.lines = self.training.metrics.read_text(encoding="utf-8").count('"step_seconds"')
        return self.lines

    def look(self) -> None:
        """Unavailable where it has failed."""
        if self.ended:
            return
        pid, status, usage = os.wait4(self.child.pid, os.WNOHANG)
        if pid == 0:
            return
        self.ended, self.rss = True, usage.ru_maxrss * 1024
        self.out.seek(0)
        self.output = self.out.read()
        self.child.returncode = os.waitstatus_to_exitcode(status)
        if self.child.returncode != 0:
            self.err.seek(0)
            last = [line.strip() for line in self.err.read().splitlines() if line.strip()][-1:]
            raise Unavailable(f"{Path(self.training.command[0]).name}: exit {self.child.returncode}: {''.join(last)[:300]}")

    def until(self, step: int, deadline: float) -> float:
        """Lets it run until it has taken so many steps; returns the seconds to the last of them."""
        begin = time.monotonic()
        self.send(signal.SIGCONT)
        time.sleep(0.8 * (self.quickest or 0))  # whoever looks takes time from it: not before it is likely to have ended
        while self.steps() < step:
            self.look()
            if time.monotonic() > deadline or (self.ended and self.steps() < step):
                raise Unavailable(f"{' '.join(self.training.command)}: step {step} did not come")
            time.sleep(POLL)
        return time.monotonic() - begin

    def turn(self, step: int, deadline: float) -> float:
        seconds = self.until(step, deadline)
        self.quickest = min(seconds, self.quickest or seconds)
        return seconds

    def finish(self, deadline: float) -> None:
        while not self.ended:
            self.look()
            if time.monotonic() > deadline:
                raise Unavailable(f"{' '.join(self.training.command)}: did not end")
            time.sleep(POLL)

    def close(self) -> None:
        if not self.ended:
            self.send(signal.SIGKILL)
            os.waitpid(self.child.pid, 0)
            self.child.returncode = -signal.SIGKILL
        self.out.close()
        self.err.close()


def steps_in_turn(trainings: list[Training], warmup: int, turns: int, timeout: float, together: int = 1) -> list[Taken]:
    """Each takes warmup + turns * together steps, the first `warmup`, one at least, without being timed, and ends; or Unavailable.
    A turn is `together` steps, more than one where a step is too short to be timed from outside; its seconds are a step's."""
    running: list[Running] = []
    deadline = time.monotonic() + timeout
    seconds: list[list[float]] = [[] for _ in trainings]
    last = warmup + turns * together
    try:
        for training in trainings:
            running.append(Running(training))
            running[-1].until(warmup, deadline)
            running[-1].send(signal.SIGSTOP)
        for step in range(warmup + together, last + 1, together):
            for one, taken in zip(running, seconds):
                taken.append(one.turn(step, deadline) / together)
                if step == last:
                    one.finish(deadline)
                else:
                    one.send(signal.SIGSTOP)
    finally:
        for one in running:
            one.close()
    return [Taken(taken, one.rss, one.output) for taken, one in zip(seconds, running)]
