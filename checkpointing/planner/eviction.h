// Dynamic tensor rematerialization on a trace: the greedy algorithm of Kirisame et al., "Dynamic Tensor
// Rematerialization" (ICLR 2021), with its clock and its memory, and no tensors. Whenever an op's outputs do not
// fit beside what is held, the tensor of the least h is evicted; whenever an op reads what was evicted, the op
// that made it runs again. The same trace, budget and heuristic give the same steps on every machine.
//
// With t's size m, its staleness s (the costs of all ops that have run since one read or made it) and the cost c
// of the op that made it:
//
//   dtr       h = (c + costs of e*) / (m s), e* the evicted ancestors and descendants that t reaches through
//             evicted tensors alone
//   dtr_eq    h = (c + costs of the classes that t touches) / (m s): classes joined when a tensor is evicted
//             beside another, never parted; what is made again takes its cost out of its class
//   local     h = c / (m s)
//   lru       h = 1 / s
//
// Of equal h the tensor of the lowest number goes. What an op that has just ended read or made is not stale, and
// goes last; pinned tensors never go. An op locks its inputs; those that are lacking are made again in their
// order. One whose outputs are partly there needs room for all of them.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/core/spelled.h"

namespace recollect {

enum class EvictionHeuristic { kDtr, kDtrEq, kLocal, kLru };
template <>
inline constexpr std::array<std::string_view, 4> kSpellings<EvictionHeuristic> = {"dtr", "dtr_eq", "local",
                                                                                  "lru"};

struct EvictionTensor {
  uint64_t bytes = 0;
  bool pinned = false;  // never evicted: what made it cannot run again. So is what no op makes
  bool held = false;    // not evicted before it is released, though it could be made again
};

struct EvictionOp {
  uint64_t cost = 0;
  std::vector<int> inputs = {}, outputs = {};
  // {output, input} that dies here: the output takes the input's bytes, the first time that the op runs. Not
  // where the input is pinned and what else is made of it is not.
  std::vector<std::pair<int, int>> in_place = {};
  // What the program reads no more. It is evicted at once, and made again if something is made of it again. A
  // pinned one goes for good, as soon as nothing that is evicted was made of it, and what is there stays then
  // (the paper's banishing).
  std::vector<int> releases = {};
};

struct EvictionTrace {
  std::vector<EvictionTensor> tensors;
  std::vector<EvictionOp> ops;
};

struct EvictionStep {
  enum Kind { kRun, kEvict, kRematerialize, kRelease };
  Kind kind = kRun;
  int which = 0;  // an op, or a tensor for kEvict and kRelease
  bool operator==(const EvictionStep&) const = default;
};

enum class EvictionEnd {
  kDone,
  kTooLittle,  // one op, with what it waits for, needs more than the budget
  kTooOften,   // more runs than `most_runs`
};

struct EvictionRun {
  EvictionEnd end = EvictionEnd::kDone;
  int op = 0;  // of the program: the last that was begun
  std::vector<EvictionStep> steps;
  uint64_t cost = 0, peak = 0;
  int evictions = 0, rematerializations = 0;
};

EvictionRun run_with_eviction(const EvictionTrace& trace, uint64_t budget, EvictionHeuristic heuristic,
                              int most_runs);

}  // namespace recollect
