// A mesh of ranks that sum over their tensor and data groups, step after step, until one of them is stuck; and
// who is blamed for it.
#pragma once

#include <chrono>
#include <set>
#include <string>

#include "comm/communicator.h"

namespace recollect::test {

// No rank that trains may be away so long, on a busy machine either.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr std::chrono::milliseconds kBlameTimeout{5000};
#else
inline constexpr std::chrono::milliseconds kBlameTimeout{3000};
#endif

enum class Place { kTensor, kData, kOutside };  // what comes next when it gets stuck

// Of a mesh whose tensor groups have `tensor` ranks. Rank `stuck` calls `get_stuck` in its third step and
// then goes on. Ends only with an Error.
template <typename GetStuck>
void sum_over_mesh(Communicator& world, int tensor, int stuck, Place place, const GetStuck& get_stuck) {
  const auto row = world.split(world.rank() / tensor), column = world.split(world.rank() % tensor);
  float values[3] = {};
  const Tensor few{values, {3}, DType::kF32};
  for (int step = 0;; ++step) {
    const auto pass = [&](Place here) {
      if (step == 2 && world.rank() == stuck && here == place) get_stuck();
    };
    pass(Place::kOutside);
    row->all_reduce(few, ReduceOp::kSum);
    pass(Place::kTensor);
    row->all_reduce(few, ReduceOp::kMax);
    pass(Place::kData);
    column->all_reduce(few, ReduceOp::kSum);
  }
}

// The ranks that a message says did not come: "rank 3 did not come", "ranks 1, 2 did not come".
inline std::set<int> accused_in(const std::string& message) {
  std::set<int> ranks;
  for (auto at = message.find(" did not come"); at != std::string::npos;
       at = message.find(" did not come", at + 1)) {
    auto begin = at;
    while (begin > 0 && (std::isdigit(static_cast<unsigned char>(message[begin - 1])) ||
                         message[begin - 1] == ',' || message[begin - 1] == ' '))
      --begin;
    for (; begin < at; ++begin)
      if (std::isdigit(static_cast<unsigned char>(message[begin])) &&
          !std::isdigit(static_cast<unsigned char>(message[begin - 1])))
        ranks.insert(std::stoi(message.substr(begin)));
  }
  return ranks;
}

}  // namespace recollect::test
