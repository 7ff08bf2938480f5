// Products that end with something which a step behind them could do as well: sums of an operand, GELU. Private to this
// folder.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/ops/cuda/cublas_problem.h"

namespace recollect::cuda {

inline constexpr GemmAlgorithm kApart{};  // stands for none: product and ending are two steps

struct Ending {
  struct Written {
    const void* data;
    std::size_t bytes;
  };

  const GemmShape& shape;
  const CublasProblem& problem;  // ends with it
  const GemmOperands& operands;  // may be overwritten
  std::vector<Written> written;
  const std::function<void()>& apart;  // enqueues what does the same in two steps
};

// The fastest algorithm among those that write the same bits twice, or kApart where none is faster than two steps. What is
// chosen for `key` stays, as the algorithms of products do.
GemmAlgorithm choose_ending(Cublas& cublas, const std::string& key, const Ending& ending);

}  // namespace recollect::cuda
