#!/usr/bin/env python3
"""Writes chains.json: the least seconds that chains of layers with options (checkpointing/planner/chain.h) take.

Of each chain the optimum within its budgets by HiGHS (scipy.optimize.milp), and, without residences, by a dynamic
program over layers and bytes as rotor's (Beaumont et al., "Optimal Re-Materialization Strategies for Heterogeneous
Chains", 2024). Chains come from a generator of whole numbers that tests/checkpointing/test_chain.cpp has too, so that
sums are exact; stored are seconds alone: the best choice found and what no choice is below, the same where proven, and
[] where no choice fits.
"""

import concurrent.futures
import functools
import json
import pathlib
import sys

import numpy
import scipy.optimize
import scipy.sparse

CHAINS, DEVICE_ONLY = 504, 120
TIME_LIMIT = 60
LAYERS = [6, 7, 9, 12, 12, 16, 18, 24, 24, 32, 48, 96]
ANY = 2**64 - 1


class Random:
    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % n

    def between(self, low, high):
        return low + self.below(high - low + 1)


HELD, ARRIVES, AHEAD, LEAVES, HOST, DISK, SECONDS, OUT, IN = range(9)


class Chain:
    """Layers are [forward, backward, forward_bytes, backward_bytes, options]."""

    def __init__(self, number, device_only=False):
        r = Random(number + 1)
        self.number = number
        count = LAYERS[number % (9 if device_only else len(LAYERS))]
        like_each_other = number // len(LAYERS) % 2 == 0
        without_order = number // len(LAYERS) % 5 == 4
        # A transformer's layer: all of it saved, without attention's core, without what is cheap too, its input alone.
        forward = r.between(3000, 9999)
        whole = r.between(2000, 19999)
        size = whole * r.between(5, 12) // 100
        parts = [2, 4, 8][r.below(3)]
        lean = whole * r.between(45, 80) // 100
        leaner = whole * r.between(25, 40) // 100
        gather = forward * r.between(1, 10) // 100
        part = size // parts
        copy = r.between(1, 400)  # hundredths of a second a byte
        core = forward * r.between(5, 20) // 100
        cheap = core + forward * r.between(10, 25) // 100
        full = forward * r.between(90, 100) // 100
        out, back = size * copy // 100, part * copy // 100
        table = [
            [whole, 0, 0, 0, 0, 0, 0, 0, 0],
            [lean, whole - lean, 0, 0, 0, 0, core, 0, 0],
            [leaner, whole - leaner, 0, 0, 0, 0, cheap, 0, 0],
            [size, whole - size, 0, 0, 0, 0, full, 0, 0],
            [part, whole, size, 0, 0, 0, full + gather, 0, 0],
            [0, whole, size, size, size, 0, full, out, out],
            [0, whole + part, size + part, part, part, 0, full + gather, back, back],
            [0, whole, size, size, 0, size, full, 3 * out, 2 * out],
            [0, whole, whole, whole, whole, 0, 0, whole * copy // 100, whole * copy // 100],
        ]
        if device_only:
            table = table[:4]
        if r.below(3) == 0:
            first = r.below(len(table))
            table = [row for i, row in enumerate(table) if i == first or r.below(3) > 0]
        works = [r.between(10, 60), r.between(20, 120), r.between(0, 300)]
        self.head = whole * works[2] // 100
        self.layers = []
        for i in range(count):
            if without_order:
                options = [[r.below(10000) for _ in range(9)] for _ in table]
                for option in options:
                    if device_only:
                        option[AHEAD:SECONDS] = [0, 0, 0, 0]
                        option[OUT:] = [0, 0]
                self.layers.append([r.below(10000), r.below(10000), r.below(10000), r.below(10000), options])
                continue
            bytes_by = 100 if like_each_other else r.between(85, 115)
            seconds_by = 100 if like_each_other else r.between(85, 115)
            options = [[n * (bytes_by if f < SECONDS else seconds_by) // 100 for f, n in enumerate(row)] for row in table]
            self.layers.append([forward * seconds_by // 100, 2 * forward * seconds_by // 100,
                                whole * works[0] // 100 * bytes_by // 100, whole * works[1] // 100 * bytes_by // 100, options])
        least = [min(range(len(layer[4])), key=lambda k: layer[4][k][HELD]) for layer in self.layers]
        most = [max(range(len(layer[4])), key=lambda k: layer[4][k][HELD]) for layer in self.layers]
        low, high = self.take(least)[1], self.take(most)[1]
        low, high = min(low, high) * 95 // 100, max(low, high)  # a few budgets are too small
        self.device = low + (high - low) * r.below(100) // 100
        self.host = self.limit(HOST, r)
        self.disk = self.limit(DISK, r)

    def limit(self, field, r):
        if r.below(2) == 0:
            return ANY
        return sum(max(o[field] for o in layer[4]) for layer in self.layers) * r.below(100) // 100

    def take(self, choice):
        """Seconds, and device, host and disk bytes of a choice."""
        seconds = device = held = host = disk = 0
        chosen = [layer[4][k] for layer, k in zip(self.layers, choice)]
        for i, (layer, o) in enumerate(zip(self.layers, chosen)):
            before = chosen[i - 1] if i > 0 else [0] * 9
            device = max(device, held + layer[2] + before[LEAVES],
                         held + o[HELD] + o[ARRIVES] + layer[3] + before[AHEAD])
            held += o[HELD]
            host += o[HOST]
            disk += o[DISK]
            seconds += layer[0] + layer[1] + o[SECONDS]
            after = self.layers[i + 1] if i + 1 < len(self.layers) else None
            seconds += max(0, o[OUT] - (after[0] if after else 0))
            seconds += max(0, o[IN] - (after[1] + chosen[i + 1][SECONDS] if after else 0))
        return seconds, max(device, held + self.head), host, disk

    def fits(self, taken):
        return taken[1] <= self.device and taken[2] <= self.host and taken[3] <= self.disk


def by_highs(number):
    """[best found, none is below] in seconds, or []."""
    chain = Chain(number)
    first, columns = [], 0  # the first column of each layer
    for layer in chain.layers:
        first.append(columns)
        columns += len(layer[4])
    cost = numpy.zeros(columns)
    fixed = sum(layer[0] + layer[1] for layer in chain.layers)
    pairs = []  # layers with a stall that depends on the next option
    for i, layer in enumerate(chain.layers):
        after = chain.layers[i + 1] if i + 1 < len(chain.layers) else None
        for k, o in enumerate(layer[4]):
            cost[first[i] + k] = o[SECONDS] + max(0, o[OUT] - (after[0] if after else 0)) + (0 if after else o[IN])
        if after and max(o[IN] for o in layer[4]) > after[1]:
            pairs.append((i, columns))
            columns += len(layer[4]) * len(after[4])
    cost = numpy.concatenate([cost, numpy.zeros(columns - len(cost))])
    rows, low, high = [], [], []

    def add(row, least, most):
        rows.append(row)
        low.append(least)
        high.append(most)

    for i, layer in enumerate(chain.layers):
        add([(first[i] + k, 1) for k in range(len(layer[4]))], 1, 1)
    for i, place in pairs:
        layer, after = chain.layers[i], chain.layers[i + 1]
        here, there = len(layer[4]), len(after[4])
        for k, o in enumerate(layer[4]):
            for n, p in enumerate(after[4]):
                cost[place + k * there + n] = max(0, o[IN] - after[1] - p[SECONDS])
        for k in range(here):
            add([(place + k * there + n, 1) for n in range(there)] + [(first[i] + k, -1)], 0, 0)
        for n in range(there):
            add([(place + k * there + n, 1) for k in range(here)] + [(first[i + 1] + n, -1)], 0, 0)
    held = []
    for i, layer in enumerate(chain.layers):
        before = [(first[i - 1] + k, o) for k, o in enumerate(chain.layers[i - 1][4])] if i > 0 else []
        own = [(first[i] + k, o) for k, o in enumerate(layer[4])]
        add(held + [(c, o[LEAVES]) for c, o in before], -numpy.inf, chain.device - layer[2])
        add(held + [(c, o[AHEAD]) for c, o in before] + [(c, o[HELD] + o[ARRIVES]) for c, o in own],
            -numpy.inf, chain.device - layer[3])
        held = held + [(c, o[HELD]) for c, o in own]
    add(held, -numpy.inf, chain.device - chain.head)
    for field, limit in ((HOST, chain.host), (DISK, chain.disk)):
        if limit != ANY:
            add([(first[i] + k, o[field]) for i, layer in enumerate(chain.layers) for k, o in enumerate(layer[4])],
                -numpy.inf, limit)
    entries = [(r, c, v) for r, row in enumerate(rows) for c, v in row if v != 0]
    matrix = scipy.sparse.csr_matrix(
        ([v for _, _, v in entries], ([r for r, _, _ in entries], [c for _, c, _ in entries])), (len(rows), columns))
    whole = numpy.zeros(columns)
    whole[:sum(len(layer[4]) for layer in chain.layers)] = 1
    answer = scipy.optimize.milp(cost, integrality=whole, bounds=scipy.optimize.Bounds(0, 1),
                                 constraints=scipy.optimize.LinearConstraint(matrix, low, high),
                                 options={"time_limit": TIME_LIMIT, "mip_rel_gap": 0})
    if answer.status == 2:
        return []
    below = fixed + answer.mip_dual_bound
    if answer.x is None:
        return [None, int(numpy.floor(below))]
    choice = [int(numpy.argmax(answer.x[first[i]:first[i] + len(layer[4])])) for i, layer in enumerate(chain.layers)]
    taken = chain.take(choice)
    assert chain.fits(taken), (number, taken)
    # Seconds are whole: a bound within less than one of the choice proves it.
    return [taken[0], min(taken[0], int(numpy.ceil(below - 0.01)))]


def by_rotor(number):
    """The least seconds, or None."""
    chain = Chain(number, device_only=True)
    sys.setrecursionlimit(10000)

    @functools.lru_cache(maxsize=None)
    def least(i, room):
        """Of layers from i on with `room` bytes."""
        if i == len(chain.layers):
            return 0 if room >= chain.head else None
        forward, backward, at_forward, at_backward, options = chain.layers[i]
        best = None
        for o in options:
            if room < max(at_forward, o[HELD] + o[ARRIVES] + at_backward):
                continue
            rest = least(i + 1, room - o[HELD])
            if rest is not None and (best is None or rest + o[SECONDS] < best):
                best = rest + o[SECONDS]
        return None if best is None else best + forward + backward

    return least(0, chain.device)


def main():
    with concurrent.futures.ProcessPoolExecutor(int(sys.argv[1]) if len(sys.argv) > 1 else 1) as pool:
        optima = list(pool.map(by_highs, range(CHAINS)))
        rotor = list(pool.map(by_rotor, range(DEVICE_ONLY)))
    proven = sum(1 for o in optima if o and o[0] == o[1])
    print(f"{proven} of {sum(1 for o in optima if o)} proven, {optima.count([])} fit nothing", file=sys.stderr)
    path = pathlib.Path(__file__).parent / "chains.json"
    path.write_text(json.dumps({"optima": optima, "device_only": rotor}) + "\n")


if __name__ == "__main__":
    main()
