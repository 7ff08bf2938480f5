#!/usr/bin/env python3
"""Check sums (CRC-32C) of the tables with which bitsandbytes quantises optimizer states, for test_quantised_states.cpp.

    pip install torch bitsandbytes && python3 tests/golden/make_dynamic_map.py
"""

import bitsandbytes
from bitsandbytes.functional import create_dynamic_map


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


print("bitsandbytes", bitsandbytes.__version__)
for signed in (True, False):
    table = create_dynamic_map(signed=signed).numpy()
    assert table.dtype == "float32" and len(table) == 256
    print("signed" if signed else "unsigned", hex(crc32c(table.tobytes())), table[0], table[1], table[128])
