#!/usr/bin/env python3
"""test_kernel_facts.py COMPILER ARCHIVE...: our kernels are those of tests/gpu/kernel_facts.txt, with what it says of each.

Always true, whatever compiled them: none has anything in local memory. Skips the table (77) where another nvcc than the
table's made them.
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True  # beside the sources
import kernel_facts  # noqa: E402
from kernel_facts import Facts

TABLE = Path(__file__).resolve().with_name("kernel_facts.txt")
COMPILER = sys.argv[1] if len(sys.argv) > 1 else ""
ARCHIVES = [Path(name) for name in sys.argv[2:]]


class ToolTest(unittest.TestCase):
    def test_blocks_share_registers_memory_and_threads(self) -> None:
        blocks = kernel_facts.blocks_of_multiprocessor
        self.assertEqual(blocks(32, 256, 0), 8)
        self.assertEqual(blocks(36, 256, 0), 6)
        self.assertEqual(blocks(76, 256, 0), 3)
        self.assertEqual(blocks(128, 256, 0), 2)
        self.assertEqual(blocks(32, 128, 0), 16)
        self.assertEqual(blocks(16, 32, 0), 32)
        self.assertEqual(blocks(24, 1024, 0), 2)
        self.assertEqual(blocks(32, 128, 48 << 10), 4)
        self.assertEqual(blocks(32, 0, 0), 0)

    def test_bytes_of_an_access(self) -> None:
        for form, size in {"nc.v4.u32": 16, "v2.u64": 16, "b128": 16, "v4.f32": 16, "nc.f32": 4, "v2.b32": 8, "u8": 1}.items():
            self.assertEqual(kernel_facts.bytes_of_access(form), size, form)

    def test_ptx_is_counted_by_kernel(self) -> None:
        text = b""".version 9.0
.entry one(
.param .u64 one_param_0
)
.maxntid 256, 1, 1
{
ld.param.u64 %rd1, [one_param_0];
ld.global.nc.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];
@%p1 ld.global.u16 %rs1, [%rd1];
ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r9];
st.global.v2.u64 [%rd1], {%rd2, %rd3};
}
.visible .entry two(
)
{
st.global.f32 [%rd1], %f1;
}
"""
        facts: dict[str, Facts] = {}
        kernel_facts.read_ptx(text, facts, "engine/a.cu")
        one, two = facts["one"], facts["two"]
        self.assertEqual((one.loads, one.wide_loads, one.stores, one.wide_stores), (2, 1, 1, 1))
        self.assertEqual((two.loads, two.wide_loads, two.stores, two.wide_stores), (0, 0, 1, 0))

    def test_each_difference_is_named(self) -> None:
        kernels = [Facts("engine/a.cu", "one<f16, 8>", 32, 256, 0, 0, 4, 4, 2, 2), Facts("engine/a.cu", "two", 20, 256)]
        before = kernel_facts.table(kernels, "13.0")
        self.assertEqual(kernel_facts.differences(before, before), [])
        kernels[0] = Facts("engine/a.cu", "one<f16, 8>", 40, 256, 0, 0, 8, 0, 2, 2)
        kernels[1].kernel = "three"
        self.assertEqual(
            kernel_facts.differences(before, kernel_facts.table(kernels, "13.0")),
            [
                "engine/a.cu: three: is new",
                "engine/a.cu: two: is no more",
                "engine/a.cu: one<f16, 8>: was 32 256 8 0 0 4/4 2/2, is 40 256 6 0 0 0/8 2/2",
            ],
        )

    def test_what_is_no_library_is_refused(self) -> None:
        with self.assertRaises(kernel_facts.BadBuild):
            list(kernel_facts.members(b"\x7fELF and so on"))


class KernelsTest(unittest.TestCase):
    kernels: list[Facts] = []

    @classmethod
    def setUpClass(cls) -> None:
        cls.kernels = kernel_facts.read_archives(ARCHIVES)

    def test_nothing_is_in_local_memory(self) -> None:
        self.assertGreater(len(self.kernels), 100)
        for one in self.kernels:
            self.assertGreater(one.registers, 0, one.kernel)
            self.assertEqual(one.stack, 0, f"{one.source}: {one.kernel}")

    def test_without_dropout_nothing_is_paid_for_it(self) -> None:
        found = [one for one in self.kernels if "NoMask" in one.kernel]
        self.assertGreater(len(found), 0)
        for one in found:
            self.assertGreaterEqual(one.blocks(), 6, one.row())

    def test_updates_of_eight_bit_states_move_sixteen_bytes(self) -> None:
        found = [one for one in self.kernels if "update_quantised" in one.kernel and one.kernel.endswith("true>")]
        self.assertGreater(len(found), 0)
        for one in found:  # gradient, master, copy: two each of f32, one of bf16
            self.assertGreaterEqual(one.wide_loads, 3, one.row())
            self.assertGreaterEqual(one.wide_stores, 2, one.row())

    def test_the_table_holds(self) -> None:
        wanted = TABLE.read_text(encoding="utf-8")
        if kernel_facts.compiler_of(wanted) != COMPILER:
            self.skipTest(f"the table is of nvcc {kernel_facts.compiler_of(wanted)}, not of {COMPILER}")
        lines = kernel_facts.differences(wanted, kernel_facts.table(self.kernels, COMPILER))
        self.assertEqual(lines, [], "where this is meant: kernel_facts.py --write, as the table says\n" + "\n".join(lines))


if __name__ == "__main__":
    if not ARCHIVES:
        del KernelsTest
    program = unittest.main(argv=sys.argv[:1], exit=False)
    if not program.result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if program.result.skipped else 0)
