#include "launch/program/model_graph.h"

#include <utility>

#include "checkpointing/residency_ops.h"
#include "checkpointing/verify.h"
#include "comm/collective_ops.h"
#include "engine/graph/differentiate.h"
#include "engine/ops/ops.h"

namespace recollect {

namespace {

Gpt2Shape model_shape(const Config::Model& m) {
  return {.vocabulary = m.vocab_size,
          .positions = m.n_positions,
          .hidden = m.n_embd,
          .layers = m.n_layer,
          .heads = m.n_head,
          .inner = m.n_inner,
          .gelu = m.activation_function == ActivationFunction::kGelu ? "erf" : "tanh",
          .residual_dropout = m.resid_pdrop,
          .embedding_dropout = m.embd_pdrop,
          .attention_dropout = m.attn_pdrop,
          .norm_epsilon = m.layer_norm_epsilon,
          .init_std = m.initializer_range};
}

// Every chunk of logits reads and writes the head's whole gradient, which a GPU notices: larger ones there.
BatchShape batch_shape(const Config& config) {
  const bool gpu = config.device.backend == BackendKind::kCuda;
  return {.samples = config.training.micro_batch_size,
          .sequence_length = config.data.sequence_length,
          .most_logits = gpu ? 4096 : 1024};
}

std::shared_ptr<const OpRegistry> all_ops() {
  auto registry = std::make_shared<OpRegistry>();
  register_engine_ops(*registry);
  register_comm_ops(*registry);
  register_checkpointing_ops(*registry);
  register_verify_ops(*registry);
  return registry;
}

}  // namespace

ModelGraph build_model(const Config& config, const Mesh& mesh) {
  ModelGraph built{.registry = all_ops(), .model = {}, .graph = {}};
  const ParallelLayout layout{mesh.tensor_rank(), mesh.tensor_size(), config.parallelism.sequence_parallel};
  built.model = build_gpt2(built.graph, *built.registry, model_shape(config.model), batch_shape(config),
                           layout, compute_dtype(config.training.precision));
  return built;
}

ModelGraph differentiate_model(ModelGraph built) {
  std::vector<ValueId> targets;
  for (const Parameter& p : built.model.parameters) targets.push_back(p.value);
  const Gradients gradients =
      differentiate(built.graph, *built.registry, targets, {{built.model.loss, kNone}});
  for (Parameter& p : built.model.parameters) p.gradient = gradients.at(p.value);
  return built;
}

}  // namespace recollect
