#include "checkpointing/planner/chain_search.h"

#include <algorithm>
#include <array>
#include <limits>

#include "checkpointing/planner/chain_groups.h"

namespace recollect {

namespace {

constexpr double kNoSeconds = std::numeric_limits<double>::infinity();
constexpr double kChainSumError = 1e-9;  // of seconds: more than sums of them can be wrong by
constexpr double kGap = 5e-4,
                 kRoughGap = 4e-3;  // between a choice and its proof: with more, the search goes on
constexpr std::size_t kFirstLabels = 24, kLeastLabels = 100, kLabelsOfAll = 4800, kLastTry = 20;

struct BoundedLabel {
  uint64_t device = 0, host = 0, disk = 0;
  double seconds = 0, bound = 0;
  int parent = -1, option = 0;  // parent: a label of the layer behind
  bool stays = false;
};

class ChoiceSearch {
 public:
  ChoiceSearch(const ChainCosts& costs, const ChainBudgets& budgets)
      : costs_(costs), budgets_(budgets), bound_(costs, budgets), least_(costs.layers.size()) {
    using Option = ChainCosts::Option;
    for (std::size_t i = 0; i + 1 < costs.layers.size(); ++i) {
      const auto least = [&](uint64_t Option::*bytes) {
        uint64_t all = ~uint64_t{0};
        for (const Option& o : costs.layers[i]) all = std::min(all, o.*bytes);
        return all;
      };
      least_[i + 1] = {add_bytes(least_[i].held, least(&Option::held)),
                       add_bytes(least_[i].host, least(&Option::host)),
                       add_bytes(least_[i].disk, least(&Option::disk))};
    }
  }

