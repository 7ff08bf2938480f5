#include "checkpointing/verify.h"

#include <map>

#include <fmt/format.h>

#include "engine/graph/graph_edit.h"
#include "engine/graph/op_builder.h"
#include "engine/runtime/enqueue.h"

namespace recollect {

namespace {

std::vector<OutputSpec> infer_hash(const OpView&) { return {{.shape = {1}, .dtype = DType::kI64}}; }

std::vector<OutputSpec> infer_verify(const OpView& v) {
  require(v.in(1).dtype == DType::kI64 && v.in(1).shape == Shape{1},
          v.op.name + ": the second input is no hash");
  return {};
}

Cost read_cost(const OpView& v) { return {.bytes = static_cast<double>(v.in(0).bytes())}; }

void hash(const KernelArgs& args, const Attributes&) {
  hash_bytes(args.in[0].data, args.in[0].bytes(), args.out[0].as<int64_t>(), args.stream);
}

// Hashes in its workspace and brings both hashes to where the host can compare them.
class Verify final : public Kernel {
 public:
  Verify(const OpView& view, int rank)
      : again_(view.in(0).name),
        original_(view.attributes().text("value")),
        layer_(view.attributes().integer("layer")),
        rank_(rank) {}

  std::size_t workspace_bytes() const override { return sizeof(int64_t); }

  void prepare(const KernelArgs& args) override { hashes_ = make_host_cell(sizeof(Hashes), args.stream); }

  void run(const KernelArgs& args) override {
    auto* now = reinterpret_cast<int64_t*>(args.workspace);
    hash_bytes(args.in[0].data, args.in[0].bytes(), now, args.stream);
    copy_bytes(&hashes().now, now, sizeof(int64_t), args.stream);
    copy_bytes(&hashes().then, args.in[1].data, sizeof(int64_t), args.stream);
    if (!args.stream) check(*args.state);
  }

  void check(const RunState& state) override {
    const auto [now, then] = hashes();
    if (now == then) return;
    throw Error(
        ExitCode::kIntegrity,
        fmt::format("activation_checkpointing.verify: {} is not the {} that forward made in layer {}: hash "
                    "{:016x} instead of {:016x}, on rank {}, step {}, micro-batch {}",
                    again_, original_, layer_, static_cast<uint64_t>(now), static_cast<uint64_t>(then), rank_,
                    state.step + 1, state.micro_batch),
        "a fault of this machine's memory, or a bug in recollect");
  }

 private:
  struct Hashes {
    int64_t now, then;
  };
  Hashes& hashes() const { return *static_cast<Hashes*>(hashes_.get()); }

  std::string again_, original_;
  int64_t layer_;
  int rank_;
  HostCell hashes_;
};

class Verifier {
 public:
  Verifier(Graph& graph, const OpRegistry& registry) : graph_(graph), ops_(graph, registry), edit_(graph) {
    for (OpId id : graph.op_ids())
      for (ValueId v : graph.op(id).inputs) {
        if (v == kNone) continue;
        if (graph.op(id).stream == StreamId::kCompute)
          first_use_.try_emplace(v, id);
        else if (!graph.op(id).outputs.empty())
          passed_on_.try_emplace(v, graph.op(id).outputs.front());
      }
  }

  void add(const Reproduction& reproduction) {
    const Value again = graph_.value(reproduction.again), original = graph_.value(reproduction.original);
    const bool on_compute = graph_.op(again.producer).stream == StreamId::kCompute;
    const OpId place = on_compute ? again.producer : first_use(reproduction.again);
    Op verify = ops_.make("verify/" + again.name, "checkpoint_verify",
                          {{"value", original.name}, {"layer", int64_t{original.layer}}},
                          {reproduction.again, hash_of(reproduction.original)});
    verify.layer = graph_.op(place).layer;
    verify.phase = Phase::kBackward;
    verify.role = Role::kVerify;
    on_compute ? edit_.insert_after(place, std::move(verify)) : edit_.insert_before(place, std::move(verify));
  }

  void commit() { edit_.commit(); }

 private:
  // On the compute stream; of a part that is only gathered from, that of the whole.
  OpId first_use(ValueId v) const {
    while (!first_use_.contains(v)) v = passed_on_.at(v);
    return first_use_.at(v);
  }

  ValueId hash_of(ValueId original) {
    if (const auto found = hashes_.find(original); found != hashes_.end()) return found->second;
    const Value& value = graph_.value(original);
    Op hash = ops_.make("hash/" + value.name, "checkpoint_hash", {}, {original});
    hash.layer = value.layer;
    const OpId id = edit_.insert_after(value.producer, std::move(hash));
    return hashes_[original] = edit_.op(id).outputs.front();
  }

  Graph& graph_;
  OpBuilder ops_;
  GraphEdit edit_;
  std::map<ValueId, OpId> first_use_;     // on the compute stream
  std::map<ValueId, ValueId> passed_on_;  // to another stream, which makes this of it
  std::map<ValueId, ValueId> hashes_;     // by original
};

}  // namespace

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
  verifier.commit();
}

}  // namespace recollect
