// The plans of which none is better than another in both seconds and bytes, of all that were met: any set of saved
// activations, any replay, nothing waiting elsewhere. The meter (plan_meter.h) tells what each takes.
//
// The search knows no budget, so that the answer in a larger budget is one of more plans. It looks at the neighbours of plans
// of the front, until it has seen those of all or the work is done that was allowed (Pareto local search: Paquete, Chiarandini
// and Stützle, 2004). A move saves or recomputes what one op makes, in one layer or in several. What single moves change of
// one plan tells which two of them together may lead on from it, and which from the plans that these lead to. So few are
// metered in vain.
//
// The layers' inputs are values like all others: a plan may begin its recomputations anywhere.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "checkpointing/planner/candidates.h"
#include "checkpointing/planner/layer_units.h"

namespace recollect {

class PlanFront {
 public:
  // `work`: ops that may be looked at.
  PlanFront(const Surroundings& of, const BoundMaker& bounds, int64_t work);

  void add(const std::vector<Candidate>& known);
  // Plans by dynamic programming over the layers (layer_front.h), and those of add_cuts; all with and without values outside of
  // layers. Neighbours of plans with more bytes than mode full are tried last.
  void add_layers();
  void search();
  // The neighbours of the fastest plan within so many bytes, until none is faster: also each that saves or
  // recomputes what one op makes in one layer.
  void fill(uint64_t device);

  // The fastest last.
  std::vector<Candidate> plans() const;

 private:
  enum class Where { kFirst, kLast, kSpread, kAt };
  struct Move {
    int unit = -1;
    bool save = false;
    std::size_t layers = 0;  // that it changes
    Where where = Where::kLast;
    std::size_t at = 0;  // the layer, for kAt
  };
  // What a move, or two, change of the plan from which they were tried.
  struct Weighed {
    Move move;
    double seconds = 0, bytes = 0;
  };
  struct Together {
    double gain = 0;                           // seconds that these moves may spare
    std::array<const Weighed*, 3> moves = {};  // or fewer: the others are null
  };
  // Of the front. Its plan is that of the same number in plans_.
  struct Member {
    uint64_t device = 0;
    double seconds = 0;
    std::size_t plan = 0;
    bool is_done = false;  // its neighbours were looked at
  };
  struct Met {
    PlanBounds takes;
    DraftPlan plan;
  };
  using Members = std::vector<Member>;

  Members::iterator within(double bytes);  // the fastest with so many bytes, or the end
  double seconds_within(double bytes);
  bool is_member(const PlanBounds& takes);
  std::optional<PlanBounds> meter(const DraftPlan& plan);
  // Whether it is a member now.
  bool insert(const DraftPlan& plan, const PlanBounds& takes);
  bool meet(const DraftPlan& plan);

  bool applies(const Move& move, const DraftPlan& plan, std::size_t layer) const;
  void make(const Move& move, DraftPlan& plan) const;
  std::size_t layer_between(const Move& move, const DraftPlan& plan) const;
  void add_moves(Move move, const DraftPlan& plan, std::vector<Move>& moves) const;
  void add_single_moves(const DraftPlan& plan, std::vector<Move>& moves) const;
  // Values outside of layers that may be recomputed together.
  struct Dropped {
    std::vector<const LayerUnit*> units = {};
    double seconds = 0;  // more
    uint64_t bytes = 0;  // fewer
  };
  std::vector<Dropped> droppable(const DraftPlan& plan);
  void drop_outside(std::vector<Dropped> all);
  void add_cuts();

  struct Around;
  class Seconds;
  // Tries moves around a plan and returns the share of its seconds that they save. `each`: all single moves too.
  double look_around(const Met& from, bool each);
  Members::iterator next();
  std::vector<Together> promising(const std::vector<Weighed>& weighed, const PlanBounds& from, bool alone);

  const Surroundings& of_;
  const BoundMaker& bounds_;
  int64_t work_;
  std::size_t layers_;
  std::vector<LayerUnit> units_;
  std::vector<DraftPlan> plans_;       // that were members once
  std::map<uint64_t, double> spared_;  // by bytes of plans that were done
  Members members_;                    // more bytes, and fewer seconds, than the one before
};

// None where the meter does not know what plans take. `known`: from which the search begins. `device`: bytes, beside what
// persists, that are to be filled.
std::vector<Candidate> plans_of_front(const Surroundings& of, const BoundMaker& bounds,
                                      const std::vector<Candidate>& known, uint64_t device = 0);

}  // namespace recollect
