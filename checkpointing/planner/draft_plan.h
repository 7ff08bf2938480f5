// A plan without names: what the planner makes many of, compares, and throws away.
#pragma once

#include <algorithm>
#include <vector>

#include "checkpointing/plan.h"
#include "checkpointing/saved_activations.h"

namespace recollect {

struct DraftPlan {
  std::vector<Decision> values;  // in the order of SavedActivations::values()
  Replay replay = Replay::kSegment;
  bool lets_any_wait() const {
    return std::any_of(values.begin(), values.end(),
                       [](const Decision& d) { return d.save && (d.partition || d.host || d.disk); });
  }
  bool operator==(const DraftPlan&) const = default;
};

inline DraftPlan draft_of(const Plan& plan, const Graph& graph, const SavedActivations& saved) {
  DraftPlan draft{.values = {}, .replay = plan.replay};
  for (ValueId v : saved.values()) draft.values.push_back(plan.values.at(graph.value(v).name));
  return draft;
}

inline Plan plan_of(const DraftPlan& draft, const Graph& graph, const SavedActivations& saved) {
  Plan plan{.values = {}, .replay = draft.replay};
  for (std::size_t i = 0; i < draft.values.size(); ++i)
    plan.values[graph.value(saved.values()[i]).name] = draft.values[i];
  return plan;
}

}  // namespace recollect
