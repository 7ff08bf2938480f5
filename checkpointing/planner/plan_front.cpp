#include "checkpointing/planner/plan_front.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace recollect {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kSumError = 1e-9, kLeastSpared = 1e-6;  // of the seconds
constexpr int kMissesAtFirst = 12, kMissesLater = 4;     // in vain, one after the other: the next plan's turn
constexpr double kLeastHope = 1e-4, kMostHope = 1e-2;
constexpr std::size_t kMostPairs = 200, kPairsToExtend = 24;

}  // namespace

PlanFront::PlanFront(const Surroundings& of, const BoundMaker& bounds, int64_t work)
    : of_(of),
      bounds_(bounds),
      work_(work),
      layers_(of.saved.layer_inputs().size()),
      units_(make_units(of)) {}

PlanFront::Members::iterator PlanFront::within(double bytes) {
  const auto after = std::upper_bound(members_.begin(), members_.end(), bytes, [](double b, const Member& m) {
    return b < static_cast<double>(m.device);
  });
  return after == members_.begin() ? members_.end() : std::prev(after);
}

double PlanFront::seconds_within(double bytes) {
  const auto member = within(bytes);
  return member == members_.end() ? kNever : member->seconds;
}

bool PlanFront::is_member(const PlanBounds& takes) {
  const auto member = within(static_cast<double>(takes.device));
  return member != members_.end() && member->device == takes.device && member->seconds == takes.seconds;
}

std::optional<PlanBounds> PlanFront::meter(const DraftPlan& plan) {
  const std::optional<PlanBounds> takes = bounds_.metered(plan);
  work_ -= bounds_.metered_ops();
  return takes;
}

bool PlanFront::insert(const DraftPlan& plan, const PlanBounds& takes) {
  const double least = takes.seconds * (1 - kSumError);
  if (seconds_within(static_cast<double>(takes.device)) <= takes.seconds * (1 + kSumError)) return false;
  const auto at = std::lower_bound(members_.begin(), members_.end(), takes.device,
                                   [](const Member& m, uint64_t device) { return m.device < device; });
  const auto end = std::find_if(at, members_.end(), [&](const Member& m) { return m.seconds < least; });
  members_.insert(members_.erase(at, end), {takes.device, takes.seconds, plans_.size()});
  plans_.push_back(plan);
  return true;
}

bool PlanFront::meet(const DraftPlan& plan) {
  const std::optional<PlanBounds> takes = meter(plan);
  return takes && insert(plan, *takes);
}

// Bounds are never more than what the meter says: what is worse by them needs none.
void PlanFront::add(const std::vector<Candidate>& known) {
  for (const Candidate& c : known)
    if (!c.plan.lets_any_wait() && c.bounds.seconds < seconds_within(static_cast<double>(c.bounds.device)))
      meet(c.plan);
}

std::vector<Candidate> PlanFront::plans() const {
  std::vector<Candidate> all;
  for (const Member& m : members_)
    all.push_back({plans_[m.plan], {.seconds = m.seconds, .device = m.device}});
  return all;
}

bool PlanFront::applies(const Move& move, const DraftPlan& plan, std::size_t layer) const {
  const LayerUnit& unit = units_[move.unit];
  return !unit.layers[layer].empty() && unit.is_in(plan, layer) != move.save;
}

// In the middle of the longest run of layers in which the move can be made.
std::size_t PlanFront::layer_between(const Move& move, const DraftPlan& plan) const {
  std::size_t best = 0, most = 0, run = 0;
  for (std::size_t layer = 0; layer < layers_; ++layer) {
    run = applies(move, plan, layer) ? run + 1 : 0;
    if (run > most) most = run, best = layer - run / 2;
  }
  return best;
}

void PlanFront::make(const Move& move, DraftPlan& plan) const {
  const LayerUnit& unit = units_[move.unit];
  if (move.where == Where::kAt) return unit.set(move.at, move.save, plan);
  std::size_t left = move.layers;
  for (std::size_t n = 0; n < layers_ && left > 0; ++n) {
    const bool spread = move.where == Where::kSpread;
    const std::size_t layer = spread                       ? layer_between(move, plan)
                              : move.where == Where::kLast ? layers_ - 1 - n
                                                           : n;
    if (!applies(move, plan, layer)) continue;
    unit.set(layer, move.save, plan);
    --left;
  }
}

