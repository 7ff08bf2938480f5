#include "checkpointing/checkpoint.h"

#include <iterator>

#include "checkpointing/choose.h"
#include "checkpointing/plan_file.h"
#include "checkpointing/policies.h"
#include "checkpointing/verify.h"

namespace recollect {

namespace {

// What is left open is chosen, or as little as can be.
ResidencySettings decide_moves(const Graph& graph, const OpRegistry& registry, const SavedActivations& saved,
                               const Plan& plan, const CheckpointingSettings& c,
                               const CheckpointingRules& rules) {
  const ResidencySettings asked{.tensor_size = rules.tensor_size,
                                .keep_last = c.keep_last,
                                .pooled = !c.contiguous_checkpointing,
                                .halves = rules.halves,
                                .prefetch = c.prefetch,
                                .storage = c.storage_dtype};
  return rules.least ? least_residency(asked)
                     : choose_residency(graph, registry, saved, plan, asked, rules.device);
}

// What a report says of these numbers.
std::vector<Choice> list_choices(const CheckpointingSettings& c, const Checkpointed& done, bool least) {
  if (done.residency.returned.empty()) return {};
  const char* chosen = least ? "device.memory_limit" : "simulated";
  return {{"keep_last", done.moves.keep_last, c.keep_last < 0 ? chosen : "given"},
          {"prefetch", done.moves.prefetch, c.prefetch < 0 ? chosen : "given"}};
}

std::vector<Reproduction> reproductions_of(const Recomputed& recomputed, const ResidencyReport& residency) {
  std::vector<Reproduction> all = recomputed.values;
  all.insert(all.end(), residency.returned.begin(), residency.returned.end());
  return all;
}

// False where the settings cannot stand.
bool take(Judgement judgement, Checkpointed& done) {
  std::move(judgement.remarks.begin(), judgement.remarks.end(), std::back_inserter(done.remarks));
  done.refusal = std::move(judgement.refusal);
  return !done.refusal;
}

// What waits elsewhere by the plan may be needed at once, and stays: the plan then says so.
void write_as_carried_out(const Graph& graph, Checkpointed& done) {
  for (const auto& [value, decision] : done.residency.otherwise)
    done.plan.values.at(graph.value(value).name) = decision;
}

// What was decided for another length stands for this one; nothing of it is judged again.
Checkpointed checkpoint_alike(Graph& graph, const OpRegistry& registry, const SavedActivations& saved,
                              bool verify, const Checkpointed& decided) {
  Checkpointed done{.refusal = {},
                    .plan = decided.plan,
                    .moves = decided.moves,
                    .residency = {},
                    .gathered = {},
                    .choices = decided.choices,
                    .remarks = {}};
  Recomputed recomputed = recompute(graph, saved, done.plan);
  done.refusal = std::move(recomputed.refusal);
  require(!done.refusal, "a plan stands for one length and not for another");
  done.residency = place_saved_activations(graph, registry, saved, done.plan, done.moves);
  done.gathered = gathered_again(graph);
  if (verify) verify_reproductions(graph, registry, reproductions_of(recomputed, done.residency));
  return done;
}

}  // namespace

Checkpointed checkpoint(Graph& graph, const OpRegistry& registry, const SavedActivations& saved,
                        const CheckpointingSettings& c, const CheckpointingRules& rules) {
  if (rules.decided) return checkpoint_alike(graph, registry, saved, c.verify, *rules.decided);
  Checkpointed done;
  int64_t divided_already = 0;
  if (rules.plan)
    done.plan = *rules.plan;
  else if (c.plan.empty())
    done.plan = make_plan(graph, saved, c);
  else
    done.plan = read_plan(c.plan, graph, saved, static_cast<int>(rules.tensor_size), &divided_already);
  if (!take(check_plan(c, graph, saved, done.plan, divided_already), done)) return done;
  if (rules.disk_through_host)
    for (auto& [value, decision] : done.plan.values) decision.host |= decision.disk;
  Recomputed recomputed = recompute(graph, saved, done.plan);
  done.refusal = std::move(recomputed.refusal);
  if (done.refusal) return done;
  done.moves = decide_moves(graph, registry, saved, done.plan, c, rules);
  done.residency = place_saved_activations(graph, registry, saved, done.plan, done.moves);
  done.gathered = gathered_again(graph);
  done.choices = list_choices(c, done, rules.least);
  const std::vector<Reproduction> reproductions = reproductions_of(recomputed, done.residency);
  if (!take(check_moves(c, graph, done.plan, done.moves, done.residency, reproductions.size()), done))
    return done;
  write_as_carried_out(graph, done);
  if (c.verify) verify_reproductions(graph, registry, reproductions);
  return done;
}

}  // namespace recollect
