#include "checkpointing/planner/eviction.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace recollect {

namespace {

enum class Whereabouts : uint8_t { kUnmade, kThere, kEvicted, kBanished };

// Classes of evicted tensors, each with the sum of its costs.
class CostClasses {
 public:
  int add(uint64_t cost) {
    parents_.push_back(static_cast<int>(parents_.size()));
    costs_.push_back(cost);
    return parents_.back();
  }
  int find(int node) {
    while (parents_[node] != node) node = parents_[node] = parents_[parents_[node]];
    return node;
  }
  void join(int a, int b) {
    a = find(a), b = find(b);
    if (a == b) return;
    parents_[b] = a;
    costs_[a] += costs_[b];
  }
  void take_out(int node, uint64_t cost) { costs_[find(node)] -= cost; }
  uint64_t cost(int root) const { return costs_[root]; }

 private:
  std::vector<int> parents_;
  std::vector<uint64_t> costs_;
};

class Evictor {
 public:
  Evictor(const EvictionTrace& trace, uint64_t budget, EvictionHeuristic heuristic, int most_runs)
      : trace_(trace), budget_(budget), heuristic_(heuristic), most_runs_(most_runs) {
    const std::size_t tensors = trace.tensors.size();
    producer_.assign(tensors, -1);
    children_.resize(tensors);
    state_.assign(tensors, Whereabouts::kUnmade);
    pinned_.resize(tensors);
    released_.assign(tensors, 0);
    locks_.assign(tensors, 0);
    accessed_.assign(tensors, 0);
    class_.assign(tensors, -1);
    around_.assign(tensors, 0);
    outdated_.assign(tensors, 1);
    visited_.assign(tensors, 0);
    places_.assign(tensors, 0);
    for (std::size_t op = 0; op < trace.ops.size(); ++op)
      for (int out : trace.ops[op].outputs) {
        producer_[out] = static_cast<int>(op);
        for (int in : trace.ops[op].inputs) children_[in].push_back(out);
      }
    for (std::size_t t = 0; t < tensors; ++t) {
      pinned_[t] = trace.tensors[t].pinned || producer_[t] < 0;
      if (producer_[t] >= 0) continue;
      state_[t] = Whereabouts::kThere;
      used_ += trace.tensors[t].bytes;
    }
    done_.peak = used_;
  }

  EvictionRun run() {
    if (used_ > budget_) done_.end = EvictionEnd::kTooLittle;
    for (std::size_t op = 0; op < trace_.ops.size() && done_.end == EvictionEnd::kDone; ++op) {
      done_.op = static_cast<int>(op);
      if (!execute(static_cast<int>(op), true)) break;
      for (int t : trace_.ops[op].releases) release(t);
    }
    return std::move(done_);
  }

 private:
  bool is_there(int t) const { return state_[t] == Whereabouts::kThere; }
  bool is_held(int t) const { return trace_.tensors[t].held && !released_[t]; }
  bool is_evicted(int t) const { return state_[t] == Whereabouts::kEvicted; }
  uint64_t bytes(int t) const { return trace_.tensors[t].bytes; }
  uint64_t cost(int t) const { return producer_[t] < 0 ? 0 : trace_.ops[producer_[t]].cost; }
  const std::vector<int>& parents(int t) const {
    static const std::vector<int> none;
    return producer_[t] < 0 ? none : trace_.ops[producer_[t]].inputs;
  }

  const std::vector<int>& children(int t) const { return children_[t]; }

  // False where the run has come to its end.
  bool execute(int id, bool first) {
    const EvictionOp& op = trace_.ops[id];
    std::vector<int> lacking;
    for (int in : op.inputs)
      if (is_there(in)) {
        ++locks_[in];
      } else {
        lacking.push_back(in);
      }
    for (int in : lacking) {
      if (!is_there(in) && !execute(producer_[in], false)) return false;
      ++locks_[in];
    }
    uint64_t made = 0, taken_over = 0;
    for (int out : op.outputs) made += bytes(out);
    if (first)
      for (const auto& [out, in] : op.in_place)
        if (goes_at_once(in)) taken_over += bytes(in);
    const uint64_t needed = made - std::min(made, taken_over);
    if (!make_room(needed)) return false;
    if (runs_++ == most_runs_) return stop(EvictionEnd::kTooOften);
    done_.peak = std::max(done_.peak, used_ + needed);
    done_.cost += op.cost;
    done_.rematerializations += !first;
    note(first ? EvictionStep::kRun : EvictionStep::kRematerialize, id);
    used_ += made;
    for (int out : op.outputs) arrive(out);
    for (int in : op.inputs) {
      --locks_[in];
      accessed_[in] = done_.cost;
      if (pinned_[in] && released_[in]) banish(in);
    }
    if (first)
      for (const auto& [out, in] : op.in_place)
        if (goes_at_once(in)) release(in);
    return true;
  }

  void arrive(int t) {
    accessed_[t] = done_.cost;
    if (is_there(t)) {  // made a second time beside another output
      used_ -= bytes(t);
      return;
    }
    const bool was_evicted = is_evicted(t);
    state_[t] = Whereabouts::kThere;
    if (!pinned_[t]) enter_pool(t);
    outdated_[t] = 1;
    if (!was_evicted) return;
    if (heuristic_ == EvictionHeuristic::kDtr) outdate_around(t);
    if (heuristic_ == EvictionHeuristic::kDtrEq) {
      classes_.take_out(class_[t], cost(t));
      class_[t] = -1;
    }
  }

