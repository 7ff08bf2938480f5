#!/usr/bin/env python3
"""Writes unicode_properties.cpp, unicode_categories.cpp, unicode_mappings.cpp and unicode_compatibility.cpp beside itself.

What is written is what Hugging Face `tokenizers` does, asked about every code point, and not what some edition of
the Unicode standard says: its regular expressions, its category tables and its Rust library follow different editions.
"""

from pathlib import Path
import unicodedata

import tokenizers
from tokenizers import Regex
from tokenizers.normalizers import NFC, NFD, NFKD, BertNormalizer, StripAccents
from tokenizers.pre_tokenizers import BertPreTokenizer, Digits, Split, Whitespace, WhitespaceSplit

FOLDER = Path(__file__).resolve().parent
POINTS = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]
# First assigned in that edition: the newest that is a letter tells which one the regular expressions know.
EDITIONS = {"14.0": 0x12F90, "15.0": 0x11F04, "15.1": 0x2EBF0, "16.0": 0x10D4A, "17.0": 0x323B0}
SPACE = 3
REMOVED, BLANK, CJK, PUNCTUATION, ACCENT, NUMERIC, WHITE, WORD, MARK = (1 << bit for bit in range(2, 11))
CATEGORIES = ("Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cs").split()
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


def splitting(pre_tokenizer, removed: bool = False) -> set[int]:
    """Those that are cut from letters around them, or, where `removed`, are not there any more."""
    found = set()
    for point in POINTS:
        pieces = [piece for piece, _ in pre_tokenizer.pre_tokenize_str(f"a{chr(point)}b")]
        if pieces == (["a", "b"] if removed else ["a", chr(point), "b"]):
            found.add(point)
    return found


def categories() -> list[int]:
    table = [0] * 0x110000
    for number, name in enumerate(CATEGORIES):
        if name in ("Cn", "Cs"):
            continue
        for point in matching(rf"\p{{{name}}}"):
            assert not table[point]
            table[point] = number
    for point in range(0xD800, 0xE000):
        table[point] = CATEGORIES.index("Cs")
    return table


def properties() -> list[int]:
    table = [0] * 0x110000
    for point in matching(r"\s"):
        table[point] = SPACE
    clean = each(bert(clean_text=True), separator="QZQ")
    spaced = each(bert(handle_chinese_chars=True))
    stripped, marks = each(bert(strip_accents=True)), each(StripAccents())
    kept = [point for point in POINTS if clean[point] == chr(point) and point != 32]
    pieces = iter(BertPreTokenizer().pre_tokenize_str(" ".join(f"a{chr(point)}b" for point in kept)))
    numeric, white = splitting(Digits(True)), splitting(WhitespaceSplit(), removed=True)
    word = {point for point in POINTS if len(Whitespace().pre_tokenize_str(f"a{chr(point)}b")) == 1}
    for point in POINTS:
        assert clean[point] in ("", " ", chr(point)) and spaced[point] in (chr(point), f" {chr(point)} ")
        table[point] |= REMOVED if not clean[point] else BLANK if clean[point] == " " else 0
        table[point] |= CJK if spaced[point] != chr(point) else 0
        table[point] |= ACCENT if not stripped[point] else 0
        table[point] |= MARK if not marks[point] else 0
        for bit, points in ((NUMERIC, numeric), (WHITE, white), (WORD, word)):
            table[point] |= bit if point in points else 0
    for point in kept:
        if next(pieces)[0] == f"a{chr(point)}b":
            continue
        assert [next(pieces)[0], next(pieces)[0]] == [chr(point), "b"], f"{point:x} is blank, and not cleaned"
        table[point] |= PUNCTUATION
    for point in POINTS:  # those that cleaning takes away, where nothing is cleaned
        if clean[point] != chr(point) and point not in white:
            one = [piece for piece, _ in BertPreTokenizer().pre_tokenize_str(f"a{chr(point)}b")]
            assert one in ([f"a{chr(point)}b"], ["a", chr(point), "b"])
            table[point] |= PUNCTUATION if len(one) == 3 else 0
    return table


