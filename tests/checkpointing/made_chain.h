// Chains of whole numbers for the tests of the planner: tests/golden/make_chain_goldens.py makes the same ones.
#pragma once

#include <algorithm>
#include <array>

#include "checkpointing/planner/chain.h"

namespace recollect::test {

class MadeChain : public Chain {
 public:
  explicit MadeChain(int number, bool device_only = false) : state_(static_cast<uint64_t>(number) + 1) {
    constexpr std::array kLayers = {6, 7, 9, 12, 12, 16, 18, 24, 24, 32, 48, 96};
    const std::size_t count = kLayers[number % (device_only ? 9 : kLayers.size())];
    const bool like_each_other = number / kLayers.size() % 2 == 0,
               without_order = number / kLayers.size() % 5 == 4;
    const uint64_t forward = between(3000, 9999), whole = between(2000, 19999),
                   size = whole * between(5, 12) / 100, parts = uint64_t{2} << below(3),
                   lean = whole * between(45, 80) / 100, leaner = whole * between(25, 40) / 100,
                   gather = forward * between(1, 10) / 100, part = size / parts, copy = between(1, 400),
                   core = forward * between(5, 20) / 100, cheap = core + forward * between(10, 25) / 100,
                   full = forward * between(90, 100) / 100;
    const uint64_t out = size * copy / 100, back = part * copy / 100;
    std::vector<Row> table = {{whole},
                              {lean, whole - lean, 0, 0, 0, 0, core},
                              {leaner, whole - leaner, 0, 0, 0, 0, cheap},
                              {size, whole - size, 0, 0, 0, 0, full},
                              {part, whole, size, 0, 0, 0, full + gather},
                              {0, whole, size, size, size, 0, full, out, out},
                              {0, whole + part, size + part, part, part, 0, full + gather, back, back},
                              {0, whole, size, size, 0, size, full, 3 * out, 2 * out},
                              {0, whole, whole, whole, whole, 0, 0, whole * copy / 100, whole * copy / 100}};
    if (device_only) table.resize(4);
    if (below(3) == 0) {
      const uint64_t first = below(table.size());
      std::vector<Row> some;
      for (std::size_t i = 0; i < table.size(); ++i)
        if (i == first || below(3) > 0) some.push_back(table[i]);
      table = some;
    }
    const std::array works = {between(10, 60), between(20, 120), between(0, 300)};
    head_bytes = whole * works[2] / 100;
    for (std::size_t i = 0; i < count; ++i) {
      ChainLayer& layer = layers.emplace_back();
      if (without_order) {
        for (std::size_t k = 0; k < table.size(); ++k) {
          Row row;
          for (uint64_t& field : row) field = below(10000);
          if (device_only) row[2] = row[3] = row[4] = row[5] = row[7] = row[8] = 0;
          layer.options.push_back(option_of(row));
        }
        layer.forward = double(below(10000)), layer.backward = double(below(10000));
        layer.forward_bytes = below(10000), layer.backward_bytes = below(10000);
        continue;
      }
      const uint64_t bytes_by = like_each_other ? 100 : between(85, 115),
                     seconds_by = like_each_other ? 100 : between(85, 115);
      for (Row row : table) {
        for (std::size_t f = 0; f < row.size(); ++f) row[f] = row[f] * (f < 6 ? bytes_by : seconds_by) / 100;
        layer.options.push_back(option_of(row));
      }
      layer.forward = double(forward * seconds_by / 100),
      layer.backward = double(2 * forward * seconds_by / 100);
      layer.forward_bytes = whole * works[0] / 100 * bytes_by / 100;
      layer.backward_bytes = whole * works[1] / 100 * bytes_by / 100;
    }
    const auto held_less = [](const ChainOption& a, const ChainOption& b) { return a.held < b.held; };
    std::vector<int> least, most;
    for (const ChainLayer& layer : layers) {
      const auto& o = layer.options;
      least.push_back(static_cast<int>(std::min_element(o.begin(), o.end(), held_less) - o.begin()));
      most.push_back(static_cast<int>(std::max_element(o.begin(), o.end(), held_less) - o.begin()));
    }
    const uint64_t a = evaluate(*this, least).device, b = evaluate(*this, most).device;
    const uint64_t low = std::min(a, b) * 95 / 100, high = std::max(a, b);
    budgets.device = low + (high - low) * below(100) / 100;
    budgets.host = limit(&ChainOption::host);
    budgets.disk = limit(&ChainOption::disk);
  }

  ChainBudgets budgets;

 private:
  using Row = std::array<uint64_t, 9>;

  uint64_t below(uint64_t n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (state_ >> 33) % n;
  }
  uint64_t between(uint64_t low, uint64_t high) { return low + below(high - low + 1); }

  static ChainOption option_of(const Row& row) {
    return {.held = row[0],
            .arrives = row[1],
            .ahead = row[2],
            .leaves = row[3],
            .host = row[4],
            .disk = row[5],
            .seconds = double(row[6]),
            .out = double(row[7]),
            .in = double(row[8])};
  }

  uint64_t limit(uint64_t ChainOption::*field) {
    if (below(2) == 0) return ChainBudgets::kAny;
    uint64_t sum = 0;
    for (const ChainLayer& layer : layers) {
      uint64_t most = 0;
      for (const ChainOption& o : layer.options) most = std::max(most, o.*field);
      sum += most;
    }
    return sum * below(100) / 100;
  }

  uint64_t state_;
};

}  // namespace recollect::test
