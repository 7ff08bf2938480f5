// With what the search for the front begins (plan_front.h).
#include <algorithm>
#include <cmath>

#include "checkpointing/planner/layer_front.h"
#include "checkpointing/planner/plan_front.h"
#include "checkpointing/policies.h"

namespace recollect {

namespace {

constexpr double kLeastDropped = 1e-4;  // of the seconds
constexpr std::size_t kFewLayers = 16, kManyMetered = 32;

}  // namespace

// None is better than another in both.
std::vector<PlanFront::Dropped> PlanFront::droppable(const DraftPlan& plan) {
  constexpr std::size_t kMostUnits = 6;
  std::vector<const LayerUnit*> parts;
  DraftPlan rest = plan;  // without those of parts
  for (auto unit = units_.rbegin(); unit != units_.rend() && parts.size() < kMostUnits; ++unit)
    if (unit->is_outside && unit->is_in(rest, 0)) {
      parts.push_back(&*unit);
      unit->set(0, false, rest);
    }
  const std::optional<PlanBounds> with = meter(plan);
  std::vector<Dropped> all;
  for (std::size_t bits = 1; bits < std::size_t{1} << parts.size(); ++bits) {
    Dropped dropped;
    rest = plan;
    for (std::size_t i = 0; i < parts.size(); ++i)
      if (bits >> i & 1) {
        dropped.units.push_back(parts[i]);
        dropped.bytes += parts[i]->bytes;
        parts[i]->set(0, false, rest);
      }
    const std::optional<PlanBounds> without = meter(rest);
    if (!with || !without) return {};
    dropped.seconds = without->seconds - with->seconds;
    const auto covers = [](const Dropped& a, const Dropped& b) {
      return a.bytes >= b.bytes && a.seconds <= b.seconds;
    };
    if (std::any_of(all.begin(), all.end(), [&](const Dropped& d) { return covers(d, dropped); })) continue;
    std::erase_if(all, [&](const Dropped& d) { return covers(dropped, d); });
    all.push_back(std::move(dropped));
  }
  return all;
}

// Drops values from members of the front: first those that save most bytes for a second, then the larger ones.
void PlanFront::drop_outside(std::vector<Dropped> all) {
  std::sort(all.begin(), all.end(), [](const Dropped& a, const Dropped& b) {
    return a.seconds * static_cast<double>(b.bytes) < b.seconds * static_cast<double>(a.bytes);
  });
  const Members from = members_;
  uint64_t most = 0;
  for (const Dropped& one : all) {
    if (one.bytes <= most && layers_ > kFewLayers) continue;
    most = one.bytes;
    for (const Member& member : from) {
      const auto bytes = static_cast<double>(member.device) - static_cast<double>(one.bytes);
      if (seconds_within(bytes) - member.seconds - one.seconds < kLeastDropped * member.seconds) continue;
      DraftPlan plan = plans_[member.plan];
      for (const LayerUnit* unit : one.units) unit->set(0, false, plan);
      meet(plan);
    }
  }
}

// Plans that save one value in some layers, and begin recomputation there: evenly; in the last ones; in the first ones; in all but
// every second one of the first; and where fewer values wait towards the end, so that backward has room for more layers at a time
// the nearer it comes to the first.
void PlanFront::add_cuts() {
  constexpr int64_t kShare = 8;  // of the work
  const int64_t left = work_ - work_ / kShare;
  double whole = 0;  // of a layer
  for (const LayerUnit& unit : units_) whole += static_cast<double>(unit.bytes);
  const auto add = [&](const LayerUnit& unit, const auto& is_cut) {
    DraftPlan plan = without_inputs(of_);
    for (std::size_t layer = 0; layer < layers_; ++layer)
      if (is_cut(layer)) unit.set(layer, true, plan);
    for (const Replay replay : {Replay::kSegment, Replay::kNothing, Replay::kBinomial}) {
      plan.replay = replay;
      if (work_ > left) meet(plan);
    }
  };
  for (std::size_t n = 1; n <= layers_; n += (n + 1) / 2)
    for (const LayerUnit& unit : units_) {
      if (!unit.is_cut) continue;
      add(unit,
          [&](std::size_t layer) { return layer == 0 || layer * n / layers_ != (layer - 1) * n / layers_; });
      add(unit, [&](std::size_t layer) { return layer + n >= layers_; });
      add(unit, [&](std::size_t layer) { return layer + n < layers_; });
      add(unit, [&](std::size_t layer) { return layer % 2 == 0 || layer > n; });
      const double bytes = static_cast<double>(unit.bytes), room = whole + static_cast<double>(n) * bytes;
      double held = 0;
      std::size_t next = 0;
      add(unit, [&](std::size_t layer) {
        if (layer < next) return false;
        next = layer + static_cast<std::size_t>(std::max(1.0, std::floor((room - held) / whole)));
        held += bytes;
        return true;
      });
    }
}

void PlanFront::add_layers() {
  if (layers_ < 3) return;
  const DraftPlan plan_of_full = make_draft(of_.graph, of_.saved, {.mode = CheckpointingMode::kFull});
  const std::optional<PlanBounds> full = bounds_.metered(plan_of_full);
  if (!full) return;
  LayerFront layers(of_, bounds_, units_);
  const uint64_t all = bounds_.metered(save_everything(of_))->device;
  const uint64_t little = full->device + full->device / 10;
  for (DraftPlan plan : layers.forgetful(little))
    for (const Replay replay : {Replay::kNothing, Replay::kBisect, Replay::kBinomial}) {
      plan.replay = replay;
      meet(plan);
      if (layers_ > kManyMetered) break;
    }
  for (const DraftPlan& plan : layers.plans(all)) meet(plan);
  add_cuts();
  drop_outside(droppable(plan_of_full));
  for (Member& member : members_) member.is_done = member.device > little;
  work_ -= layers.work();
}

}  // namespace recollect
