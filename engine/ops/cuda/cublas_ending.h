// Products with an epilogue that a separate step could also do: sums of an operand, or GELU. Private to this
// folder.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "engine/ops/cuda/cublas_problem.h"

namespace recollect::cuda {

inline constexpr GemmAlgorithm kApart{};  // stands for no algorithm: product and epilogue are two steps

struct Ending {
  struct Written {
    const void* data;
    std::size_t bytes;
  };

  const GemmShape& shape;
  const CublasProblem& problem;  // includes the epilogue
  const GemmOperands& operands;  // may be overwritten
  std::vector<Written> written;
  const std::function<void()>& apart;  // enqueues the same work in two steps
};

// Returns the fastest algorithm among those that write the same bits twice, or kApart if none is faster than
// two steps. The choice for `key` is kept, like the algorithms of products.
GemmAlgorithm choose_ending(Cublas& cublas, const std::string& key, const Ending& ending);

}  // namespace recollect::cuda
