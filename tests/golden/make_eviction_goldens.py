#!/usr/bin/env python3
"""Writes eviction.json: what dynamic tensor rematerialization (Kirisame et al., ICLR 2021) does with traces.

A transcription of the published definitions that shares no shortcut with checkpointing/planner/eviction.cpp:
evicted neighbourhoods are searched anew for every score, classes are sets. Its traces come from a generator of
whole numbers that tests/checkpointing/test_eviction.cpp has too; stored are the ends, costs, peaks and a hash of
all steps, by trace and heuristic.
"""

import json
import math
import pathlib
import sys

TRACES = 240
HEURISTICS = ["dtr", "dtr_eq", "local", "lru"]
RUN, EVICT, REMATERIALIZE, RELEASE = range(4)
DONE, TOO_LITTLE, TOO_OFTEN = range(3)


class Random:
    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % n


class Trace:
    def __init__(self, random):
        self.random = random
        self.bytes, self.pinned, self.ops = [], [], []

    def tensor(self, size, pinned=False):
        self.bytes.append(size)
        self.pinned.append(pinned)
        return len(self.bytes) - 1

    def op(self, inputs, sizes, pinned=False, in_place=False):
        cost = 1 + self.random.below(40)
        outputs = [self.tensor(size, pinned) for size in sizes]
        self.ops.append({"cost": cost, "inputs": list(inputs), "outputs": outputs,
                         "in_place": [(outputs[0], inputs[0])] if in_place else [], "releases": []})
        return outputs

    def finish(self, held):
        """Every tensor is released after the last op that knows it, but those that `held` is true of."""
        last, made = {}, set()
        for i, op in enumerate(self.ops):
            made.update(op["outputs"])
            for t in op["inputs"] + op["outputs"]:
                last[t] = i
        for t in range(len(self.bytes)):
            if t in made and not held(t):
                self.ops[last[t]]["releases"].append(t)
        for op in self.ops:
            op["in_place"] = [(o, i) for o, i in op["in_place"]
                              if i in op["releases"] and self.bytes[o] == self.bytes[i] and op["inputs"].count(i) == 1]


def chain(random):
    trace = Trace(random)
    n = 4 + random.below(40)
    made = [trace.tensor(1 + random.below(20), True)]
    for _ in range(n):
        made += trace.op([made[-1]], [1 + random.below(20)])
    gradient = trace.op([made[-1]], [1 + random.below(20)], True)
    for i in range(n - 1, -1, -1):
        gradient = trace.op([gradient[0], made[i]], [1 + random.below(20)], True)
    trace.finish(lambda t: False)
    return trace


def transformer(random):
    trace = Trace(random)
    layers, size = 1 + random.below(5), 4 + random.below(12)
    read, x = [], trace.tensor(size, True)
    for _ in range(layers):
        for wide in (3, 4):  # attention, then the perceptron
            normed = trace.op([x], [size, 1])
            inner = trace.op([normed[0]], [wide * size])
            core = trace.op([inner[0]], [size, 1] if wide == 3 else [wide * size])
            out = trace.op([core[0]], [size])
            total = trace.op([out[0], x], [size], in_place=True)
            read += [[x, normed[1]], [normed[0]], inner + core[1:], [core[0]]]
            x = total[0]
    gradient = trace.op([x], [size], True)
    for inputs in reversed(read):
        gradient = trace.op([gradient[0]] + inputs, [size], True, True)
    trace.finish(lambda t: False)
    return trace


def anything(random):
    trace = Trace(random)
    made = [trace.tensor(1 + random.below(9), True) for _ in range(1 + random.below(3))]
    for _ in range(10 + random.below(40)):
        inputs = []
        for _ in range(1 + random.below(3)):
            window = len(made) if random.below(4) == 0 else min(len(made), 8)
            inputs.append(made[len(made) - 1 - random.below(window)])
        pinned, same = random.below(10) == 0, random.below(4) == 0
        sizes = [trace.bytes[inputs[0]] if same else 1 + random.below(9)]
        if random.below(5) == 0:
            sizes.append(random.below(4))
        made += trace.op(inputs, sizes, pinned, same)
    trace.finish(lambda t: t % 7 == 3)
    return trace


class Stop(Exception):
    pass


