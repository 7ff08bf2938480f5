// From a plan within a budget to a better one. The space is that of all plans that let nothing wait elsewhere: any set of
// saved activations, any replay. A move saves or recomputes what one op makes, in the first or the last few layers in which
// the plan has it otherwise, or does one of both for one op and the other for another; two moves may be made at once, so that
// what one frees the other spends. The meter (plan_meter.h) tells what each takes. Of a round's moves those are made that
// spare most for their bytes, until none spares anything, or the work is done that was allowed.
//
// So the layers' inputs are values like all others: a plan may begin its recomputations anywhere.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpointing/planner/candidates.h"

namespace recollect {

class PlanClimb {
 public:
  PlanClimb(const Surroundings& of, const BoundMaker& bounds);

  // The best plans that were met on the way and need no more than `device` bytes, by the meter; the last is the best. From a
  // plan that needs more the way leads down first. `work`: ops that may be looked at; what is left of them.
  std::vector<Candidate> from(const DraftPlan& plan, uint64_t device, int64_t& work) const;

  // `plan`, and what one op makes saved in all layers, or in none.
  std::vector<DraftPlan> kicked(const DraftPlan& plan) const;

  // What full is to the layers' inputs, each other op's values are to it here: saved in every layer, the first one's input
  // beside them, and the inputs of the others recomputed.
  std::vector<DraftPlan> other_cuts() const;

 private:
  // The first layers, the last ones, or such in the middle of others where it could be made, too.
  enum class Where { kFirst, kLast, kSpread };
  struct Move {
    int save = -1, drop = -1;  // units
    std::size_t layers = 0;    // that it changes
    Where where = Where::kLast;
  };
  struct Weighed {
    Move move;
    double seconds = 0;  // that it adds
    double bytes = 0;
    double worth = 0;  // 0: it makes nothing better
  };
  struct Way;
  // What one op makes.
  struct Unit {
    std::vector<std::vector<int>> layers;  // by layer: places among the saved activations
    uint64_t bytes = 0;                    // of a layer
    bool is_in(const DraftPlan& plan, std::size_t layer) const;
  };

  bool applies(const Move& move, const DraftPlan& plan, std::size_t layer) const;
  void add_moves(Move move, const DraftPlan& plan, std::vector<Move>& moves) const;
  std::vector<Move> single_moves(const DraftPlan& plan) const;
  std::vector<Move> exchanges(const DraftPlan& plan) const;
  void make(const Move& move, DraftPlan& plan) const;
  void make_in(std::size_t layer, const Move& move, DraftPlan& plan) const;
  std::size_t layer_between(const Move& move, const DraftPlan& plan) const;

  const Surroundings& of_;
  const BoundMaker& bounds_;
  std::vector<Unit> units_;
  std::vector<int> inputs_;  // places of layers' inputs but the first
};

}  // namespace recollect