  // The best choice below `upper`, with about `most` labels a layer at the most.
  std::optional<FoundChoice> run(std::size_t most, double upper) {
    upper_ = upper;
    dropped_ = kNoSeconds;
    steps_.assign(costs_.layers.size(), {});
    Groups groups(costs_);
    for (std::size_t i = costs_.layers.size(); i-- > 0;) {
      groups = extend(i, groups);
      drop(most, groups);
      for (const auto& group : groups.all)
        for (const BoundedLabel& label : group.labels) steps_[i].push_back({label.parent, label.option});
    }
    const std::vector<BoundedLabel>& whole = groups.all.front().labels;
    const auto best = std::min_element(whole.begin(), whole.end(),
                                       [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
    if (best == whole.end()) return {};
    FoundChoice found{.options = {}, .seconds = best->seconds, .below = 0};
    auto at = static_cast<int>(best - whole.begin());
    for (const auto& layer : steps_) {
      found.options.push_back(layer[at].option);
      at = layer[at].parent;
    }
    return found;
  }

  // Choices that the last run did not follow to their end take no less, but for those beyond its upper end.
  double dropped() const { return dropped_; }
  ChainBound& bound() { return bound_; }

 private:
  using Groups = ChainGroups<BoundedLabel>;
  struct Step {
    int parent = -1, option = 0;
  };
  struct Least {
    uint64_t held = 0, host = 0, disk = 0;
  };

  Groups extend(std::size_t i, const Groups& behind) const {
    Groups here(costs_, i);
    int parent = 0;
    for (const auto& group : behind.all)
      for (const BoundedLabel& from : group.labels) {
        for (std::size_t k = 0; k < costs_.layers[i].size(); ++k) {
          const ChainCosts::Option& o = costs_.layers[i][k];
          BoundedLabel label{
              .device = std::max(o.alone, add_bytes(o.held, std::max(from.device, group.link(o)))),
              .host = budgets_.host == ChainBudgets::kAny ? 0 : add_bytes(from.host, o.host),
              .disk = budgets_.disk == ChainBudgets::kAny ? 0 : add_bytes(from.disk, o.disk),
              .seconds = from.seconds + o.seconds + group.stall[k],
              .parent = parent,
              .option = static_cast<int>(k)};
          if (add_bytes(label.device, least_[i].held) > budgets_.device ||
              add_bytes(label.host, least_[i].host) > budgets_.host ||
              add_bytes(label.disk, least_[i].disk) > budgets_.disk)
            continue;
          label.bound = bound_.with(i, k, label.seconds, label.device, label.host, label.disk);
          if (label.bound < upper_) here.of(k, label.device).push_back(label);
        }
        ++parent;
      }
    return here;
  }

  // Of each group what no other is as good as; of all these about `most`, those of the least bounds first.
  void drop(std::size_t most, Groups& groups) {
    cut(2 * most, groups);
    for (auto& group : groups.all) {
      std::vector<BoundedLabel>& labels = group.labels;
      std::sort(labels.begin(), labels.end(), is_before);
      std::size_t kept = 0;
      for (const BoundedLabel& label : labels)
        if (!is_dominated(label, labels.data(), kept)) labels[kept++] = label;
      labels.resize(kept);
    }
    cut(most, groups);
  }

  void cut(std::size_t most, Groups& groups) {
    bounds_.clear();
    for (const auto& group : groups.all)
      for (const BoundedLabel& label : group.labels) bounds_.push_back(label.bound);
    if (bounds_.size() <= most) return;
    const auto end = bounds_.begin() + static_cast<std::ptrdiff_t>(most);
    std::nth_element(bounds_.begin(), end, bounds_.end());
    const double limit = *end;
    auto equal = std::count(bounds_.begin(), end, limit);
    choose_of_cells(groups);
    for (auto& group : groups.all)
      std::erase_if(group.labels, [&](const BoundedLabel& label) {
        if (label.stays || label.bound < limit || (label.bound == limit && equal-- > 0)) return false;
        dropped_ = std::min(dropped_, label.bound);
        return true;
      });
  }

  static bool is_before(const BoundedLabel& x, const BoundedLabel& y) {
    if (x.bound != y.bound) return x.bound < y.bound;
    if (x.device != y.device) return x.device < y.device;
    if (x.seconds != y.seconds) return x.seconds < y.seconds;
    return x.parent != y.parent ? x.parent < y.parent : x.option < y.option;
  }

  static bool is_dominated(const BoundedLabel& label, const BoundedLabel* by, std::size_t count) {
    return std::any_of(by, by + count, [&](const BoundedLabel& other) {
      return other.device <= label.device && other.seconds <= label.seconds && other.host <= label.host &&
             other.disk <= label.disk;
    });
  }

  // The least bound of each cell of bytes stays, whatever the others are: prices err where budgets are tight.
  void choose_of_cells(Groups& groups) const {
    constexpr std::size_t kDevice = 16, kOther = 4;
    uint64_t low = ~uint64_t{0}, high = 0;
    for (const auto& group : groups.all)
      for (const BoundedLabel& label : group.labels) {
        low = std::min(low, label.device);
        high = std::max(high, label.device);
      }
    const auto place = [](uint64_t bytes, uint64_t of, std::size_t cells) {
      return std::min(cells - 1, static_cast<std::size_t>(double(bytes) / (double(of) + 1) * double(cells)));
    };
    std::array<BoundedLabel*, kDevice * kOther * kOther> best{};
    for (auto& group : groups.all)
      for (BoundedLabel& label : group.labels) {
        const std::size_t device = place(label.device - low, high - low, kDevice),
                          host = place(label.host, budgets_.host, kOther),
                          disk = place(label.disk, budgets_.disk, kOther);
        label.stays = false;
        BoundedLabel*& one = best[(device * kOther + host) * kOther + disk];
        if (!one || label.bound < one->bound) one = &label;
      }
    for (BoundedLabel* label : best)
      if (label) label->stays = true;
  }

  const ChainCosts& costs_;
  const ChainBudgets budgets_;
  ChainBound bound_;
  std::vector<Least> least_;  // by layer: of the layers before
  double upper_ = kNoSeconds, dropped_ = kNoSeconds;
  std::vector<std::vector<Step>> steps_;  // by layer
  std::vector<double> bounds_;
};

}  // namespace

std::optional<FoundChoice> find_choice(const ChainCosts& costs, const ChainBudgets& budgets, Effort effort) {
  ChoiceSearch search(costs, budgets);
  std::optional<FoundChoice> best =
      search.run(effort == Effort::kRoughly ? kLeastLabels : kFirstLabels, kNoSeconds);
  double below = search.bound().whole();
  // False where the proof is not complete.
  const auto look_further = [&](std::size_t labels) {
    std::optional<FoundChoice> better =
        search.run(labels, best ? best->seconds * (1 - kChainSumError) : kNoSeconds);
    if (better) best = better;
    below = std::max(below, std::min(search.dropped(), best ? best->seconds : kNoSeconds));
    return best ? below >= best->seconds * (1 - kGap) : below == kNoSeconds;
  };
  const std::size_t most = std::max(kLeastLabels, kLabelsOfAll / costs.layers.size());
  const bool enough = effort == Effort::kRoughly && best && below >= best->seconds * (1 - kRoughGap);
  if (!enough && !look_further(most)) {
    search.bound().tighten();
    if (!look_further(most) && !best) look_further(kLastTry * most);
  }
  if (best) best->below = std::min(below, best->seconds) * (1 - kChainSumError);
  return best;
}

}  // namespace recollect