class Evictor:
    def __init__(self, trace, budget, heuristic, most_runs):
        self.trace, self.budget, self.heuristic, self.most_runs = trace, budget, heuristic, most_runs
        n = len(trace.bytes)
        self.maker = [None] * n
        for i, op in enumerate(trace.ops):
            for t in op["outputs"]:
                self.maker[t] = i
        self.pinned = [p or m is None for p, m in zip(trace.pinned, self.maker)]
        self.there = {t for t in range(n) if self.maker[t] is None}
        self.evicted, self.released = set(), set()
        self.locks, self.accessed = [0] * n, [0] * n
        self.children = [[] for _ in range(n)]
        for op in trace.ops:
            for t in op["inputs"]:
                self.children[t] += op["outputs"]
        self.classes = []  # [members, cost]
        self.used = sum(trace.bytes[t] for t in self.there)
        self.clock, self.peak, self.runs, self.end, self.hash = 0, self.used, 0, DONE, 14695981039346656037

    def parents(self, t):
        return [] if self.maker[t] is None else self.trace.ops[self.maker[t]]["inputs"]

    def cost(self, t):
        return 0 if self.maker[t] is None else self.trace.ops[self.maker[t]]["cost"]

    def note(self, kind, which):
        self.hash = ((self.hash ^ (which * 4 + kind)) * 1099511628211) % 2**64

    def run(self):
        try:
            if self.used > self.budget:
                raise Stop(TOO_LITTLE)
            for i, op in enumerate(self.trace.ops):
                self.execute(i, True)
                for t in op["releases"]:
                    self.release(t)
        except Stop as stop:
            self.end = stop.args[0]
        return self

    def execute(self, i, first):
        op, size = self.trace.ops[i], self.trace.bytes
        absent = [t for t in op["inputs"] if t not in self.there]
        for t in op["inputs"]:
            if t not in absent:
                self.locks[t] += 1
        for t in absent:
            if t not in self.there:
                self.execute(self.maker[t], False)
            self.locks[t] += 1
        taken = [t for _, t in op["in_place"] if first and self.goes_at_once(t)]
        needed = max(0, sum(size[t] for t in op["outputs"]) - sum(size[t] for t in taken))
        while self.used + needed > self.budget:
            self.evict_one()
        if self.runs == self.most_runs:
            raise Stop(TOO_OFTEN)
        self.runs += 1
        self.peak = max(self.peak, self.used + needed)
        self.clock += op["cost"]
        self.note(RUN if first else REMATERIALIZE, i)
        for t in op["outputs"]:
            self.accessed[t] = self.clock
            if t in self.there:
                continue
            self.there.add(t)
            self.used += size[t]
            if t in self.evicted:
                self.evicted.remove(t)
                for members in self.classes:
                    if t in members[0]:
                        members[0].remove(t)
                        members[1] -= self.cost(t)
        for t in op["inputs"]:
            self.locks[t] -= 1
            self.accessed[t] = self.clock
            if self.pinned[t] and t in self.released:
                self.banish(t)
        for t in taken:
            if self.goes_at_once(t):
                self.release(t)

    def evict_one(self):
        scores = [(self.score(t), t) for t in self.there
                  if not self.pinned[t] and self.locks[t] == 0 and self.trace.bytes[t] > 0]
        if not scores:
            raise Stop(TOO_LITTLE)
        t = min(scores)[1]
        self.note(EVICT, t)
        self.leave(t)

    def score(self, t):
        stale = self.clock - self.accessed[t]
        if stale == 0:
            return math.inf
        if self.heuristic == "lru":
            return 1 / float(stale)
        cost = self.cost(t)
        if self.heuristic == "dtr":
            cost += sum(map(self.cost, self.reach(t, self.parents) | self.reach(t, lambda u: self.children[u])))
        elif self.heuristic == "dtr_eq":
            beside = {u for u in self.parents(t) + self.children[t] if u in self.evicted}
            cost += sum(c for members, c in self.classes if members & beside)
        return float(cost) / (float(self.trace.bytes[t]) * float(stale))

    def reach(self, t, step):
        found, open_ = set(), [t]
        while open_:
            for u in step(open_.pop()):
                if u in self.evicted and u not in found:
                    found.add(u)
                    open_.append(u)
        return found

    def leave(self, t):
        self.there.remove(t)
        self.evicted.add(t)
        self.used -= self.trace.bytes[t]
        beside = set(self.parents(t) + self.children[t])
        joined = [c for c in self.classes if c[0] & beside]
        self.classes = [c for c in self.classes if not c[0] & beside]
        self.classes.append([{t}.union(*(c[0] for c in joined)), self.cost(t) + sum(c[1] for c in joined)])

    def goes_at_once(self, t):
        return not self.pinned[t] or all(self.pinned[u] for u in self.children[t])

    def release(self, t):
        self.released.add(t)
        if t not in self.there:
            return
        if self.pinned[t]:
            self.banish(t)
        else:
            self.note(RELEASE, t)
            self.leave(t)

    def banish(self, t):
        if t not in self.there or self.locks[t] or any(u in self.evicted for u in self.children[t]):
            return
        self.note(RELEASE, t)
        self.there.remove(t)
        self.used -= self.trace.bytes[t]
        for u in self.children[t]:
            if u in self.there:
                self.pinned[u] = True


def main():
    sys.setrecursionlimit(100000)
    results, ends, evicting = [], [0, 0, 0], 0
    for seed in range(TRACES):
        random = Random(seed)
        trace = [chain, transformer, anything][seed % 3](random)
        peak = Evictor(trace, 2**60, "lru", 2**30).run().peak
        budget = peak * (30 + random.below(66)) // 100
        runs = [Evictor(trace, budget, h, 20 * len(trace.ops)).run() for h in HEURISTICS]
        for run in runs:
            ends[run.end] += 1
            evicting += run.runs > len(trace.ops)
        results.append(" ".join(f"{run.end},{run.clock},{run.peak},{run.hash:016x}" for run in runs))
    print(f"ends {ends}; {evicting} with rematerializations; distinct {len(set(results))}")
    path = pathlib.Path(__file__).parent / "eviction.json"
    path.write_text(json.dumps({"heuristics": HEURISTICS, "runs": results}, indent=0) + "\n")


if __name__ == "__main__":
    main()
