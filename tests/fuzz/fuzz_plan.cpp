// A plan file, for the values of a model of three layers on two tensor ranks.
#include "checkpointing/plan_file.h"
#include "comm/collective_ops.h"
#include "engine/graph/differentiate.h"
#include "engine/ops/ops.h"
#include "parallel/models/families.h"
#include "tests/fuzz/parse.h"

using namespace recollect;

namespace {

struct Differentiated {
  OpRegistry registry;
  Graph graph;
  Differentiated() {
    register_engine_ops(registry);
    register_comm_ops(registry);
    const ModelFamily& family = model_families().front();
    ModelValues values = family.sketch(
        family, {.vocabulary = 24, .longest = 6, .width = 12, .layers = 3, .heads = 2, .dropout = 0.1});
    family.complete(values);
    const Model made =
        family.build(graph, registry, values, {}, {.sequence_length = 6}, {0, 2, false}, DType::kF32);
    std::vector<ValueId> targets;
    for (const Parameter& p : made.parameters) targets.push_back(p.value);
    differentiate(graph, registry, targets, {{made.loss, kNone}});
  }
};

}  // namespace

RECOLLECT_FUZZ(text) {
  static const Differentiated model;
  static const SavedActivations saved(model.graph);
  fuzz::accepts([&] {
    const Plan plan = read_plan_text("plan.yaml", text, model.graph, saved, 2);
    fuzz::expect(read_plan_text("again.yaml", to_yaml(plan), model.graph, saved, 2) == plan,
                 "a plan that was written reads back as another");
  });
}
