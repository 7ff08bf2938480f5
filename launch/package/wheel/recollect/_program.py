"""Finds and runs the program, and says how it failed. An error has the exit code of its kind and what the program wrote."""
from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import pathlib
import re
import subprocess
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


def version() -> str:
    """Of this package, which is that of its program."""
    try:
        return importlib.metadata.version("recollect")
    except importlib.metadata.PackageNotFoundError:  # it is not installed: somebody has put its folder in the path
        return run(["--version"]).split()[1].rstrip(",")


def _error_in(said: str) -> str:
    """The error message of a failed program, without the warnings before it; with several ranks, each rank's message."""
    texts = re.split(r"(?m)^(?=recollect: )", said)
    of_ranks = [number for number, text in enumerate(texts) if re.match(r"recollect: rank \d+: ", text)]
    return "".join(texts[of_ranks[0] if of_ranks else -1:])


def error_of(status: int, said: str) -> RecollectError:
    """Of a process's status as `subprocess` has it, where a signal counts as minus its number."""
    code = 128 - status if status < 0 else status
    message = _error_in(said).strip()
    if message.startswith("recollect: "):
        message = message[len("recollect: "):]
    return _ERRORS.get(code, RecollectError)(code, message or f"recollect ended with exit code {code}")


def run(words: Sequence[str], names: Names | None = None, asked: str = "") -> str:
    """What the program writes to its output, where `asked` is its input. Raises a RecollectError, in which `names` say what
    a mapping's file is called."""
    done = subprocess.run([str(program()), *words], input=asked, capture_output=True, text=True, encoding="utf-8",
                          errors="replace")
    if done.returncode != 0:
        raise error_of(done.returncode, names.of_mapping(done.stderr) if names else done.stderr)
    return done.stdout


def _json(value: Any, path: str) -> str:
    """Of numbers and paths of any kind, NumPy's among them."""
    def plain(other: Any) -> Any:
        if isinstance(other, os.PathLike):
            return os.fspath(other)
        if hasattr(other, "tolist"):
            return other.tolist()
        raise TypeError(f"{path}: a {type(other).__name__} is no text, number, list or mapping")
    return json.dumps(value, ensure_ascii=False, default=plain)


def _value(value: Any, key: str) -> str:
    """As it stands on the command line, where text needs no quotes."""
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    return _json(value, key)


def _lines(value: Any, path: str, indent: str, end: str, to: list[tuple[str, str]]) -> None:
    """JSON with a line for each value, and whose value that is: "data.path", "data.labels[2]"."""
    items: list[tuple[str, Any, str]]
    if isinstance(value, Mapping):
        items = [(f"{json.dumps(str(key), ensure_ascii=False)}: ", inner, f"{path}.{key}" if path else str(key))
                 for key, inner in value.items()]
        brackets = "{}"
    elif isinstance(value, (list, tuple)):
        items = [("", inner, f"{path}[{number}]") for number, inner in enumerate(value)]
        brackets = "[]"
    else:
        to.append((indent + _json(value, path) + end, path))
        return
    to.append((indent + brackets[0], path))
    for number, (begin, inner, its_path) in enumerate(items):
        first = len(to)
        _lines(inner, its_path, indent + " ", "," if number + 1 < len(items) else "", to)
        line, whose = to[first]
        to[first] = (line[:len(indent) + 1] + begin + line[len(indent) + 1:], whose)
    to.append((indent + brackets[1] + end, path))


class Names:
    """What the program calls places in the file that a mapping was written to, and what they are called by who wrote it."""

    def __init__(self, file: str, paths: Sequence[str]) -> None:
        self._place = re.compile(re.escape(file) + r"(?::(\d+))?(?::\d+)?")
        self._paths = paths

    def of_mapping(self, said: str) -> str:
        def name(place: re.Match[str]) -> str:
            line = int(place[1] or 0)
            return (self._paths[line - 1] if 0 < line <= len(self._paths) else "") or "the configuration"
        named = self._place.sub(name, said)
        return re.sub(r"(?m)^((?:recollect: )?)([\w.\[\]]+): \2(?=[: ])", r"\1\2", named)  # messages name keys too


@contextlib.contextmanager
def words_of(config: Config, overrides: Overrides | None) -> Iterator[tuple[list[str], Names | None]]:
    """The words behind a command. A mapping is a file as long as they are needed, in memory: JSON, which YAML includes."""
    words = [f"{key}={_value(value, key)}" for key, value in (overrides or {}).items()]
    if not isinstance(config, Mapping):
        yield [os.fspath(config), *words], None
        return
    lines: list[tuple[str, str]] = []
    _lines(config, "", "", "", lines)
    descriptor = os.memfd_create("configuration")
    try:
        with open(descriptor, "w", encoding="utf-8", closefd=False) as file:
            file.writelines(f"{line}\n" for line, _ in lines)
        path = f"/proc/{os.getpid()}/fd/{descriptor}"
        yield [path, *words], Names(path, [whose for _, whose in lines])
    finally:
        os.close(descriptor)
