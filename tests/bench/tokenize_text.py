#!/usr/bin/env python3
"""Times `recollect tokenize` beside the `tokenizers` package and compares what both write, and prints one row a tokenizer.

    tests/bench/tokenize_text.py BINARY TEXT TOKENIZER...

TEXT is best 50 MB and more; TOKENIZER is a folder with a tokenizer.json. Both read the text as one document. Times are processor
seconds of one core, which other programs disturb less than the clock: of `recollect tokenize --threads 1` less one of an empty
text, and of Tokenizer.encode_batch_fast of pieces of the text that end with a line. Memory is the highest resident set of
`recollect tokenize` for the text and for its first tenth. The ids must be equal: of pieces, since that is what encode_batch_fast
was given, each as a document of its own. The exit status is 1 where they are not.
"""

from __future__ import annotations

import argparse
import array
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PIECE = 100_000  # characters


def pieces_of(text: str) -> list[str]:
    pieces, at = [], 0
    while at < len(text):
        end = text.find("\n", at + PIECE)
        end = len(text) if end < 0 else end + 1
        pieces.append(text[at:end])
        at = end
    return pieces


def tokenize(binary: Path, tokenizer: Path, source: Path, output: Path, threads: int) -> tuple[float, float, int]:
    """Processor seconds, seconds by the clock, and the highest resident set in bytes."""
    command = [str(binary), "tokenize", "--tokenizer", str(tokenizer), "--output", str(output), "--format", "headerless"]
    command += ["--dtype", "uint32", "--end-of-document", "none", "--threads", str(threads), str(source)]
    # A child counts the memory of the process that started it as its own, so that a small one starts it.
    script = "import json, resource, subprocess, sys, time; start = time.perf_counter(); "
    script += "subprocess.run(sys.argv[1:], check=True, stdout=2); end = time.perf_counter(); "
    script += "used = resource.getrusage(resource.RUSAGE_CHILDREN); "
    script += "print(json.dumps([used.ru_utime + used.ru_stime, end - start, used.ru_maxrss * 1024]))"
    done = subprocess.run([sys.executable, "-c", script, *command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(command)}\n{done.stderr}")
    return tuple(json.loads(done.stdout))


def peer(tokenizer: Path, pieces: list[str]) -> tuple[float, list[list[int]]]:
    from tokenizers import Tokenizer

    made = Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    start = time.process_time()
    encoded = made.encode_batch_fast(pieces, add_special_tokens=False)
    return time.process_time() - start, [one.ids for one in encoded]


def measure(binary: Path, text: str, tokenizer: Path, folder: Path, rounds: int) -> bool:
    pieces = pieces_of(text)
    whole, tenth, empty, lines = (folder / name for name in ("whole.txt", "tenth.txt", "empty.txt", "pieces.jsonl"))
    whole.write_bytes(text.encode())
    tenth.write_bytes(text[: len(text) // 10].encode())
    empty.write_text("x", encoding="utf-8")
    lines.write_text("".join(json.dumps({"text": piece}) + "\n" for piece in pieces), encoding="utf-8")
    output = folder / "tokens.bin"
    ours, theirs, clock = [], [], []
    for _ in range(rounds):
        start = tokenize(binary, tokenizer, empty, output, 1)[0]
        ours.append(tokenize(binary, tokenizer, whole, output, 1)[0] - start)
        clock.append(tokenize(binary, tokenizer, whole, output, os.cpu_count() or 1)[1])
        seconds, ids = peer(tokenizer, pieces)
        theirs.append(seconds)
    memory = [tokenize(binary, tokenizer, source, output, 1)[2] for source in (tenth, whole)]
    tokenize(binary, tokenizer, lines, output, 1)
    written = array.array("I", output.read_bytes())
    equal = written == array.array("I", [i for piece in ids for i in piece])
    size = whole.stat().st_size / 1e6
    a, b = statistics.median(ours), statistics.median(theirs)
    print(
        f"| {tokenizer.name} | {size / a:.1f} | {size / b:.1f} | {b / a:.2f} | {size / statistics.median(clock):.1f} "
        f"| {memory[0] / 1e6:.0f} | {memory[1] / 1e6:.0f} | {'equal' if equal else 'DIFFERENT'} |",
        flush=True,
    )
    return equal


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("tokenizers", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    text = arguments.text.read_bytes().decode("utf-8")
    cores = os.cpu_count()
    print(f"| tokenizer | MB/s of a core | `tokenizers` | ratio | MB/s, {cores} threads | MB resident, a tenth | all | ids |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    with tempfile.TemporaryDirectory() as folder:
        same = [measure(arguments.binary.resolve(), text, one, Path(folder), arguments.rounds) for one in arguments.tokenizers]
    sys.exit(0 if all(same) else 1)


if __name__ == "__main__":
    main()
