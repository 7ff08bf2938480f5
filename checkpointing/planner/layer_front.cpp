#include "checkpointing/planner/layer_front.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <set>

#include "checkpointing/policies.h"

namespace recollect {

namespace {

// An octave of bytes is divided into two to the power of these ranges.
constexpr int kBits = 8, kBitsOpen = 4, kBitsForgetful = 6, kBitsOpenForgetful = 1;
constexpr std::size_t kManyLayers = 32;  // beyond these, and twice as many, ranges are wider
constexpr uint64_t kSlack = 256;  // so small a part of a layer's bytes does not matter where layers are many
constexpr std::size_t kMostWanted = 32;
constexpr double kLeastRange = 1.0 / 4096;
constexpr std::size_t kMostReadings = 700;

using Reading = PlanMeter::LayerReading;

// Whether `a` is no worse than `b` in every reading, but for so many bytes.
bool covers(const Reading& a, const Reading& b, uint64_t slack) {
  return a.again <= b.again && a.pass <= b.pass && a.held <= b.held + slack && a.passed <= b.passed + slack &&
         a.alone <= b.alone + slack && a.late <= b.late + slack && a.on_the_way <= b.on_the_way + slack &&
         a.passes <= b.passes && a.reads <= b.reads;
}

// 0 for few layers, 2 for most.
int coarseness(std::size_t layers, std::size_t many) {
  return (layers > many ? 1 : 0) + (layers > 2 * many ? 1 : 0);
}

}  // namespace

LayerFront::LayerFront(const Surroundings& of, const BoundMaker& bounds, const std::vector<LayerUnit>& units)
    : of_(of), meter_(*bounds.meter()) {
  const auto layers = static_cast<int>(of.saved.layer_inputs().size());
  always_.resize(layers);
  const DraftPlan full = make_draft(of.graph, of.saved, {.mode = CheckpointingMode::kFull});
  const std::vector<ValueId>& inputs = of.saved.layer_inputs();
  const std::set<ValueId> of_layers(inputs.begin(), inputs.end());
  head_ = bounds.behind_layers();
  for (std::size_t i = 0; i < full.values.size(); ++i) {
    const ValueId v = of.saved.values()[i];
    if (!full.values[i].save || (of_layers.contains(v) && v != inputs[0])) continue;
    head_ += bounds.held_bytes(v, {});
    const int layer = of.graph.value(v).layer;
    for (int at = 0; at < layers; ++at)
      if (layer < 0 || at == layer) always_[at].push_back(v);
  }
  for (int layer = 0; layer < layers; ++layer)
    likeness_.push_back(layer == 0 || layer + 1 == layers ? layer : meter_.likeness(layer));
  // Units that others are made of are last in `units`, and come first here.
  for (auto unit = units.rbegin(); unit != units.rend(); ++unit) {
    if (unit->layers[layers / 2].empty()) continue;
    const auto has = [&](const LayerUnit* part) {
      const auto& whole = unit->layers[layers / 2];
      return std::all_of(part->layers[layers / 2].begin(), part->layers[layers / 2].end(), [&](int place) {
        return std::find(whole.begin(), whole.end(), place) != whole.end();
      });
    };
    Units made_of = 0;
    for (std::size_t part = 0; part < parts_.size(); ++part)
      if (!parts_[part]->layers[layers / 2].empty() && has(parts_[part])) made_of |= Units{1} << part;
    if (made_of == 0 && parts_.size() < 63) {
      made_of = Units{1} << parts_.size();
      parts_.push_back(&*unit);
    }
    if (made_of != 0) choices_.push_back(made_of);
  }
  for (const LayerUnit* part : parts_) slack_ += part->bytes;
  slack_ = slack_ * static_cast<uint64_t>(coarseness(always_.size(), kManyLayers / 2)) / kSlack;
}

std::vector<ValueId> LayerFront::values_of(Units units, int layer) const {
  std::vector<ValueId> values = always_[layer];
  for (std::size_t part = 0; part < parts_.size(); ++part)
    if (units >> part & 1)
      for (int place : parts_[part]->layers[layer]) values.push_back(of_.saved.values()[place]);
  return values;
}

const std::vector<LayerFront::Option>& LayerFront::options_of(int layer, bool wanted, bool forgets) {
  const auto [found, is_new] = options_.try_emplace({likeness_[layer], wanted, forgets});
  if (is_new) found->second = find_options(layer, wanted, forgets);
  return found->second;
}

// A local search: begins with nothing and all saved, and changes one choice at a time in options that no other covers.
std::vector<LayerFront::Option> LayerFront::find_options(int layer, bool wanted, bool forgets) {
  std::vector<Option> best;
  std::set<Units> seen;
  std::vector<Units> next;
  const uint64_t slack = forgets ? 0 : slack_;
  const auto meet = [&](Units units) {
    if (seen.size() >= kMostReadings || !seen.insert(units).second) return;
    Option one{units, meter_.read_layer(values_of(units, layer), layer, wanted, forgets)};
    if (!forgets) {  // every value is recomputed once
      one.takes.again += one.takes.pass;
      one.takes.pass = 0, one.takes.on_the_way = 0;
    }
    work_ += meter_.ops();
    if (std::any_of(best.begin(), best.end(),
                    [&](const Option& o) { return covers(o.takes, one.takes, slack); }))
      return;
    std::erase_if(best, [&](const Option& o) { return covers(one.takes, o.takes, slack); });
    best.push_back(one);
    next.push_back(units);
  };
  meet(0);
  meet((Units{1} << parts_.size()) - 1);
  for (std::size_t i = 0; i < next.size(); ++i) {
    const Units from = next[i];
    if (std::none_of(best.begin(), best.end(), [&](const Option& o) { return o.units == from; })) continue;
    for (const Units choice : choices_) meet((from & choice) == choice ? from & ~choice : from | choice);
  }
  return best;
}

// Divides bytes into ranges, the same number in each octave.
struct Ranges {
  int bits;
  double scale;
  Ranges(int bits_of_octave, uint64_t most) : bits(bits_of_octave), scale(1 / static_cast<double>(most)) {}
  std::size_t at(uint64_t bytes) const {
    const double x = std::clamp(static_cast<double>(bytes) * scale, kLeastRange, 1.0);
    return (std::bit_cast<uint64_t>(x) - std::bit_cast<uint64_t>(kLeastRange)) >> (52 - bits);
  }
  std::size_t count() const { return at(static_cast<uint64_t>(1 / scale) + 1) + 1; }
};

// The fastest label of each range of `other` and of `open`, for each number of layers that need the layer before.
class LayerFront::Cells {
 public:
  Cells(Ranges other, Ranges open, std::size_t most_wanted)
      : other_(other),
        open_(open),
        columns_(open.count()),
        wanted_(most_wanted + 1),
        places_(wanted_ * other.count() * columns_, -1) {}