// Values of the last layers are held for the shortest time, values of the first ones for the longest. But where recomputation
// begins matters: there the layers around each change from saved to not saved are tried, too.
void PlanFront::add_moves(Move move, const DraftPlan& plan, std::vector<Move>& moves) const {
  std::vector<char> can(layers_, 0);
  for (std::size_t layer = 0; layer < layers_; ++layer) can[layer] = applies(move, plan, layer) ? 1 : 0;
  const auto count = static_cast<std::size_t>(std::count(can.begin(), can.end(), 1));
  const auto add = [&](std::size_t layers, Where where, std::size_t at = 0) {
    if (layers == 0 || layers > count) return;
    move.layers = layers, move.where = where, move.at = at;
    moves.push_back(move);
  };
  add(count, Where::kLast);
  if (!units_[move.unit].is_cut) {
    for (const std::size_t n : std::set<std::size_t>{1, count / 3})
      if (n < count) add(n, move.save ? Where::kLast : Where::kFirst);
    return;
  }
  for (const std::size_t n : std::set<std::size_t>{2, count / 3})
    if (n > 1 && n < count)
      for (const Where where : {Where::kFirst, Where::kLast}) add(n, where);
  for (const std::size_t n : std::set<std::size_t>{count / 4, count / 2})
    if (n > 1) add(n, Where::kSpread);
  for (std::size_t layer = 0; layer < layers_; ++layer) {
    bool is_near = layer < 2 || layer + 2 >= layers_;
    for (std::size_t other = layer - std::min<std::size_t>(2, layer); other < std::min(layers_, layer + 3);
         ++other)
      is_near |= can[other] != can[layer];
    if (can[layer] && is_near) add(1, Where::kAt, layer);
  }
}

// In layers that are not like those around them: of layers that are alike, the first and the last stand for the others.
void PlanFront::add_single_moves(const DraftPlan& plan, std::vector<Move>& moves) const {
  for (std::size_t layer = 0; layer < layers_; ++layer) {
    const auto differs = [&](const LayerUnit& unit) {
      const std::size_t before = layer - std::min<std::size_t>(1, layer);
      const std::size_t after = std::min(layer + 1, layers_ - 1);
      return unit.is_in(plan, before) != unit.is_in(plan, layer) ||
             unit.is_in(plan, after) != unit.is_in(plan, layer);
    };
    if (layer >= 2 && layer + 2 < layers_ && std::none_of(units_.begin(), units_.end(), differs)) continue;
    for (int unit = 0; unit < static_cast<int>(units_.size()); ++unit)
      for (const bool save : {true, false}) {
        const Move move{.unit = unit, .save = save, .layers = 1, .where = Where::kAt, .at = layer};
        if (applies(move, plan, layer)) moves.push_back(move);
      }
  }
}

// Of the moves that save, or recompute, the same, one for each that no other is better than in both.
static void drop_worse(auto& weighed) {
  const auto all = weighed;
  std::erase_if(weighed, [&](const auto& one) {
    const std::size_t place = &one - weighed.data();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto& other = all[i];
      if (other.move.unit != one.move.unit || other.move.save != one.move.save) continue;
      if (other.seconds <= one.seconds && other.bytes <= one.bytes &&
          (other.seconds < one.seconds || other.bytes < one.bytes || i < place))
        return true;
    }
    return false;
  });
}

// As seconds_within, of members that do not change: the number of the first member that is larger is known by ranges of bytes.
class PlanFront::Seconds {
 public:
  explicit Seconds(const Members& members)
      : members_(members), least_(static_cast<double>(members.front().device)), first_(kRanges) {
    const double span = static_cast<double>(members.back().device) - least_;
    ranges_of_byte_ = (kRanges - 1) / std::max(1.0, span);
    std::size_t number = 0;
    for (std::size_t range = 0; range < kRanges; ++range) {
      while (number < members.size() && range_of(static_cast<double>(members[number].device)) < range)
        ++number;
      first_[range] = number;
    }
  }

  // `bytes`: no less than the least member's.
  double operator()(double bytes) const {
    std::size_t number = first_[range_of(bytes)];
    while (number < members_.size() && static_cast<double>(members_[number].device) <= bytes) ++number;
    return members_[number - 1].seconds;
  }

 private:
  static constexpr std::size_t kRanges = 1024;
  std::size_t range_of(double bytes) const {
    return std::min(kRanges - 1, static_cast<std::size_t>((bytes - least_) * ranges_of_byte_));
  }

  const Members& members_;
  double least_, ranges_of_byte_ = 0;
  std::vector<std::size_t> first_;
};

