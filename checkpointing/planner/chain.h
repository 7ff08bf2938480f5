// A transformer's training step as the planner sees it: layers one behind the other, for each some ways to treat what
// its backward needs. Bytes are of one rank, seconds of one micro-batch.
//
// With P the sum of `held` of the layers before, a choice of options needs on the device
//
//   forward    P + forward_bytes + leaves of the layer before
//   head       P + head_bytes
//   backward   P + held + arrives + backward_bytes + ahead of the layer before
//
// and takes all forward, backward and options' seconds, and the stalls: what copying a layer's values to the host takes
// longer than the next layer's forward, and copying them back longer than the next layer's backward with its option's
// seconds. Behind the last layer nothing runs beside its copies.
//
// Sums beyond 64 bits stay at all ones. Seconds are finite and not negative.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace recollect {

struct ChainOption {
  uint64_t held = 0;     // device bytes between the layer's forward and its backward
  uint64_t arrives = 0;  // device bytes beside `held` in the layer's backward: fetched, gathered, recomputed
  uint64_t ahead = 0;    // those that are there while the next layer's backward runs: fetched ahead
  uint64_t leaves = 0;   // the same while the next layer's forward runs: on their way to the host
  uint64_t host = 0, disk = 0;  // bytes there between forward and backward
  double seconds = 0;           // added to the layer's backward: recomputation, gathers that are waited for
  double out = 0, in = 0;       // seconds of copying to the host, and back
};

struct ChainLayer {
  double forward = 0, backward = 0;                // seconds, nothing recomputed
  uint64_t forward_bytes = 0, backward_bytes = 0;  // device bytes at work, beside what is held
  std::vector<ChainOption> options;                // one at least
};

struct Chain {
  std::vector<ChainLayer> layers;
  uint64_t head_bytes = 0;  // device bytes at work behind the last layer, beside what is held
};

struct ChainBudgets {
  static constexpr uint64_t kAny = ~uint64_t{0};
  uint64_t device = kAny, host = kAny, disk = kAny;
};

struct ChainPlan {
  std::vector<int> options;                 // by layer
  double seconds = 0;                       // of the whole chain
  double lower_bound = 0;                   // no choice within the budgets takes less
  uint64_t device = 0, host = 0, disk = 0;  // peaks
};

// What a choice of options takes; its lower bound is 0.
ChainPlan evaluate(const Chain& chain, const std::vector<int>& options);

// The least seconds within the budgets, or little more: the lower bound says how little. Nothing where no choice fits.
// The same on every machine.
std::optional<ChainPlan> solve(const Chain& chain, const ChainBudgets& budgets);

// Device bytes against seconds: at most `points` plans, from the least device bytes that are found to be enough within
// `host` and `disk` to the least seconds. Each needs more bytes and takes less seconds than the one before.
std::vector<ChainPlan> frontier(const Chain& chain, uint64_t host, uint64_t disk, std::size_t points);

}  // namespace recollect
