#include "launch/program/attention_memory.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "engine/ops/attention.h"
#include "engine/ops/cuda/planned_kernels.h"
#include "launch/program/units.h"

namespace recollect {

namespace {

constexpr int64_t kLargestShare = 16;  // at most one of so many parts of the limit

// Only Hopper has this kernel.
bool may_go_in_order(const Config& config) {
  const Config::Device& d = config.device;
  return d.backend == BackendKind::kCuda && d.memory_limit > 0 && (d.model == "h100" || d.model == "h200");
}

bool is_attention(const Op& op) {
  return op.def->name == "attention" || op.def->name == "attention_backward";
}

Graph in_order(Graph graph) {
  for (OpId id : graph.op_ids())
    if (is_attention(graph.op(id))) graph.op(id).attributes.set(kKeysInOrder, int64_t{1});
  return graph;
}

// The largest workspace of an attention backward. Its kernels need no vocabulary reduction.
uint64_t workspace_of_backward(const Config& config, const Graph& graph) {
  KernelTable kernels;
  kernels_of(config.device.backend, config.device.isa)(kernels, nullptr);
  uint64_t most = 0;
  for (OpId id : graph.op_ids())
    if (graph.op(id).def->name == "attention_backward")
      most = std::max<uint64_t>(most, kernels.make({graph, graph.op(id)})->workspace_bytes());
  return most;
}

// "capped scores and a window of 512 tokens"; "" if attention has neither.
std::string described(const Attributes& attributes) {
  std::string text = attributes.has(kScoreCap) ? "capped scores" : "";
  if (attributes.has(kWindow))
    text += fmt::format("{}a window of {} tokens", text.empty() ? "" : " and ", attributes.integer(kWindow));
  return text;
}

void note_attention_kernels(const Config& config, const Graph& graph, std::vector<Remark>& remarks) {
  if (config.device.backend != BackendKind::kCuda) return;
  std::map<std::pair<std::string, bool>, int64_t> layers;
  for (OpId id : graph.op_ids()) {
    const Op& op = graph.op(id);
    if (op.def->name != "attention" || op.phase != Phase::kForward || described(op.attributes).empty())
      continue;
    ++layers[{described(op.attributes), cuda::attention_is_fused({graph, op})}];
  }
  for (const auto& [what, count] : layers)
    remarks.push_back({"model", fmt::format("attention with {} in {} of {} layers: {}", what.first, count,
                                            config.model.facts().layers.value,
                                            what.second ? "cuDNN's kernel"
                                                        : "our own kernel, in fp32 without tensor cores")});
}

}  // namespace

void decide_attention_memory(const Config& config, const Checkpointed* decided, ModelGraph& built) {
  if (decided) {
    built.attention = decided->attention;
    if (built.attention.in_order) built.graph = in_order(std::move(built.graph));
    return;
  }
  if (!may_go_in_order(config)) return;
  const uint64_t most = static_cast<uint64_t>(config.device.memory_limit / kLargestShare);
  const uint64_t scores = workspace_of_backward(config, built.graph);
  if (scores <= most) return;
  Graph graph = in_order(built.graph);
  const uint64_t rows = workspace_of_backward(config, graph);
  if (rows >= scores) return;  // for example with our own kernel
  built.graph = std::move(graph);
  built.attention = {.in_order = true, .workspace_bytes = rows, .instead_of_bytes = scores};
}

void note_attention_memory(const Config& config, const ModelGraph& built, TrainingProgram& training) {
  note_attention_kernels(config, built.graph, training.remarks);
  training.checkpointed.attention = built.attention;
  if (!built.attention.in_order) return;
  training.remarks.push_back(
      {"device.memory_limit",
       fmt::format("attention's backward adds up in the order of keys, in {} of workspace in place of {}, "
                   "which are more "
                   "than a {}th of it: slower, and gradients are rounded otherwise than without the limit",
                   bytes_text(built.attention.workspace_bytes), bytes_text(built.attention.instead_of_bytes),
                   kLargestShare)});
}

}  // namespace recollect
