#!/usr/bin/env python3
"""Writes unicode_properties.cpp and unicode_mappings.cpp beside itself.

What is written is what Hugging Face `tokenizers` does, asked about every code point, and not what some edition of
the Unicode standard says: its regular expressions, its category tables and its Rust library follow different editions.
"""

from pathlib import Path
import unicodedata

import tokenizers
from tokenizers import Regex
from tokenizers.normalizers import NFD, BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, Split

FOLDER = Path(__file__).resolve().parent
POINTS = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]
# First assigned in that edition: the newest that is a letter tells which one the regular expressions know.
EDITIONS = {"14.0": 0x12F90, "15.0": 0x11F04, "15.1": 0x2EBF0, "16.0": 0x10D4A, "17.0": 0x323B0}
LETTER, NUMBER, SPACE = 1, 2, 3
REMOVED, BLANK, CJK, PUNCTUATION = 4, 8, 16, 32
FIRST_MARK, LAST_MARK = "\u0334", "\u0345"  # combining classes 1 and 240: the least and the greatest


def matching(pattern: str) -> set[int]:
    pieces = Split(Regex(pattern), "removed").pre_tokenize_str("".join(map(chr, POINTS)))
    return set(POINTS) - {ord(c) for piece, _ in pieces for c in piece}


def each(normalizer, before: str = "", after: str = "", separator: str = "\n") -> dict[int, str]:
    """What the normalizer makes of every code point by itself."""
    points = [point for point in POINTS if chr(point) != separator]
    text = separator.join(before + chr(point) + after for point in points)
    results = normalizer.normalize_str(text).split(separator)
    assert len(results) == len(points)
    unchanged = {ord(separator): before + separator + after} if len(separator) == 1 else {}
    return dict(zip(points, results)) | unchanged


def bert(**on: bool) -> BertNormalizer:
    return BertNormalizer(**({"clean_text": False, "handle_chinese_chars": False, "strip_accents": False,
                              "lowercase": False} | on))


def properties() -> list[int]:
    table = [0] * 0x110000
    for pattern, value in ((r"\p{L}", LETTER), (r"\p{N}", NUMBER), (r"\s", SPACE)):
        for point in matching(pattern):
            assert not table[point]
            table[point] = value
    clean = each(bert(clean_text=True), separator="QZQ")
    spaced = each(bert(handle_chinese_chars=True))
    kept = [point for point in POINTS if clean[point] == chr(point) and point != 32]
    pieces = iter(BertPreTokenizer().pre_tokenize_str(" ".join(f"a{chr(point)}b" for point in kept)))
    for point in POINTS:
        assert clean[point] in ("", " ", chr(point)) and spaced[point] in (chr(point), f" {chr(point)} ")
        table[point] |= REMOVED if not clean[point] else BLANK if clean[point] == " " else 0
        table[point] |= CJK if spaced[point] != chr(point) else 0
    for point in kept:
        if next(pieces)[0] == f"a{chr(point)}b":
            continue
        assert [next(pieces)[0], next(pieces)[0]] == [chr(point), "b"], f"{point:x} is blank, and not cleaned"
        table[point] |= PUNCTUATION
    return table


def lowercase() -> tuple[list[tuple[int, ...]], dict[int, str]]:
    """Runs (first, last, stride, difference), and what becomes more than one code point."""
    changed = {p: text for p, text in each(bert(lowercase=True)).items() if text != chr(p)}
    runs: list[list[int]] = []
    for point, text in sorted(changed.items()):
        if len(text) > 1:
            continue
        difference = ord(text) - point
        last = runs[-1] if runs else None
        stride = point - last[1] if last else 0
        if last and difference == last[3] and stride in (1, 2) and (last[0] == last[1] or stride == last[2]):
            last[1:3] = point, stride
        else:
            runs.append([point, point, 1, difference])
    return [tuple(run) for run in runs], {p: text for p, text in changed.items() if len(text) > 1}


def is_mark(table: dict[str, dict[int, str]], point: int) -> bool:
    """Whether its combining class is not 0."""
    return (table["late"][point] != LAST_MARK + table["alone"][point]
            or table["early"][point] != table["alone"][point] + FIRST_MARK)