// Two of which one saves and the other does not, and a third one beside the best of these; `alone`: single moves, too. What
// promises most comes first.
std::vector<PlanFront::Together> PlanFront::promising(const std::vector<Weighed>& weighed,
                                                      const PlanBounds& from, bool alone) {
  const auto least = static_cast<double>(members_.front().device);
  const Seconds seconds_within(members_);
  const auto gain_of = [&](double seconds, double bytes) {
    const double all = static_cast<double>(from.device) + bytes;
    return (bytes >= 0 && seconds >= 0) || all < least ? -kNever
                                                       : seconds_within(all) - from.seconds - seconds;
  };
  std::vector<Together> found, pairs;
  const auto add = [&](const Together& together) {
    if (together.gain > kLeastSpared * from.seconds) found.push_back(together);
  };
  if (alone)
    for (const Weighed& one : weighed) add({gain_of(one.seconds, one.bytes), {&one}});
  for (std::size_t i = 0; i < weighed.size(); ++i)
    for (std::size_t j = i + 1; j < weighed.size(); ++j) {
      const Weighed &one = weighed[i], &other = weighed[j];
      if (one.move.save == other.move.save) continue;
      const double gain = gain_of(one.seconds + other.seconds, one.bytes + other.bytes);
      if (gain > -kNever) pairs.push_back({gain, {&one, &other}});
    }
  const auto by_gain = [](const Together& a, const Together& b) { return a.gain > b.gain; };
  const auto best = std::min<std::ptrdiff_t>(kMostPairs, std::ssize(pairs));
  std::partial_sort(pairs.begin(), pairs.begin() + best, pairs.end(), by_gain);
  pairs.resize(best);
  for (std::size_t i = 0; i < std::min(kPairsToExtend, pairs.size()); ++i) {
    const Weighed &one = *pairs[i].moves[0], &other = *pairs[i].moves[1];
    const double seconds = one.seconds + other.seconds, bytes = one.bytes + other.bytes;
    for (const Weighed& third : weighed)
      if (third.move.unit != one.move.unit && third.move.unit != other.move.unit)
        add({gain_of(seconds + third.seconds, bytes + third.bytes), {&one, &other, &third}});
  }
  for (const Together& pair : pairs) add(pair);
  std::stable_sort(found.begin(), found.end(), by_gain);
  if (found.size() > kMostPairs) found.resize(kMostPairs);
  return found;
}

// What is met around one plan, and around those that this leads to.
struct PlanFront::Around {
  PlanFront& front;
  std::vector<Met> met = {};
  std::vector<Weighed> weighed = {};
  std::size_t tried = 0;
  double spared = 0;  // seconds, by all that was met

  std::optional<PlanBounds> try_out(const DraftPlan& plan) {
    const std::optional<PlanBounds> takes = front.meter(plan);
    if (!takes) return takes;
    const double before = front.seconds_within(static_cast<double>(takes->device));
    if (!front.insert(plan, *takes)) return takes;
    met.push_back({*takes, plan});
    spared += std::min(before - takes->seconds, kMostHope * takes->seconds);
    return takes;
  }

  // `each`: what one op makes in one layer, too.
  void weigh(const Met& from, bool each) {
    std::vector<Move> moves;
    for (int unit = 0; unit < static_cast<int>(front.units_.size()); ++unit)
      for (const bool save : {true, false}) front.add_moves({.unit = unit, .save = save}, from.plan, moves);
    if (each) front.add_single_moves(from.plan, moves);
    for (const Move& move : moves) {
      if (front.work_ <= 0) return;
      DraftPlan plan = from.plan;
      front.make(move, plan);
      if (const std::optional<PlanBounds> b = try_out(plan))
        weighed.push_back({move, b->seconds - from.takes.seconds,
                           static_cast<double>(b->device) - static_cast<double>(from.takes.device)});
    }
    for (const Replay replay : {Replay::kSegment, Replay::kNothing, Replay::kBinomial, Replay::kBisect}) {
      DraftPlan plan = from.plan;
      plan.replay = replay;
      if (replay != from.plan.replay) try_out(plan);
    }
    drop_worse(weighed);
  }

