#include "checkpointing/verify.h"

#include <algorithm>
#include <cstring>
#include <map>

#include <fmt/format.h>

namespace recollect {

namespace {

constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15u;  // odd, so that multiplying loses nothing

// One to one in each argument. High bits are folded down first, since a product only spreads upwards.
uint64_t mix(uint64_t hash, uint64_t word) {
  hash ^= word;
  hash ^= hash >> 32;
  return hash * kMultiplier;
}

std::vector<OutputSpec> infer_hash(const OpView&) { return {{.shape = {1}, .dtype = DType::kI64}}; }

std::vector<OutputSpec> infer_verify(const OpView& v) {
  require(v.in(1).dtype == DType::kI64 && v.in(1).shape == Shape{1},
          v.op.name + ": the second input is no hash");
  return {};
}

Cost read_cost(const OpView& v) { return {.bytes = static_cast<double>(v.in(0).bytes())}; }

uint64_t hash_of(const Tensor& tensor) { return hash_bytes(tensor.data, tensor.bytes()); }

void hash(const KernelArgs& args, const Attributes&) {
  *args.out[0].as<int64_t>() = static_cast<int64_t>(hash_of(args.in[0]));
}

class Verify final : public Kernel {
 public:
  Verify(const OpView& view, int rank)
      : again_(view.in(0).name),
        original_(view.attributes().text("value")),
        layer_(view.attributes().integer("layer")),
        rank_(rank) {}

  void run(const KernelArgs& args) override {
    const uint64_t now = hash_of(args.in[0]);
    const auto then = static_cast<uint64_t>(*args.in[1].as<int64_t>());
    if (now == then) return;
    throw Error(
        ExitCode::kIntegrity,
        fmt::format("activation_checkpointing.verify: {} is not the {} that forward made in layer {}: hash "
                    "{:016x} instead of {:016x}, on rank {}, step {}, micro-batch {}",
                    again_, original_, layer_, now, then, rank_, args.state->step + 1,
                    args.state->micro_batch),
        "a fault of this machine's memory, or a bug in recollect");
  }

 private:
  std::string again_, original_;
  int64_t layer_;
  int rank_;
};

class Verifier {
 public:
  Verifier(Graph& graph, const OpRegistry& registry) : graph_(graph), registry_(registry) {
    for (OpId id = 0; id < static_cast<OpId>(graph.ops().size()); ++id)
      if (graph.op(id).stream == StreamId::kCompute)
        for (ValueId v : graph.op(id).inputs)
          if (v != kNone) first_use_.try_emplace(v, id);
  }

  void add(const Reproduction& reproduction) {
    const Value again = graph_.value(reproduction.again);
    const ValueId expected = hash_of_original(reproduction.original);
    const Value& original = graph_.value(reproduction.original);
    const bool on_compute = graph_.op(again.producer).stream == StreamId::kCompute;
    const OpId place = on_compute ? again.producer : first_use_.at(reproduction.again);
    Op verify{.def = registry_.find("checkpoint_verify"),
              .name = "verify/" + again.name,
              .attributes = {{"value", original.name}, {"layer", int64_t{original.layer}}},
              .inputs = {reproduction.again, expected},
              .layer = graph_.op(place).layer,
              .phase = Phase::kBackward};
    (on_compute ? behind_ : before_)[place].push_back(std::move(verify));
  }

  void finish() {
    std::vector<Op> merged;
    for (OpId id = 0; id < static_cast<OpId>(graph_.ops().size()); ++id) {
      for (Op& op : before_[id]) merged.push_back(std::move(op));
      merged.push_back(graph_.op(id));
      for (Op& op : behind_[id]) merged.push_back(std::move(op));
    }
    graph_.set_ops(std::move(merged));
  }

 private:
  ValueId hash_of_original(ValueId v) {
    if (const auto found = hashes_.find(v); found != hashes_.end()) return found->second;
    const Value original = graph_.value(v);
    const ValueId made = graph_.add_value(
        {.name = "hash/" + original.name, .shape = {1}, .dtype = DType::kI64, .layer = original.layer});
    behind_[original.producer].push_back({.def = registry_.find("checkpoint_hash"),
                                          .name = "hash/" + original.name,
                                          .inputs = {v},
                                          .outputs = {made},
                                          .layer = original.layer});
    return hashes_[v] = made;
  }

  Graph& graph_;
  const OpRegistry& registry_;
  std::map<ValueId, OpId> first_use_;                // on the compute stream
  std::map<ValueId, ValueId> hashes_;                // by original
  std::map<OpId, std::vector<Op>> before_, behind_;  // ops to insert
};

}  // namespace

// Four chains, so that the multiplier's latency is hidden.
uint64_t hash_bytes(const void* data, std::size_t bytes) {
  const auto* at = static_cast<const std::byte*>(data);
  uint64_t chains[4] = {1, 2, 3, 4};
  std::size_t done = 0;
  for (; done + 32 <= bytes; done += 32) {
    uint64_t words[4];
    std::memcpy(words, at + done, 32);
    for (int i = 0; i < 4; ++i) chains[i] = mix(chains[i], words[i]);
  }
  uint64_t tail[4] = {};
  if (done < bytes) std::memcpy(tail, at + done, bytes - done);
  uint64_t hash = bytes;
  for (int i = 0; i < 4; ++i) hash = mix(hash, mix(chains[i], tail[i]));
  return hash;
}

void register_verify_ops(OpRegistry& registry) {
  registry.add({.name = "checkpoint_hash", .infer = infer_hash, .cost = read_cost});
  registry.add({.name = "checkpoint_verify", .infer = infer_verify, .cost = read_cost});
}

void register_verify_kernels(KernelTable& table, int world_rank) {
  table.add("checkpoint_hash", hash);
  table.add("checkpoint_verify", [world_rank](const OpView& view) -> std::unique_ptr<Kernel> {
    return std::make_unique<Verify>(view, world_rank);
  });
}

void verify_reproductions(Graph& graph, const OpRegistry& registry,
                          const std::vector<Reproduction>& reproductions) {
  Verifier verifier(graph, registry);
  for (const Reproduction& reproduction : reproductions) verifier.add(reproduction);
  verifier.finish();
}

}  // namespace recollect
