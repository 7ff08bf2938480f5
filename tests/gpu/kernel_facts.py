#!/usr/bin/env python3
"""What the compiler made of our kernels for Hopper, read from a build's libraries, and kept as a table beside this file.

    kernel_facts.py ARCHIVE...                  prints the table
    kernel_facts.py --write TABLE ARCHIVE...    writes it: after a change of a kernel, with the compiler that it names

Always true: facts come from the code that is in the program, with no tool of NVIDIA's: registers, stack and shared memory
from the machine code's own notes, accesses to global memory from the PTX beside it. Where a kernel gets more registers,
uses local memory, or moves bytes in smaller words than before, the table no longer holds, and tests say so.
"""

from __future__ import annotations

import argparse
import ctypes
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# A multiprocessor of Hopper: what blocks share.
REGISTERS, REGISTER_UNIT, PARTITIONS = 65536, 256, 4
SHARED_BYTES, SHARED_UNIT, SHARED_RESERVED = 228 << 10, 128, 1024
MOST_THREADS, MOST_BLOCKS, LANES = 2048, 32, 32

FATBIN_MAGIC, PTX, MACHINE_CODE = 0xBA55ED50, 1, 2
REGISTER_COUNT, FRAME_SIZE, MOST_THREADS_OF_KERNEL = 0x2F, 0x11, 0x05  # attributes of .nv.info
WIDE = 16  # bytes of the widest access

ACCESS = re.compile(rb"^\s*(?:@%?!?\S+\s+)?(ld|st)\.(?:volatile\.|relaxed\.\w+\.|weak\.)?global\.(\S+)", re.MULTILINE)
ENTRY = re.compile(rb"^(?:\.visible )?\.entry ([\w$]+)\(", re.MULTILINE)
SOURCE = re.compile(r"(?:^|/)((?:engine|comm)/\S+\.cu)$")


class BadBuild(Exception):
    """A library that is not what this build makes."""


@dataclass
class Facts:
    source: str
    kernel: str
    registers: int = 0
    threads: int = 0  # of a block at most; 0 where the kernel does not say
    shared: int = 0  # without what a launch asks for
    stack: int = 0
    loads: int = 0
    wide_loads: int = 0
    stores: int = 0
    wide_stores: int = 0

    def blocks(self) -> int:
        return blocks_of_multiprocessor(self.registers, self.threads, self.shared)

    def row(self) -> str:
        numbers = f"{self.registers:4} {self.threads:5} {self.blocks():4} {self.shared:6} {self.stack:3}"
        loads, stores = f"{self.wide_loads}/{self.loads}", f"{self.wide_stores}/{self.stores}"
        return f"{numbers} {loads:>7} {stores:>7}  {self.kernel}"


