// One rank comes late to one of several collectives; what the others say of it.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "comm/call_times.h"
#include "comm/communicator.h"

namespace recollect::test {

// By all ranks. Empty where their times are right. Lets the clocks of a busy machine be off by half of what a
// rank is held.
inline std::string problem_with_held_rank(Communicator& world, int held) {
  constexpr double kHeld = 0.4;
  std::vector<float> values(100'000, 1.0f);
  const Tensor tensor{values.data(), {100'000}, DType::kF32};
  world.barrier();
  const CallTimes before = *world.times();
  const auto start = CallTimes::Clock::now();
  double away = 0;
  for (int i = 0; i < 4; ++i) {
    if (i == 2 && world.rank() == held) {
      const auto left = CallTimes::Clock::now();
      std::this_thread::sleep_for(std::chrono::duration<double>(kHeld));
      away = std::chrono::duration<double>(CallTimes::Clock::now() - left).count();
    }
    world.all_reduce(tensor, ReduceOp::kSum);
  }
  const double whole = std::chrono::duration<double>(CallTimes::Clock::now() - start).count() - away;
  const CallTimes& after = *world.times();
  const double waited = after.waiting() - before.waiting(), moved = after.transfer() - before.transfer();
  const double for_it = after.waiting_by_rank()[held] - before.waiting_by_rank()[held];
  const bool mine = world.rank() == held;
  const std::string text = "rank " + std::to_string(world.rank()) + " of " + std::to_string(world.size()) +
                           " waited " + std::to_string(waited) + " s, of it " + std::to_string(for_it) +
                           " for rank " + std::to_string(held) + ", and moved bytes for " +
                           std::to_string(moved) + " of " + std::to_string(whole) + " s";
  const bool adds_up = waited + moved <= whole && waited + moved > 0.9 * whole;
  const bool right = mine ? waited < 0.5 * kHeld : for_it > 0.5 * kHeld && waited < 1.5 * kHeld;
  return adds_up && right ? std::string() : text;
}

}  // namespace recollect::test