  void add(std::size_t wants, const Label& label) {
    const std::size_t at = (other_.at(label.other) * columns_ + open_.at(label.open)) * wanted_ + wants;
    if (int& place = places_[at]; place < 0) {
      place = static_cast<int>(labels_.size());
      labels_.emplace_back(at, label);
    } else if (Label& there = labels_[place].second; std::tuple(label.seconds, label.other, label.open) <
                                                     std::tuple(there.seconds, there.other, there.open)) {
      there = label;
    }
  }

  // Returns the labels that are faster than all labels with lower ranges and no more wants. Clears the cells.
  Labels take() {
    std::sort(labels_.begin(), labels_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<double> least(columns_ * wanted_, std::numeric_limits<double>::infinity());
    Labels kept(wanted_);
    for (const auto& [at, label] : labels_) {
      places_[at] = -1;
      const std::size_t wants = at % wanted_, column = at / wanted_ % columns_;
      if (least[column * wanted_ + wants] <= label.seconds) continue;
      for (std::size_t c = column; c < columns_ && least[c * wanted_ + wants] > label.seconds; ++c)
        for (std::size_t w = wants; w < wanted_ && least[c * wanted_ + w] > label.seconds; ++w)
          least[c * wanted_ + w] = label.seconds;
      kept[wants].push_back(label);
    }
    labels_.clear();
    return kept;
  }

 private:
  Ranges other_, open_;
  std::size_t columns_, wanted_;
  std::vector<int> places_;
  std::vector<std::pair<std::size_t, Label>> labels_;
};

// `extend` adds a layer with an option to a label, and returns how many layers now need the layer before.
template <typename Extend>
std::vector<DraftPlan> LayerFront::solve(bool forgets, int most_wanted, uint64_t most, const Extend& extend) {
  const auto layers = static_cast<int>(always_.size());
  std::vector<Labels> steps(layers + 1);
  steps[layers].push_back({{.other = head_}});
  const bool is_deep = always_.size() > kManyLayers / 2;
  const int fewer = coarseness(always_.size(), kManyLayers);
  Cells cells(
      Ranges(forgets ? kBitsForgetful + (is_deep ? 0 : 1) - fewer : kBits - fewer - (fewer + 1) / 2, most),
      Ranges(forgets ? kBitsOpenForgetful + (is_deep ? 0 : 2) : kBitsOpen - fewer - (fewer + 1) / 2, most),
      static_cast<std::size_t>(most_wanted));
  for (int layer = layers; layer-- > 0;) {
    const Labels& behind = steps[layer + 1];
    for (int wanted = 0; wanted < std::ssize(behind); ++wanted) {
      if (behind[wanted].empty()) continue;
      const std::vector<Option>& options = options_of(layer, wanted > 0, forgets);
      for (int parent = 0; parent < std::ssize(behind[wanted]); ++parent)
        for (int number = 0; number < std::ssize(options); ++number) {
          Label label{.parent = parent, .option = number, .wanted = wanted};
          const int wants = extend(behind[wanted][parent], options[number].takes, layer == 0, label);
          if (wants <= most_wanted && label.bytes() <= most)
            cells.add(static_cast<std::size_t>(wants), label);
        }
    }
    steps[layer] = cells.take();
  }
  std::vector<DraftPlan> all;
  const DraftPlan bare = without_inputs(of_);
  for (const Label& whole : steps[0][0]) {
    DraftPlan plan = bare;
    if (forgets) plan.replay = Replay::kNothing;
    const Label* at = &whole;
    for (int layer = 0; layer < layers; ++layer) {
      const Units units = options_of(layer, at->wanted > 0, forgets)[at->option].units;
      for (std::size_t part = 0; part < parts_.size(); ++part)
        if (units >> part & 1) parts_[part]->set(layer, true, plan);
      at = &steps[layer + 1][at->wanted][at->parent];
    }
    all.push_back(std::move(plan));
  }
  return all;
}

std::vector<DraftPlan> LayerFront::plans(uint64_t most) {
  return solve(false, 1, most, [](const Label& from, const Reading& o, bool is_first, Label& label) {
    label.seconds = from.seconds + o.again;
    label.other = from.other + o.held;
    const uint64_t behind = label.wanted > 0 ? from.open + o.held + o.passed : 0;
    if (!is_first && o.passes) {
      label.open = std::max({behind, o.alone, o.late});
      return 1;
    }
    label.other = std::max({label.other, behind, o.alone});
    if (!is_first && o.reads) {
      label.open = o.late;
      return 1;
    }
    label.other = std::max(label.other, o.late);
    return 0;
  });
}

std::vector<DraftPlan> LayerFront::forgetful(uint64_t most) {
  const int most_wanted = static_cast<int>(std::min(always_.size(), kMostWanted));
  return solve(true, most_wanted, most, [](const Label& from, const Reading& o, bool is_first, Label& label) {
    const bool passes = label.wanted > 0 && o.passes;
    label.seconds = from.seconds + label.wanted * o.pass + o.again;
    label.other = std::max({from.other + o.held, o.alone, o.late});
    if (label.wanted > 0) label.other = std::max(label.other, from.open + o.on_the_way);
    label.open = (passes ? from.open : 0) + (passes || o.reads ? o.held : 0);
    return is_first ? 0 : (passes ? label.wanted : 0) + (o.reads ? 1 : 0);
  });
}

}  // namespace recollect
