#!/usr/bin/env python3
"""Writes float8.txt: the two 8-bit formats as PyTorch has them (torch 2.x on the CPU; versions.json says which).

Each line: the format, the bits of a float, and the code that it is rounded to; the first 256 of a format are the numbers of
codes 0 to 255, NaNs as nan. Numbers beyond the largest are cut to it first, which PyTorch's own conversion does not do.

    make_float8.py > float8.txt
"""

import torch


def bits(numbers: torch.Tensor) -> list[str]:
    return [f"{n & 0xFFFFFFFF:08x}" for n in numbers.view(torch.int32).tolist()]


for name, dtype in (("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)):
    values = torch.arange(256, dtype=torch.uint8).view(dtype).float()
    for code, (value, text) in enumerate(zip(values.tolist(), bits(values))):
        print(name, "nan" if value != value else text, f"{code:02x}")
    finite = values[values.isfinite() & (values >= 0)].sort().values
    middles = (finite[1:] + finite[:-1]) / 2
    inf = torch.full_like(middles, float("inf"))
    numbers = torch.cat([middles, torch.nextafter(middles, inf), torch.nextafter(middles, -inf)])
    numbers = torch.cat([numbers, -numbers, torch.tensor([1e9, -1e9, 1e-30, -1e-30, float("inf"), float("-inf")])])
    most = torch.finfo(dtype).max
    codes = numbers.clamp(-most, most).to(dtype).view(torch.uint8)
    for text, code in zip(bits(numbers), codes.tolist()):
        print(name, text, f"{code:02x}")
