#include "checkpointing/planner/chain_labels.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "checkpointing/planner/chain_groups.h"

namespace recollect {

namespace {

constexpr int kCellBits = 5;  // of each octave
constexpr std::size_t kLabelsPerCell = 4;

// Cells of device bytes: between the least and the most that labels of a layer may need, five octaves of as many each.
class ByteGrid {
 public:
  ByteGrid(double least, double most) : least_(least), scale_(most > least ? 1 / (most - least) : 0) {}

  int cell(uint64_t bytes) const {
    const double x = std::clamp((double(bytes) - least_) * scale_, 0.0, 1.0) + 1.0 / 32;
    return static_cast<int>(std::bit_cast<uint64_t>(x) >> (52 - kCellBits));
  }

 private:
  double least_, scale_;
};

// By layer.
std::vector<ByteGrid> grids_of(const ChainCosts& costs) {
  std::vector<ByteGrid> grids;
  double least = 0, most = 0;
  for (std::size_t i = costs.layers.size(); i-- > 0;) {
    double here_least = std::numeric_limits<double>::infinity(), here_most = 0, back = 0;
    if (i + 1 < costs.layers.size())
      for (const auto& behind : costs.layers[i + 1]) back = std::max(back, double(behind.back));
    for (const auto& o : costs.layers[i]) {
      here_least = std::min(here_least, std::max(double(o.alone), double(o.held) + least));
      const double behind = std::max({most, double(o.next), back + double(o.ahead)});
      here_most = std::max({here_most, double(o.alone), double(o.held) + behind});
    }
    least = here_least, most = here_most;
    grids.emplace_back(least, most);
  }
  std::reverse(grids.begin(), grids.end());
  return grids;
}

void drop_dominated(std::vector<ChainLabel>& labels) {
  std::sort(labels.begin(), labels.end(), [](const ChainLabel& x, const ChainLabel& y) {
    if (x.device != y.device) return x.device < y.device;
    if (x.seconds != y.seconds) return x.seconds < y.seconds;
    return x.parent != y.parent ? x.parent < y.parent : x.option < y.option;
  });
  std::size_t kept = 0;
  for (const ChainLabel& label : labels)
    if (kept == 0 || label.seconds < labels[kept - 1].seconds) labels[kept++] = label;
  labels.resize(kept);
}

// Of a cell's labels both ends stay, and others between them in even steps.
void drop_crowded(std::vector<ChainLabel>& labels, const ByteGrid& grid) {
  std::size_t kept = 0;
  for (std::size_t begin = 0, end; begin < labels.size(); begin = end) {
    const int cell = grid.cell(labels[begin].device);
    for (end = begin + 1; end < labels.size() && grid.cell(labels[end].device) == cell;) ++end;
    const std::size_t stay = std::min(kLabelsPerCell, end - begin);
    for (std::size_t n = 0; n < stay; ++n)
      labels[kept++] = labels[stay == 1 ? begin : begin + n * (end - begin - 1) / (stay - 1)];
  }
  labels.resize(kept);
}

}  // namespace

ChainLabels::ChainLabels(const ChainCosts& costs) : steps_(costs.layers.size()) {
  const std::vector<ByteGrid> grids = grids_of(costs);
  ChainGroups<ChainLabel> behind(costs);
  for (std::size_t i = costs.layers.size(); i-- > 0;) {
    ChainGroups<ChainLabel> here(costs, i);
    int parent = 0;
    for (const auto& group : behind.all)
      for (const ChainLabel& from : group.labels) {
        for (std::size_t k = 0; k < costs.layers[i].size(); ++k) {
          const ChainCosts::Option& o = costs.layers[i][k];
          const uint64_t device = std::max(o.alone, add_bytes(o.held, std::max(from.device, group.link(o))));
          here.of(k, device).push_back(
              {device, from.seconds + o.seconds + group.stall[k], parent, static_cast<int>(k)});
        }
        ++parent;
      }
    for (auto& group : here.all) {
      drop_dominated(group.labels);
      drop_crowded(group.labels, grids[i]);
      for (const ChainLabel& label : group.labels) steps_[i].push_back({label.parent, label.option});
    }
    behind = std::move(here);
  }
  for (const auto& group : behind.all)
    for (ChainLabel label : group.labels) {
      label.parent = static_cast<int>(whole_.size());  // its own step
      whole_.push_back(label);
    }
  drop_dominated(whole_);
}

std::vector<int> ChainLabels::options(const ChainLabel& whole) const {
  std::vector<int> options;
  int at = whole.parent;
  for (const auto& layer : steps_) {
    options.push_back(layer[at].option);
    at = layer[at].parent;
  }
  return options;
}

}  // namespace recollect
