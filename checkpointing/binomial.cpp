#include "checkpointing/binomial.h"

#include <algorithm>
#include <limits>

#include "engine/core/error.h"

namespace recollect {

namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

int64_t limited_product(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMost : product;
}

// Layers that `held` inputs are enough for, if each layer runs forward at most `times` before its own backward:
// (held + times)! / (held! times!).
int64_t reach(int64_t held, int64_t times) {
  int64_t all = 1;
  for (int64_t i = 1; i <= std::min(held, times); ++i) {
    const int64_t next = limited_product(all, std::max(held, times) + i);
    if (next == kMost) return kMost;
    all = next / i;
  }
  return all;
}

// Beside each layer's own run before its backward.
int64_t on_the_way(int64_t layers, int64_t held) {
  if (held == 1) return limited_product(layers, layers - 1) / 2;
  int64_t times = 0;
  while (reach(held, times) < layers) ++times;
  const int64_t all = limited_product(times, layers);
  return all == kMost || times == 0 ? all : all - reach(held + 1, times - 1);
}

int64_t limited_sum(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kMost : sum;
}

}  // namespace

int64_t binomial_evaluations(int64_t layers, int64_t held) {
  require(layers > 0 && held > 0, "a binomial schedule is of one layer and one input at least");
  return limited_sum(on_the_way(layers, held), layers);
}

int64_t binomial_split(int64_t layers, int64_t held) {
  require(layers > 1 && held > 1, "a binomial schedule is divided where an input more can be held");
  int64_t best = 1, least = kMost;
  for (int64_t at = 1; at < layers; ++at) {
    const int64_t all = limited_sum(at, limited_sum(on_the_way(layers - at, held - 1), on_the_way(at, held)));
    if (all < least) least = all, best = at;
  }
  return best;
}

}  // namespace recollect