def accents() -> tuple[dict[int, str], dict[int, int], dict[int, int]]:
    """Code points that change; combining classes of marks that stay, and of what goes, 0 where no mark moves across."""
    stripped = each(bert(strip_accents=True))
    nfd = {"alone": each(NFD()), "late": each(NFD(), before=LAST_MARK), "early": each(NFD(), after=FIRST_MARK)}
    marks = {p for p in POINTS if len(nfd["alone"][p]) == 1 and is_mark(nfd, p)}
    representatives = {unicodedata.combining(chr(p)): chr(p) for p in sorted(marks) if unicodedata.combining(chr(p))}

    def class_of(point: int) -> int:
        first = nfd["alone"][point][0]
        passed = [k for k, mark in representatives.items() if NFD().normalize_str(first + mark) != first + mark]
        return max(passed, default=0) + 1

    classes = {point: class_of(point) for point in sorted(p for p in marks if stripped[p])}
    still = {chr(p) for p in POINTS if not stripped[p] and nfd["alone"][p] == chr(p) and p not in marks}
    blocking = {p for p in POINTS if not stripped[p] and still & set(nfd["alone"][p])}
    gone = {p: 0 if p in blocking else class_of(p) for p in POINTS if not stripped[p]}
    for point, text in stripped.items():  # where such a mark is part of what stays, a letter blocks as well
        assert not text or not still & set(nfd["alone"][point]) or not any(ord(c) in classes for c in text)
    changed = {p: text for p, text in stripped.items() if text != chr(p) and not 0xAC00 <= p < 0xD7A4}
    return changed, classes, gone


def ranges(values: dict[int, int]) -> list[tuple[int, int, int]]:
    found: list[list[int]] = []
    for point, value in sorted(values.items()):
        if found and found[-1][1:] == [point - 1, value]:
            found[-1][1] = point
        else:
            found.append([point, point, value])
    return [tuple(row) for row in found]


def array(kind: str, name: str, rows) -> str:
    lines = [""]
    for row in rows:
        item = "{" + ",".join(hex(v) if i == 0 else str(v) for i, v in enumerate(row)) + "},"
        if len(lines[-1]) + len(item) > 118:
            lines.append("")
        lines[-1] += item
    body = "\n".join(lines)
    return f"constexpr {kind} k{name}Rows[] = {{\n{body}\n}};\nconst std::span<const {kind}> k{name} = k{name}Rows;\n\n"


def write(name: str, invariant: str, arrays: str) -> None:
    (FOLDER / name).write_text(
        f"// {invariant}\n// Made by make_unicode_tables.py.\n// clang-format off\n"
        f'#include "engine/data/tokenizer/unicode_tables.h"\n\nnamespace recollect::unicode {{\n\n{arrays}'
        "}  // namespace recollect::unicode\n")


def main() -> None:
    table = properties()
    edition = max((e for e, point in EDITIONS.items() if table[point] == LETTER), key=lambda e: EDITIONS[e] and e)
    told = f"as Hugging Face tokenizers {tokenizers.__version__} has them (letters, numbers: Unicode {edition})"
    runs = [(p, table[p]) for p in range(0x110000) if p == 0 or table[p] != table[p - 1]]
    write("unicode_properties.cpp", f"Properties of all code points, {told}.", array("Run", "Properties", runs))
    lower, lower_long = lowercase()
    changed, classes, gone = accents()
    assert lower_long == {0x130: "i\u0307"}, lower_long
    assert gone.keys() == {p for p, text in changed.items() if not text}
    one = [(p, ord(text)) for p, text in changed.items() if len(text) == 1]
    more = [(p, *[ord(c) for c in text], *[0] * (4 - len(text))) for p, text in changed.items() if len(text) > 1]
    write("unicode_mappings.cpp", f"Lower case and accents, {told}.",
          array("LowerRun", "Lower", lower) + array("ClassRange", "AccentGone", ranges(gone))
          + array("Pair", "AccentOne", one) + array("Several", "AccentSeveral", more)
          + array("Pair", "CombiningClasses", sorted(classes.items())))


main()
