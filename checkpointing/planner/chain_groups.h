// Labels of one layer in groups that treat the layer before alike: by what its options wait for, and, where that may
// matter, by what is at work beside the bytes that are fetched ahead.
#pragma once

#include <algorithm>
#include <vector>

#include "checkpointing/planner/chain_costs.h"

namespace recollect {

template <typename Label>
struct ChainGroup {
  std::vector<Label> labels = {};
  std::vector<double> stall = {};  // by the option of the layer before
  uint64_t back = 0;  // of the labels' common option, where what is fetched ahead may matter beside it

  // Beside what option `o` of the layer before holds, and what the labels need.
  uint64_t link(const ChainCosts::Option& o) const {
    return std::max(o.next, back ? add_bytes(back, o.ahead) : 0);
  }
};

template <typename Label>
class ChainGroups {
 public:
  // Behind the last layer: one label, of nothing.
  explicit ChainGroups(const ChainCosts& costs) : all(1) {
    all[0].labels.push_back({});
    all[0].stall.assign(costs.layers.back().size(), 0);
  }
  // Of layer i, empty: as many as there are rows of stalls, and one for each option.
  ChainGroups(const ChainCosts& costs, std::size_t i) : options_(costs.layers[i]) {
    for (std::size_t k = 0; k < options_.size(); ++k) {
      std::vector<double> stall;
      if (i > 0)
        for (std::size_t before = 0; before < costs.layers[i - 1].size(); ++before)
          stall.push_back(costs.stall(i - 1, before, k));
      std::size_t g = 0;
      while (g < all.size() && all[g].stall != stall) ++g;
      if (g == all.size()) all.push_back({.stall = stall});
      of_option_.push_back(g);
    }
    shared_ = all.size();
    if (i == 0) return;
    for (const auto& before : costs.layers[i - 1]) most_ahead_ = std::max(most_ahead_, before.ahead);
    for (std::size_t k = 0; k < options_.size(); ++k)
      all.push_back({.stall = all[of_option_[k]].stall, .back = options_[k].back});
  }

  // The group of a label that needs so many bytes and begins with option k.
  std::vector<Label>& of(std::size_t k, uint64_t device) {
    const bool covered = shared_ == all.size() || device >= add_bytes(options_[k].back, most_ahead_);
    return all[covered ? of_option_[k] : shared_ + k].labels;
  }

  std::vector<ChainGroup<Label>> all;

 private:
  std::vector<ChainCosts::Option> options_;
  std::vector<std::size_t> of_option_;
  std::size_t shared_ = 0;  // groups that hold labels of several options
  uint64_t most_ahead_ = 0;
};

}  // namespace recollect