def blocks_of_multiprocessor(registers: int, threads: int, shared: int) -> int:
    """How many blocks run together; 0 where the number of threads is not known."""
    if threads == 0:
        return 0
    warps = -(-threads // LANES)
    of_warp = -(-registers * LANES // REGISTER_UNIT) * REGISTER_UNIT
    by_registers = REGISTERS // PARTITIONS // of_warp * PARTITIONS // warps if of_warp else MOST_BLOCKS
    of_block = -(-(shared + SHARED_RESERVED) // SHARED_UNIT) * SHARED_UNIT
    return min(by_registers, SHARED_BYTES // of_block, MOST_THREADS // (warps * LANES), MOST_BLOCKS)


def members(archive: bytes) -> Iterator[bytes]:
    if not archive.startswith(b"!<arch>\n"):
        raise BadBuild("no library")
    at = 8
    while at + 60 <= len(archive):
        size = int(archive[at + 48 : at + 58])
        yield archive[at + 60 : at + 60 + size]
        at += 60 + size + size % 2


def sections(elf: bytes) -> Iterator[tuple[str, int, bytes]]:
    """Name, link to another section's number, and bytes; those without bytes have zeros."""
    if elf[:4] != b"\x7fELF":
        return
    start = struct.unpack_from("<Q", elf, 0x28)[0]
    count, names = struct.unpack_from("<HH", elf, 0x3C)
    if count == 0:  # more than fit there: the first section says how many
        count, names = struct.unpack_from("<QI", elf, start + 0x20)
    table = [struct.unpack_from("<IIQQQQIIQQ", elf, start + 64 * i) for i in range(count)]
    texts = table[names][4]
    for name, kind, _, _, offset, size, _, info, _, _ in table:
        text = elf[texts + name : elf.index(b"\0", texts + name)].decode()
        yield text, info, bytes(size) if kind == 8 else elf[offset : offset + size]


def symbol_names(elf: bytes) -> dict[int, str]:
    found = {name: content for name, _, content in sections(elf) if name in (".symtab", ".strtab")}
    symbols, texts = found[".symtab"], found[".strtab"]
    names = {}
    for number in range(len(symbols) // 24):
        at = struct.unpack_from("<I", symbols, 24 * number)[0]
        names[number] = texts[at : texts.index(b"\0", at)].decode()
    return names


class Zstandard:
    """The system's library; Python's own comes with 3.14."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libzstd.so.1")
        self.library.ZSTD_decompress.restype = ctypes.c_size_t

    def unpack(self, packed: bytes, size: int) -> bytes:
        out = ctypes.create_string_buffer(size)
        if self.library.ZSTD_decompress(out, ctypes.c_size_t(size), packed, ctypes.c_size_t(len(packed))) != size:
            raise BadBuild("compressed device code is damaged")
        return out.raw


def device_code(section: bytes, zstandard: Zstandard) -> Iterator[tuple[int, str, bytes]]:
    """Kind, source and content of what a .nv_fatbin holds."""
    at = 0
    while at + 16 <= len(section):
        magic, _, header, size = struct.unpack_from("<IHHQ", section, at)
        if magic != FATBIN_MAGIC:
            raise BadBuild("device code in a form that is not known")
        entry, end = at + header, at + header + size
        while entry < end:
            kind, _, length, padded = struct.unpack_from("<HHIQ", section, entry)
            packed_size = struct.unpack_from("<I", section, entry + 0x10)[0]
            name_at, name_size = struct.unpack_from("<II", section, entry + 0x20)
            source = section[entry + 0x40 : entry + length].split(b"\0")[0].decode() if name_size or name_at else ""
            content = section[entry + length : entry + length + padded]
            if content[:4] == b"\x28\xb5\x2f\xfd":
                size_of_content = struct.unpack_from("<Q", section, entry + 0x38)[0]
                content = zstandard.unpack(content[:packed_size], size_of_content)
            yield kind, source, content
            entry += length + padded
        at = end + -end % 8


def attributes(info: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        content = info[at + 4 : at + 4 + size] if form == 4 else b""
        yield attribute, content
        at += 4 + len(content)


def read_machine_code(elf: bytes, facts: dict[str, Facts], source: str) -> None:
    names = symbol_names(elf)
    parts = list(sections(elf))
    kernels = {name[len(".text.") :] for name, _, _ in parts if name.startswith(".text.")}
    for name, _, content in parts:
        if name == ".nv.info":
            for attribute, numbers in attributes(content):
                if attribute not in (REGISTER_COUNT, FRAME_SIZE):
                    continue
                symbol, number = struct.unpack("<II", numbers)
                if names[symbol] in kernels:
                    one = facts.setdefault(names[symbol], Facts(source, names[symbol]))
                    if attribute == REGISTER_COUNT:
                        one.registers = number
                    else:
                        one.stack = number
        elif name.startswith(".nv.info.") and name[len(".nv.info.") :] in kernels:
            one = facts.setdefault(name[len(".nv.info.") :], Facts(source, name[len(".nv.info.") :]))
            for attribute, numbers in attributes(content):
                if attribute == MOST_THREADS_OF_KERNEL:
                    x, y, z = struct.unpack("<III", numbers)
                    one.threads = x * y * z
        elif name.startswith(".nv.shared.") and name[len(".nv.shared.") :] in kernels:
            facts.setdefault(name[len(".nv.shared.") :], Facts(source, name[len(".nv.shared.") :])).shared = len(content)


def bytes_of_access(form: str) -> int:
    """Of an access called so in PTX: nc.v4.u32, v2.u64, b128, f32."""
    words = form.rstrip(",").split(".")
    count = next((int(word[1:]) for word in words if re.fullmatch(r"v[248]", word)), 1)
    bits = next(int(word[1:]) for word in reversed(words) if re.fullmatch(r"[busf]\d+", word))
    return count * bits // 8


def read_ptx(text: bytes, facts: dict[str, Facts], source: str) -> None:
    entries = list(ENTRY.finditer(text))
    for entry, following in zip(entries, [*entries[1:], None]):
        name = entry.group(1).decode()
        one = facts.setdefault(name, Facts(source, name))
        body = text[entry.end() : following.start() if following else len(text)]
        for access in ACCESS.finditer(body):
            wide = bytes_of_access(access.group(2).decode()) == WIDE
            if access.group(1) == b"ld":
                one.loads, one.wide_loads = one.loads + 1, one.wide_loads + wide
            else:
                one.stores, one.wide_stores = one.stores + 1, one.wide_stores + wide


def plain_names(kernels: list[Facts]) -> None:
    """Names as they are written, without what stands around them."""
    mangled = "\n".join(one.kernel for one in kernels)
    plain = subprocess.run(["c++filt"], input=mangled, check=True, capture_output=True, text=True).stdout.splitlines()
    for one, name in zip(kernels, plain):
        name = re.sub(r"recollect::(cuda::)?|\(anonymous namespace\)::", "", name)
        while "> >" in name:
            name = name.replace("> >", ">>")
        depth, end = 0, len(name)
        for at, character in enumerate(name):
            depth += (character == "<") - (character == ">")
            if character == "(" and depth == 0:
                end = at
                break
        one.kernel = name[:end].removeprefix("void ")


def read_archives(archives: list[Path]) -> list[Facts]:
    zstandard = Zstandard()
    kernels: list[Facts] = []
    for archive in archives:
        for member in members(archive.read_bytes()):
            if b".nv_fatbin" not in member:
                continue
            facts: dict[str, Facts] = {}
            for name, _, content in sections(member):
                if name != ".nv_fatbin":
                    continue
                for kind, path, code in device_code(content, zstandard):
                    found = SOURCE.search(path)
                    if not found:
                        raise BadBuild(f"device code of {path or 'an unknown source'}")
                    if kind == MACHINE_CODE:
                        read_machine_code(code, facts, found.group(1))
                    elif kind == PTX:
                        read_ptx(code, facts, found.group(1))
            kernels += facts.values()
    if not kernels:
        raise BadBuild("no kernels in " + ", ".join(map(str, archives)))
    plain_names(kernels)
    return sorted(kernels, key=lambda one: (one.source, one.kernel))


def table(kernels: list[Facts], compiler: str) -> str:
    lines = [
        "# What ptxas says of each kernel on Hopper: registers, threads of a block, blocks that a multiprocessor runs",
        "# together, bytes of shared memory, bytes of stack (local memory); then loads and stores of global memory in its PTX,",
        "# those of 16 bytes of all. Blocks and shared memory are without what a launch asks for.",
        "# Made anew by: python3 tests/gpu/kernel_facts.py --write tests/gpu/kernel_facts.txt build/cuda/librecollect_*.a",
        f"# nvcc {compiler}",
    ]
    source = ""
    for one in kernels:
        if one.source != source:
            lines += ["", one.source]
        source = one.source
        lines.append(one.row())
    return "\n".join(lines) + "\n"


def differences(wanted: str, found: str) -> list[str]:
    """What is in one table and not in the other, by source and kernel."""

    def rows(text: str) -> dict[tuple[str, str], str]:
        result, source = {}, ""
        for line in text.splitlines():
            if line.startswith(("engine/", "comm/")):
                source = line
            elif line and not line.startswith("#"):
                *numbers, kernel = line.split(None, 7)
                result[source, kernel] = " ".join(numbers)
        return result

    old, new = rows(wanted), rows(found)
    lines = [f"{source}: {kernel}: is new" for source, kernel in sorted(new.keys() - old.keys())]
    lines += [f"{source}: {kernel}: is no more" for source, kernel in sorted(old.keys() - new.keys())]
    for key in sorted(old.keys() & new.keys()):
        if old[key] != new[key]:
            lines.append(f"{key[0]}: {key[1]}: was {old[key]}, is {new[key]}")
    return lines


def compiler_of(text: str) -> str:
    found = re.search(r"^# nvcc (\S+)$", text, re.MULTILINE)
    return found.group(1) if found else ""


def nvcc_version() -> str:
    said = subprocess.run(["nvcc", "--version"], check=True, capture_output=True, text=True).stdout
    found = re.search(r"V([0-9.]+)", said)
    return found.group(1) if found else "unknown"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, metavar="TABLE")
    parser.add_argument("archives", nargs="+", type=Path)
    args = parser.parse_args()
    text = table(read_archives(args.archives), nvcc_version())
    if args.write:
        args.write.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