def runs_of(changed: dict[int, int]) -> list[tuple[int, ...]]:
    """Runs (first, last, stride, difference)."""
    runs: list[list[int]] = []
    for point, other in sorted(changed.items()):
        difference = other - point
        last = runs[-1] if runs else None
        stride = point - last[1] if last else 0
        if last and difference == last[3] and stride in (1, 2) and (last[0] == last[1] or stride == last[2]):
            last[1:3] = point, stride
        else:
            runs.append([point, point, 1, difference])
    return [tuple(run) for run in runs]


def normal_forms():
    """Composing pairs, single and longer decompositions, those of compatibility, and combining classes."""
    nfd, nfkd, nfc = each(NFD()), each(NFKD()), each(NFC())
    late, early = each(NFD(), before=LAST_MARK), each(NFD(), after=FIRST_MARK)
    pairs, one, more, compatible = [], {}, [], {}
    for point in POINTS:
        if 0xAC00 <= point < 0xD7A4:
            continue  # Hangul, which is arithmetic
        text = nfd[point]
        if text != chr(point):
            head = NFC().normalize_str(text[:-1])
            if len(text) > 1 and nfc[point] == chr(point):
                assert len(head) == 1 and NFC().normalize_str(text) == chr(point)
                pairs.append((point, ord(head), ord(text[-1])))
            elif len(text) == 1:
                one[point] = ord(text)
            else:
                more.append((point, *[ord(c) for c in text], *[0] * (4 - len(text))))
        if nfkd[point] != text:
            compatible[point] = nfkd[point]
    classes = {}
    for point in POINTS:
        if len(nfd[point]) == 1 and nfd[point] == chr(point) and (
                late[point] != LAST_MARK + chr(point) or early[point] != chr(point) + FIRST_MARK):
            classes[point] = unicodedata.combining(chr(point))
            assert classes[point], f"{point:x}"
    single = {p: ord(text) for p, text in compatible.items() if len(text) == 1}
    several = [n for p, text in sorted(compatible.items()) if len(text) != 1 for n in (p, len(text), *map(ord, text))]
    return pairs, one, more, runs_of(single), several, classes


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
        item = f"{row}," if isinstance(row, int) else "{" + ",".join(hex(v) if i == 0 else str(v) for i, v in enumerate(row)) + "},"
        if len(lines[-1]) + len(item) > 118:
            lines.append("")
        lines[-1] += item
    body = "\n".join(lines)
    return f"constexpr {kind} k{name}Rows[] = {{\n{body}\n}};\nconst std::span<const {kind}> k{name} = k{name}Rows;\n\n"


def write(name: str, invariant: str, arrays: str) -> None:
    (FOLDER / name).write_text(
        f"// {invariant}\n// Generated by make_unicode_tables.py.\n// clang-format off\n"
        f'#include "engine/data/tokenizer/unicode_tables.h"\n\nnamespace recollect::unicode {{\n\n{arrays}'
        "}  // namespace recollect::unicode\n")


def main() -> None:
    table, letters = properties(), categories()
    edition = max((e for e, point in EDITIONS.items() if CATEGORIES[letters[point]][0] == "L"), key=lambda e: EDITIONS[e] and e)
    told = f"as Hugging Face tokenizers {tokenizers.__version__} has them"
    of_runs = lambda values: [(p, values[p]) for p in range(0x110000) if p == 0 or values[p] != values[p - 1]]
    write("unicode_categories.cpp", f"General categories of all code points, {told} in regular expressions (Unicode {edition}).",
          array("Run", "Categories", of_runs(letters)))
    lower = {p: text for p, text in each(bert(lowercase=True)).items() if text != chr(p)}
    assert {p: text for p, text in lower.items() if len(text) > 1} == {0x130: "i\u0307"}
    write("unicode_properties.cpp", f"Properties and lower case of all code points, {told}.",
          array("Run", "Properties", of_runs(table))
          + array("MappingRun", "Lower", runs_of({p: ord(text) for p, text in lower.items() if len(text) == 1})))
    pairs, one, more, single, several, classes = normal_forms()
    write("unicode_mappings.cpp", f"Canonical forms, {told}.",
          array("Composition", "Compositions", pairs) + array("MappingRun", "CanonicalOne", runs_of(one))
          + array("Several", "CanonicalSeveral", more) + array("ClassRange", "CombiningClasses", ranges(classes)))
    write("unicode_compatibility.cpp", f"Compatible forms, {told}.",
          array("MappingRun", "CompatibleOne", single) + array("uint32_t", "CompatibleSeveral", several))


main()
