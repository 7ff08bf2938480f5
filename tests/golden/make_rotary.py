#!/usr/bin/env python3
"""Prints the rows of rotary tables that tests/engine/test_rotary.cpp expects, to 50 digits before rounding.

The frequencies are those of Transformers' modeling_rope_utils (_compute_default_rope_parameters,
_compute_linear_scaling_rope_parameters, _compute_llama3_parameters), written with wavelengths as there. Needs mpmath.
"""
from mpmath import mp, mpf, cos, sin, pi

mp.dps = 50
HEAD_SIZE, THETA, ORIGINAL, LOW, HIGH = 12, mpf(10000), mpf(256), mpf(1), mpf(4)


def llama3(f, factor):
    wavelength = 2 * pi / f
    if wavelength < ORIGINAL / HIGH:
        return f
    if wavelength > ORIGINAL / LOW:
        return f / factor
    smooth = (ORIGINAL / wavelength - LOW) / (HIGH - LOW)
    return (1 - smooth) * f / factor + smooth * f


SCALINGS = {"default": lambda f: f, "linear": lambda f: f / 4, "llama3": lambda f: llama3(f, 8)}

for name, scale in SCALINGS.items():
    frequencies = [scale(1 / THETA ** (mpf(2 * i) / HEAD_SIZE)) for i in range(HEAD_SIZE // 2)]
    for position in (1, 37, 1023):
        row = [g(position * f) for g in (cos, sin) for f in frequencies]
        print(f'{{"{name}", {position}, {{' + ", ".join(repr(float(x)) for x in row) + "}},")
