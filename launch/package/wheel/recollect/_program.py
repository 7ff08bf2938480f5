"""Finds and runs the program, and says how it failed. An error has the exit code of its kind and what the program wrote."""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import tempfile
from typing import Any, Iterator, Mapping, Sequence, Union

Config = Union[str, "os.PathLike[str]", Mapping[str, Any]]
Overrides = Mapping[str, Any]


class RecollectError(Exception):
    """The program ended with another exit code than 0."""

    def __init__(self, exit_code: int, message: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.message = message

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.exit_code, self.message)


class ConfigurationError(RecollectError):
    """Exit code 2: a key, a value, a setting without effect."""


class InputError(RecollectError):
    """Exit code 3: data, or a model's files."""


class DeviceMemoryError(RecollectError):
    """Exit code 4: too little memory on the device."""


class HostMemoryError(RecollectError):
    """Exit code 5: too little memory on the host, or no more threads."""


class StorageError(RecollectError):
    """Exit code 6: a disk that is full or fails, or a folder that another run has."""


class NumericsError(RecollectError):
    """Exit code 7: a loss, or the trained parameters, are not finite."""


class RanksDisagree(RecollectError):
    """Exit code 8: the ranks have different configurations, files or programs."""


class PeerLost(RecollectError):
    """Exit code 9: a rank was lost, or is late."""


class IntegrityError(RecollectError):
    """Exit code 10: what was recomputed or brought back is not what it was."""


class Preempted(RecollectError):
    """Exit code 75: told to end; the state of the last step is saved where the run saves snapshots."""


_ERRORS: Mapping[int, type[RecollectError]] = {
    2: ConfigurationError, 3: InputError, 4: DeviceMemoryError, 5: HostMemoryError, 6: StorageError, 7: NumericsError,
    8: RanksDisagree, 9: PeerLost, 10: IntegrityError, 75: Preempted,
}


def program() -> pathlib.Path:
    """The program that this package carries."""
    return pathlib.Path(__file__).resolve().parent / "bin" / "recollect"


def error_of(status: int, said: str) -> RecollectError:
    """Of a process's status as `subprocess` has it, where a signal counts as minus its number."""
    code = 128 - status if status < 0 else status
    message = said.strip()
    if message.startswith("recollect: "):
        message = message[len("recollect: "):]
    return _ERRORS.get(code, RecollectError)(code, message or f"recollect ended with exit code {code}")


def run(words: Sequence[str]) -> str:
    """What the program writes to its output. Raises a RecollectError."""
    done = subprocess.run([str(program()), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          encoding="utf-8", errors="replace")
    if done.returncode != 0:
        raise error_of(done.returncode, done.stderr)
    return done.stdout


def _value(value: Any) -> str:
    """As it stands on the command line, where text needs no quotes."""
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    return json.dumps(value, ensure_ascii=False, default=os.fspath)


@contextlib.contextmanager
def words_of(config: Config, overrides: Overrides | None) -> Iterator[list[str]]:
    """The words behind a command. A mapping is a file as long as they are needed: JSON, which YAML includes."""
    words = [f"{key}={_value(value)}" for key, value in (overrides or {}).items()]
    if not isinstance(config, Mapping):
        yield [os.fspath(config), *words]
        return
    with tempfile.TemporaryDirectory(prefix="recollect-") as folder:
        path = os.path.join(folder, "config.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file, ensure_ascii=False, default=os.fspath)
        yield [path, *words]
