// Which layer inputs to hold on the way through layers of equal cost, if backward may hold only so many at a time: the
// binomial schedule (Griewank and Walther, "Algorithm 799: revolve", 2000), which no other one is better than.
#pragma once

#include <cstdint>

namespace recollect {

// Layers that run forward, recomputation included, until backward has come through `layers` of them, one at least, while
// at most `held` inputs, one at least, are there at a time, the first layer's among them. The last layer is not run again.
// Stays at 2^63 - 1 where it would be more.
int64_t binomial_evaluations(int64_t layers, int64_t held);

// The layer behind the first one, of two layers or more, whose input is to be held next.
int64_t binomial_split(int64_t layers, int64_t held);

}  // namespace recollect
