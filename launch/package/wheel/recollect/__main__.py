"""The console script: this process becomes the program, so that signals and exit codes are the program's own."""
import os
import sys

from ._program import program


def main() -> None:
    path = str(program())
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
