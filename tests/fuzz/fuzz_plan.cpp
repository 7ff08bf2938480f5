// A plan file, for the values of a model of three layers on two tensor ranks.
#include "checkpointing/plan_file.h"
#include "comm/collective_ops.h"
#include "engine/graph/differentiate.h"
#include "engine/ops/ops.h"
#include "parallel/gpt2.h"
#include "tests/fuzz/parse.h"

using namespace recollect;

namespace {

struct Model {
  OpRegistry registry;
  Graph graph;
  Model() {
    register_engine_ops(registry);
    register_comm_ops(registry);
    const Gpt2Shape shape{
        .vocabulary = 24, .positions = 6, .hidden = 12, .layers = 3, .heads = 2, .inner = 48};
    const LanguageModel made =
        build_gpt2(graph, registry, shape, {.sequence_length = 6}, {0, 2, false}, DType::kF32);
    std::vector<ValueId> targets;
    for (const Parameter& p : made.parameters) targets.push_back(p.value);
    differentiate(graph, registry, targets, {{made.loss, kNone}});
  }
};

}  // namespace

RECOLLECT_FUZZ(text) {
  static const Model model;
  static const SavedActivations saved(model.graph);
  fuzz::accepts([&] {
    const Plan plan = read_plan_text("plan.yaml", text, model.graph, saved, 2);
    fuzz::expect(read_plan_text("again.yaml", to_yaml(plan), model.graph, saved, 2) == plan,
                 "a plan that was written reads back as another");
  });
}
