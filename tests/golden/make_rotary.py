#!/usr/bin/env python3
"""Prints the rows of rotary tables that tests/engine/test_rotary.cpp expects, to 50 digits before rounding.

The frequencies are those of Transformers' modeling_rope_utils (_compute_default_rope_parameters,
_compute_linear_scaling_rope_parameters, _compute_dynamic_ntk_parameters, _compute_yarn_parameters,
_compute_longrope_parameters, _compute_llama3_parameters), written as there. Needs mpmath.
"""
from mpmath import ceil, cos, floor, log, mp, mpf, pi, sin

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


def dynamic(i, factor, length):
    base = THETA * (factor * length / ORIGINAL - (factor - 1)) ** (mpf(HEAD_SIZE) / (HEAD_SIZE - 2))
    return 1 / base ** (mpf(2 * i) / HEAD_SIZE)


def yarn(i, factor, beta_fast, beta_slow):
    def dimension(turns):
        return HEAD_SIZE * log(ORIGINAL / (turns * 2 * pi)) / (2 * log(THETA))

    low, high = max(floor(dimension(beta_fast)), 0), min(ceil(dimension(beta_slow)), HEAD_SIZE - 1)
    ramp = min(max((i - low) / (high - low), 0), 1)
    plain = 1 / THETA ** (mpf(2 * i) / HEAD_SIZE)
    return plain / factor * ramp + plain * (1 - ramp)


def plain(i):
    return 1 / THETA ** (mpf(2 * i) / HEAD_SIZE)


LONG_FACTORS = [mpf(1), mpf(1.5), mpf(2), mpf(4), mpf(8), mpf(16)]
SCALINGS = {
    "default": (plain, 1),
    "linear": (lambda i: plain(i) / 4, 1),
    "llama3": (lambda i: llama3(plain(i), 8), 1),
    "dynamic": (lambda i: dynamic(i, 8, 1024), 1),
    "yarn": (lambda i: yarn(i, 8, 32, 1), mpf(1.25)),
    "longrope": (lambda i: plain(i) / LONG_FACTORS[i], mpf(1.25)),
}

for name, (frequency, times) in SCALINGS.items():
    frequencies = [frequency(i) for i in range(HEAD_SIZE // 2)]
    for position in (1, 37, 1023):
        row = [times * g(position * f) for g in (cos, sin) for f in frequencies]
        print(f'{{"{name}", {position}, {{' + ", ".join(repr(float(x)) for x in row) + "}},")
