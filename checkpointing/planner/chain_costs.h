// A chain's numbers as dynamic programming from the last layer to the first adds them up. A choice for the layers from i
// on needs `device` bytes beside what the layers before hold: of layer i's option k alone `alone`, and, beside what k
// holds, what the layers behind need and what `next` and `ahead` say of i and the next layer together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "checkpointing/planner/chain.h"

namespace recollect {

inline uint64_t add_bytes(uint64_t a, uint64_t b) { return a + b < a ? ~uint64_t{0} : a + b; }

struct ChainCosts {
  struct Option {
    uint64_t held = 0, host = 0, disk = 0;
    uint64_t alone = 0;  // in the layer's own forward and backward, and in the head's for the last layer
    uint64_t back = 0;   // in the layer's backward, but for what is fetched ahead
    uint64_t next = 0;   // beside `held`, in the next layer's forward
    uint64_t ahead = 0;  // beside the next layer's `back`
    double seconds = 0;  // with what stalls whatever the next layer's option is
    double in = 0;
    double backward = 0;  // of the layer, with the option's seconds
  };
  explicit ChainCosts(const Chain& chain);

  // Seconds that backward of layer i + 1 waits for layer i's copies.
  double stall(std::size_t i, std::size_t k, std::size_t next) const {
    return std::max(0.0, layers[i][k].in - layers[i + 1][next].backward);
  }

  std::vector<std::vector<Option>> layers;
};

}  // namespace recollect
