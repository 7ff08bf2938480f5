#!/usr/bin/env python3
"""clang reads every C++ source of the libraries and of the program, with the flags that the build has: what GCC alone
accepts fails here. Usage: clang.py BUILD_FOLDER, of a build that is done."""
import json
import pathlib
import shlex
import shutil
import subprocess
import sys


def command_of(entry):
    words = shlex.split(entry["command"])
    compiler = next(i for i, word in enumerate(words) if not word.startswith("-") and "ccache" not in word)
    words = ["clang++", *words[compiler + 1:]]
    output = words.index("-o")
    del words[output:output + 2]
    return [*words, "-fsyntax-only", "-Wno-missing-braces"]


def is_ours(entry):
    """Of the libraries and the program, once: neither tests nor benchmarks, nor what nvcc compiles."""
    command = entry["command"]
    once = " -o CMakeFiles/recollect" in command and " -o CMakeFiles/recollect_cpu_" not in command
    return once and not entry["file"].endswith(".cu")


def read(entry):
    done = subprocess.run(command_of(entry), cwd=entry["directory"], capture_output=True, text=True)
    if done.returncode:
        print(f"{entry['file']}\n{done.stderr}", flush=True)
    return done.returncode


def main():
    if not shutil.which("clang++"):
        sys.exit("there is no clang++")
    entries = json.loads((pathlib.Path(sys.argv[1]) / "compile_commands.json").read_text())
    entries = [entry for entry in entries if is_ours(entry)]
    failed = sum(read(entry) != 0 for entry in entries)
    print(f"{len(entries)} sources read, {failed} refused")
    return 1 if failed or not entries else 0


if __name__ == "__main__":
    sys.exit(main())
