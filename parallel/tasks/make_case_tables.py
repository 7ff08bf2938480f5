#!/usr/bin/env python3
"""Writes case_tables.cpp beside itself: what Python's str.lower() takes for cased and for ignorable around a sigma.

Python is asked, character by character, by what it makes of a sigma behind each: no edition of Unicode is read.
"""

import unicodedata
from pathlib import Path

POINTS = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]
SIGMA, FINAL = "\u03a3", "\u03c2"
PER_LINE = 7
HEAD = f"""// What str.lower() of Python with Unicode {unicodedata.unidata_version} takes for cased, and for ignorable.
// Made by make_case_tables.py.
// clang-format off
#include "parallel/tasks/case_tables.h"

namespace recollect::case_tables {{

namespace {{

"""


def ranges(points: list[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for point in points:
        if found and found[-1][1] == point - 1:
            found[-1] = (found[-1][0], point)
        else:
            found.append((point, point))
    return found


def table(name: str, points: list[int]) -> str:
    rows = [f"{{{first:#x},{last:#x}}}" for first, last in ranges(points)]
    lines = [",".join(rows[i : i + PER_LINE]) for i in range(0, len(rows), PER_LINE)]
    return f"constexpr CodeRange {name}[] = {{\n" + ",\n".join(lines) + "};\n"


def main() -> None:
    ends_word = [p for p in POINTS if (chr(p) + SIGMA).lower().endswith(FINAL)]
    known = set(ends_word)
    ignorable = [p for p in POINTS if ("A" + chr(p) + SIGMA).lower().endswith(FINAL) and p not in known]
    text = HEAD + table("kCasedRanges", ends_word) + "\n" + table("kIgnorableRanges", ignorable)
    text += "\n}  // namespace\n\n"
    text += "const std::span<const CodeRange> kCased = kCasedRanges;\n"
    text += "const std::span<const CodeRange> kIgnorable = kIgnorableRanges;\n"
    text += "\n}  // namespace recollect::case_tables\n"
    (Path(__file__).resolve().parent / "case_tables.cpp").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
