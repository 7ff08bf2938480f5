"""A training as an iterator of what it measures. The program hears of it by `logging.hook`: rank 0 starts a command that
writes each line of metrics into a pipe, which a thread reads, so that training never waits for who iterates."""
from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import shlex
import signal
import subprocess
import tempfile
import threading
import weakref
from types import TracebackType
from typing import IO, Iterator

from ._program import Config, Names, Overrides, error_of, program, run, words_of
from ._runs import Evaluation, Run, Step, load, metric_of

_going_on: weakref.WeakValueDictionary[str, Training] = weakref.WeakValueDictionary()  # by their folders
_BETWEEN_LOOKS = 0.05  # seconds
_GRACE = 30.0  # seconds, as Slurm and Kubernetes leave


class Training(Iterator["Step | Evaluation"]):
    """A run that goes on in processes of its own. Behind its last line the iterator ends, or raises a RecollectError. Who
    stops to iterate calls `close`, as leaving a `with` block does."""

    def __init__(self, words: list[str], names: Names | None, settings: dict[str, str], ranks: int, verbose: bool,
                 resources: contextlib.ExitStack) -> None:
        self._output_dir = os.path.abspath(settings["output_dir"])
        self._names = names
        self._errors = ""
        self._resources = resources
        self._status: int | None = None
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        folder = resources.enter_context(tempfile.TemporaryDirectory(prefix="recollect-"))
        pipe = os.path.join(folder, "metrics")
        os.mkfifo(pipe, 0o600)
        # Open for writing too: a reader alone would see an end before the first writer comes.
        reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        resources.callback(os.close, reader)
        launcher = ["run", "--nproc-per-node", str(ranks)] if ranks > 1 else []
        self._said: IO[bytes] = resources.enter_context(tempfile.TemporaryFile())
        self._process = subprocess.Popen(
            [str(program()), *launcher, "train", *words, f"logging.hook={_hook(pipe, settings['hook'])}"],
            stdin=subprocess.DEVNULL, stdout=None if verbose else subprocess.DEVNULL, stderr=self._said)
        self._thread = threading.Thread(target=_read, args=(self._process, reader, self._lines), daemon=True)
        self._thread.start()

    def __iter__(self) -> Training:
        return self

    def __next__(self) -> Step | Evaluation:
        line = self._lines.get() if self._status is None else None
        if line is not None:
            return metric_of(line)
        status, said = self._end()
        if status != 0:
            raise error_of(status, said)
        raise StopIteration

    @property
    def warnings(self) -> str:
        """What the program has written to its standard error, when it has ended."""
        return self._errors

    def wait(self) -> Run:
        """Goes through what is left, and loads the run's folder."""
        for _ in self:
            pass
        return load(self._output_dir)

    def stop(self) -> None:
        """Asks the run to end behind this step with its state saved: the iterator then raises Preempted."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGUSR1)

    def close(self) -> None:
        """Ends a run that goes on, as SIGTERM does."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._end()

    def __enter__(self) -> Training:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_status", 0) is None and hasattr(self, "_thread"):
            self.close()

    def _end(self) -> tuple[int, str]:
        """Its status and what it has written to its standard error."""
        if self._status is None:
            self._status = self._process.wait()
            self._thread.join()
            self._said.seek(0)
            self._errors = self._said.read().decode("utf-8", "replace")
            if self._names:
                self._errors = self._names.of_mapping(self._errors)
            self._resources.close()
        return self._status, self._errors


def train(config: Config, overrides: Overrides | None = None, *, ranks: int = 1, verbose: bool = False) -> Training:
    """Begins to train, on `ranks` processes of this machine, and yields a Step or Evaluation as each is done. `verbose`
    shows what the program says on its standard output. Raises a RecollectError where the configuration is refused at once,
    else while one iterates. A training of this process that still writes to the same folder is closed first, as where a
    notebook's cell was interrupted and is run again; the files of one that has ended move to the folder's `earlier`."""
    if ranks < 1:
        raise ValueError(f"ranks is {ranks}: one at least")
    with contextlib.ExitStack() as resources:
        words, names = resources.enter_context(words_of(config, overrides))
        settings = _settings(run(["config", "show", *words], names))
        output_dir = os.path.realpath(settings["output_dir"])
        if (before := _going_on.get(output_dir)) is not None:
            before.close()
        training = Training(words, names, settings, ranks, verbose, resources.pop_all())
        _going_on[output_dir] = training
        return training


def _settings(shown: str) -> dict[str, str]:
    """The output folder and the user's own hook, of what `config show` prints."""
    found: dict[str, str] = {}
    section = ""
    for line in shown.splitlines():
        key, _, value = line.partition(":")
        if not line.startswith(" "):
            section = key
        if key == "output_dir" or (section == "logging" and key == "  hook"):
            found[key.strip()] = _scalar(value.strip())
    return found


def _scalar(printed: str) -> str:
    if printed.startswith('"'):
        text, _ = json.JSONDecoder().raw_decode(printed)
        return str(text)
    return printed.partition(" #")[0].rstrip()


def _hook(pipe: str, users: str) -> str:
    """A command that writes lines into the pipe, and to the user's own hook where there is one, whatever becomes of it."""
    if not users:
        return f"cat > {shlex.quote(pipe)}"
    return f"tee -p {shlex.quote(pipe)} | sh -c {shlex.quote(users)}"


def _read(process: subprocess.Popen[bytes], reader: int, lines: queue.SimpleQueue[bytes | None]) -> None:
    """Until the process has ended and the pipe is empty: the hook ends before the process does."""
    rest = b""
    ended = False
    while not ended:
        ended = process.poll() is not None
        while select.select([reader], [], [], 0 if ended else _BETWEEN_LOOKS)[0]:
            *whole, rest = (rest + os.read(reader, 1 << 16)).split(b"\n")
            for line in whole:
                lines.put(line)
    lines.put(None)