  void leave(int t) {
    state_[t] = Whereabouts::kEvicted;
    used_ -= bytes(t);
    leave_pool(t);
    if (heuristic_ == EvictionHeuristic::kDtr) outdate_around(t);
    if (heuristic_ != EvictionHeuristic::kDtrEq) return;
    class_[t] = classes_.add(cost(t));
    for (const auto* beside : {&parents(t), &children(t)})
      for (int n : *beside)
        if (is_evicted(n)) classes_.join(class_[n], class_[t]);
  }

  bool make_room(uint64_t needed) {
    while (used_ + needed > budget_) {
      int worst = -1;
      double least = 0;
      for (int t : pool_) {
        if (locks_[t] > 0 || bytes(t) == 0 || is_held(t)) continue;
        if (worst >= 0 && least_score(t) > least) continue;
        const double h = score(t);
        if (worst >= 0 && (h > least || (h == least && t > worst))) continue;
        worst = t;
        least = h;
      }
      if (worst < 0) return stop(EvictionEnd::kTooLittle);
      note(EvictionStep::kEvict, worst);
      ++done_.evictions;
      leave(worst);
    }
    return true;
  }

  // The order of the pool says nothing: of equal scores the first tensor's is the least.
  void enter_pool(int t) {
    places_[t] = pool_.size();
    pool_.push_back(t);
  }
  void leave_pool(int t) {
    places_[pool_.back()] = places_[t];
    pool_[places_[t]] = pool_.back();
    pool_.pop_back();
  }

  double score(int t) {
    uint64_t around = 0;
    if (heuristic_ == EvictionHeuristic::kDtr) around = cost_around(t);
    if (heuristic_ == EvictionHeuristic::kDtrEq) around = cost_of_classes(t);
    return score_of(t, cost(t) + around);
  }
  // score() is this at the least, and as much where nothing around is evicted.
  double least_score(int t) const { return score_of(t, cost(t)); }
  double score_of(int t, uint64_t again) const {
    const uint64_t stale = done_.cost - accessed_[t];
    if (stale == 0) return std::numeric_limits<double>::infinity();
    if (heuristic_ == EvictionHeuristic::kLru) return 1 / static_cast<double>(stale);
    return static_cast<double>(again) / (static_cast<double>(bytes(t)) * static_cast<double>(stale));
  }

  uint64_t cost_of_classes(int t) {
    uint64_t sum = 0;
    touched_.clear();
    for (const auto* beside : {&parents(t), &children(t)})
      for (int n : *beside) {
        if (!is_evicted(n)) continue;
        const int root = classes_.find(class_[n]);
        if (std::find(touched_.begin(), touched_.end(), root) != touched_.end()) continue;
        touched_.push_back(root);
        sum += classes_.cost(root);
      }
    return sum;
  }

  // The costs of e*(t), remembered until a tensor of it comes or goes.
  uint64_t cost_around(int t) {
    if (!outdated_[t]) return around_[t];
    uint64_t sum = 0;
    for (const bool up : {true, false})
      walk(t, up, [&](int n) {
        if (is_evicted(n)) sum += cost(n);
      });
    outdated_[t] = 0;
    return around_[t] = sum;
  }

  void outdate_around(int t) {
    outdated_[t] = 1;
    for (const bool up : {true, false}) walk(t, up, [&](int n) { outdated_[n] = 1; });
  }

  // Every ancestor, or descendant, that t reaches through evicted ones, with the first that is not; each once.
  template <typename Visit>
  void walk(int t, bool up, const Visit& visit) {
    ++walk_;
    std::vector<int> open = {t};
    while (!open.empty()) {
      const int from = open.back();
      open.pop_back();
      for (int n : up ? parents(from) : children_[from]) {
        if (visited_[n] == walk_) continue;
        visited_[n] = walk_;
        visit(n);
        if (is_evicted(n)) open.push_back(n);
      }
    }
  }

  void release(int t) {
    released_[t] = 1;
    if (!is_there(t)) return;
    if (pinned_[t]) return banish(t);
    note(EvictionStep::kRelease, t);
    leave(t);
  }

  // When it is released, whatever is evicted until then.
  bool goes_at_once(int t) const {
    return !pinned_[t] ||
           std::all_of(children_[t].begin(), children_[t].end(), [&](int n) { return pinned_[n]; });
  }

  void banish(int t) {
    if (!is_there(t) || locks_[t] > 0) return;
    for (int child : children_[t])
      if (is_evicted(child)) return;
    note(EvictionStep::kRelease, t);
    state_[t] = Whereabouts::kBanished;
    used_ -= bytes(t);
    for (int child : children_[t]) {
      if (!is_there(child) || pinned_[child]) continue;
      pinned_[child] = 1;
      leave_pool(child);
    }
  }

  bool stop(EvictionEnd end) {
    done_.end = end;
    return false;
  }
  void note(EvictionStep::Kind kind, int which) { done_.steps.push_back({kind, which}); }

  const EvictionTrace& trace_;
  const uint64_t budget_;
  const EvictionHeuristic heuristic_;
  const int most_runs_;
  int runs_ = 0;
  uint64_t used_ = 0;  // bytes; the clock is done_.cost
  EvictionRun done_;
  std::vector<int> pool_;            // what is there and not pinned
  std::vector<std::size_t> places_;  // in the pool
  // By tensor.
  std::vector<int> producer_, locks_, class_, visited_;
  std::vector<std::vector<int>> children_;
  std::vector<Whereabouts> state_;
  std::vector<char> pinned_, released_, outdated_;
  std::vector<uint64_t> accessed_, around_;
  CostClasses classes_;
  std::vector<int> touched_;
  int walk_ = 0;
};

}  // namespace

EvictionRun run_with_eviction(const EvictionTrace& trace, uint64_t budget, EvictionHeuristic heuristic,
                              int most_runs) {
  return Evictor(trace, budget, heuristic, most_runs).run();
}

}  // namespace recollect