  // Begins recomputation a layer earlier or later, or at another value. Where little is saved this changes most, and no sum
  // of two single moves predicts it.
  void shift_cuts(const Met& from) {
    for (const LayerUnit& unit : front.units_)
      for (std::size_t layer = 0; unit.is_cut && layer < front.layers_; ++layer) {
        const bool first = layer == 0 || !unit.is_in(from.plan, layer - 1);
        const bool last = layer + 1 == front.layers_ || !unit.is_in(from.plan, layer + 1);
        if (!unit.is_in(from.plan, layer) || unit.layers[layer].empty() || !(first || last)) continue;
        const auto instead = [&](const LayerUnit& other, std::size_t at) {
          if (front.work_ <= 0 || other.layers[at].empty() || other.is_in(from.plan, at)) return;
          DraftPlan plan = from.plan;
          unit.set(layer, false, plan);
          other.set(at, true, plan);
          try_out(plan);
        };
        if (first && layer > 0) instead(unit, layer - 1);
        if (last && layer + 1 < front.layers_) instead(unit, layer + 1);
        for (const LayerUnit& other : front.units_)
          if (other.is_cut && &other != &unit) instead(other, layer);
      }
  }

  void go_on(const Met& from, bool is_first) {
    int missed = 0;
    for (const Together& together : front.promising(weighed, from.takes, !is_first)) {
      if (front.work_ <= 0 || tried >= kMostPairs || missed > (is_first ? kMissesAtFirst : kMissesLater))
        return;
      DraftPlan plan = from.plan;
      for (const Weighed* one : together.moves)
        if (one) front.make(one->move, plan);
      if (plan == from.plan) continue;
      const std::size_t before = met.size();
      ++tried;
      try_out(plan);
      missed = met.size() > before ? 0 : missed + 1;
    }
  }
};

double PlanFront::look_around(const Met& from, bool each) {
  Around around{*this};
  around.weigh(from, each);
  around.shift_cuts(from);
  around.go_on(from, true);
  for (std::size_t i = 0; i < around.met.size() && around.tried < kMostPairs; ++i)
    if (is_member(around.met[i].takes)) around.go_on(Met(around.met[i]), false);
  return around.spared / from.takes.seconds;
}

// The middle one of those between two that are done, where these have spared most and the most are left; or the end.
PlanFront::Members::iterator PlanFront::next() {
  auto best = members_.end();
  double most = 0;
  for (auto begin = members_.begin(); begin != members_.end();) {
    const auto above = spared_.upper_bound(begin->device);
    const auto is_other = [&](const Member& m) {
      return m.is_done || (above != spared_.end() && m.device >= above->first);
    };
    if (begin->is_done) {
      ++begin;
      continue;
    }
    const auto end = std::find_if(begin, members_.end(), is_other);
    const double hope = kLeastHope + (above == spared_.end() ? 1 : above->second) +
                        (above == spared_.begin() ? 1 : std::prev(above)->second);
    if (const double score = hope * static_cast<double>(end - begin); score > most)
      most = score, best = begin + (end - begin) / 2;
    begin = end;
  }
  return best;
}

// Around what needs the search most, and, with the work that is left, around all others.
void PlanFront::search() {
  for (const bool others : {false, true}) {
    if (others)
      for (Member& member : members_) member.is_done = spared_.contains(member.device);
    for (auto member = next(); member != members_.end() && work_ > 0; member = next()) {
      member->is_done = true;
      const Met from{{.seconds = member->seconds, .device = member->device}, plans_[member->plan]};
      spared_[from.takes.device] = look_around(from, false);
    }
  }
}

void PlanFront::fill(uint64_t device) {
  constexpr int kMostTimes = 4;
  constexpr int64_t kWorkOfFilling = 300'000;
  work_ = kWorkOfFilling;
  for (int time = 0; time < kMostTimes; ++time) {
    const auto member = within(static_cast<double>(device));
    if (member == members_.end()) return;
    const Met from{{.seconds = member->seconds, .device = member->device}, plans_[member->plan]};
    look_around(from, true);
    if (seconds_within(static_cast<double>(device)) >= from.takes.seconds) return;
  }
}

std::vector<Candidate> plans_of_front(const Surroundings& of, const BoundMaker& bounds,
                                      const std::vector<Candidate>& known, uint64_t device) {
  constexpr int64_t kWork = 3'600'000, kWorkOfMany = 1'700'000, kLeastWork = 500'000, kWorkOfCandidate = 3;
  constexpr std::size_t kManyInputs = 32;
  if (!bounds.metered(save_everything(of))) return {};
  const auto ops = static_cast<int64_t>(of.graph.ops().size());
  const int64_t work = of.saved.layer_inputs().size() > kManyInputs ? kWorkOfMany : kWork;
  PlanFront front(of, bounds, std::max(kLeastWork, work - kWorkOfCandidate * ops * std::ssize(known)));
  front.add(known);
  front.add_layers();
  front.search();
  if (device > 0) front.fill(device);
  return front.plans();
}

}  // namespace recollect
