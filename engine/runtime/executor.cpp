#include "engine/runtime/executor.h"

#include <algorithm>
#include <cmath>

#include "engine/runtime/lifetime.h"

namespace recollect {

namespace {

template <typename T>
bool all_finite(const Tensor& tensor) {
  const T* data = tensor.as<T>();
  return std::all_of(data, data + tensor.elements(),
                     [](T x) { return std::isfinite(static_cast<double>(x)); });
}

// Returns, for each op before `end`, whether it makes a persistent value or a value that such an op needs.
// One pass from the last op to the first finds them, since producers come before their readers.
std::vector<char> ops_that_lead_on(const Graph& graph, OpId end) {
  std::vector<char> leads(end, 0), wanted(graph.values().size(), 0);
  for (OpId id = end - 1; id >= 0; --id) {
    const Op& op = graph.op(id);
    leads[id] = std::any_of(op.outputs.begin(), op.outputs.end(), [&](ValueId v) {
      return v != kNone && (graph.value(v).persistent || wanted[v]);
    });
    for (ValueId v : op.inputs)
      if (leads[id] && v != kNone) wanted[v] = 1;
  }
  return leads;
}

}  // namespace

Executor::Executor(Program program, ProgramMemory& memory, ExecutorProbe* probe)
    : program_(std::move(program)), memory_(memory), executed_(program_.graph.ops().size(), 0) {
  const bool first = memory_.admit(program_);
  bind();
  begins_ = std::any_of(program_.graph.ops().begin(), program_.graph.ops().end(),
                        [](const Op& op) { return op.when == RunWhen::kOnce; });
  leads_on_ = ops_that_lead_on(program_.graph, forward_end_);
  StreamOps ops{.graph = program_.graph,
                .schedule = program_.schedule,
                .run = [this](OpId id, const KernelArgs& args) { run_op(id, args); },
                .before = {},
                .after = {}};
  if (probe) {
    ops.before = [this, probe](OpId id) { probe->before_op(*this, id); };
    ops.after = [this, probe](OpId id) { probe->after_op(*this, id); };
  }
  streams_ = memory_.device().make_streams(std::move(ops));
  for (OpId id : program_.graph.op_ids()) prepare(id, first);
}

void Executor::bind() {
  const Graph& graph = program_.graph;
  forward_end_ = optimizer_begin_ = static_cast<OpId>(graph.ops().size());
  for (OpId id : graph.op_ids()) {
    const Op& op = graph.op(id);
    const bool optimizer = op.phase == Phase::kOptimizer;
    if (op.phase != Phase::kForward) forward_end_ = std::min(forward_end_, id);
    if (optimizer) optimizer_begin_ = std::min(optimizer_begin_, id);
    require(optimizer || optimizer_begin_ > id, "the optimizer phase comes last");
    require(op.phase != Phase::kForward || forward_end_ > id, "the forward phase comes first");
    BoundOp bound;
    for (ValueId v : op.inputs) bound.in.push_back(v == kNone ? Tensor{} : tensor(v));
    for (ValueId v : op.outputs) bound.out.push_back(v == kNone ? Tensor{} : tensor(v));
    if (program_.workspaces[id])
      bound.workspace = memory_.arena(MemorySpace::kDevice).at(program_.layout.workspace_offsets[id]);
    bound_.push_back(std::move(bound));
  }
}

// A kernel that autotunes overwrites its operands, possibly after prepare() has returned, on its stream; so
// the stream is synchronised. The contents of shared operands, which other programs left there, are saved
// before and restored afterwards.
void Executor::prepare(OpId id, bool first_program) {
  const Op& op = program_.graph.op(id);
  const bool overwrites = program_.kernels[id]->overwrites_to_prepare(), keeps = overwrites && !first_program;
  std::vector<std::pair<Tensor, std::vector<std::byte>>> kept;
  for (const auto* list : {&op.inputs, &op.outputs})
    for (ValueId v : *list) {
      if (!keeps || v == kNone || !is_shared(program_.graph.value(v))) continue;
      kept.emplace_back(tensor(v), program_.graph.value(v).bytes());
      memory_.read(kept.back().second.data(), kept.back().first);
    }
  program_.kernels[id]->prepare({.in = bound_[id].in,
                                 .out = bound_[id].out,
                                 .workspace = bound_[id].workspace,
                                 .stream = streams_->native(op.stream)});
  if (overwrites) streams_->finish(op.stream);
  for (const auto& [value, bytes] : kept) memory_.write(value, bytes.data());
}

Tensor Executor::tensor(ValueId value) const {
  const Value& v = program_.graph.value(value);
  const uint64_t offset = program_.layout.value_offsets[value];
  // A value on the disk has no address in memory: its `data` is its offset in the file.
  if (v.space == MemorySpace::kDisk) return {reinterpret_cast<void*>(offset), v.shape, v.dtype};
  return {memory_.arena(v.space).at(offset), v.shape, v.dtype};
}

void Executor::run_micro_batch(const RunState& state) { run(0, optimizer_begin_, state); }

void Executor::run_forward(const RunState& state) {
  require(!state.training, "forward alone is for evaluations");
  run(0, forward_end_, state);
}

bool Executor::outlives_forward(ValueId value) const {
  OpId last = forward_end_ - 1;
  while (last >= 0 && !leads_on_[last]) --last;
  if (last < 0) return false;
  const Op& op = program_.graph.op(last);
  const ValueId lies_in = piece_of(program_.graph, value).first;
  return op.stream == StreamId::kCompute && std::any_of(op.inputs.begin(), op.inputs.end(), [&](ValueId v) {
           return v != kNone && piece_of(program_.graph, v).first == lies_in;
         });
}

void Executor::run_optimizer(const RunState& state) {
  run(optimizer_begin_, static_cast<OpId>(program_.graph.ops().size()), state);
}

void Executor::run(OpId begin, OpId end, RunState state) {
  state.begins = begin == 0 && begins_ && memory_.take_news();
  streams_->run(begin, end, state);
  for (OpId id = begin; id < end; ++id) program_.kernels[id]->check(state);
}

void Executor::run_op(OpId id, KernelArgs args) {
  const Op& op = program_.graph.op(id);
  if (!args.state->runs(op.when)) return;
  if (!args.state->training && !leads_on_[id]) return;
  const BoundOp& bound = bound_[id];
  args.in = bound.in;
  args.out = bound.out;
  args.workspace = bound.workspace;
  const RunState shifted = state_of(op, *args.state);
  if (op.first_sample > 0) args.state = &shifted;
  args.accumulate = op.accumulate == Accumulate::kAlways ||
                    (op.accumulate == Accumulate::kAfterFirstMicroBatch && !args.state->first_micro_batch());
  program_.kernels[id]->run(args);
  executed_[id] = 1;
}

uint64_t Executor::offset_of(ValueId value, const Tensor& operand) const {
  const MemorySpace space = program_.graph.value(value).space;
  return space == MemorySpace::kDisk ? reinterpret_cast<uint64_t>(operand.data)
                                     : memory_.arena(space).offset_of(operand.data);
}

// Builds the ledger of the ops that have run. The offsets of blocks come from the kernels' operands
// (measured) or from the layout (predicted); everything else is the same.
MemoryLedger Executor::executed_ledger(const NameSet& held, Places places) const {
  const Graph& graph = program_.graph;
  const bool operands = places == Places::kOperands;
  const std::vector<Span> spans = op_spans(graph, program_.schedule);
  std::vector<Block> blocks;
  std::vector<int> block_of(graph.values().size(), -1);
  const auto touch = [&](ValueId v, uint64_t offset, const Span& span) {
    const Value& value = graph.value(v);
    const Piece piece = piece_of(graph, v);
    int& index = block_of[piece.first];
    if (index < 0) {
      index = static_cast<int>(blocks.size());
      blocks.push_back({.bytes = piece.bytes,
                        .category = value.category,
                        .begin = span.begin,
                        .end = span.end,
                        .offset = offset - piece.offset,
                        .space = value.space,
                        .pooled = value.pooled,
                        .of_state_file = value.space == MemorySpace::kDisk && persists(value)});
    }
    blocks[index].begin = std::min(blocks[index].begin, span.begin);
    blocks[index].end = std::max(blocks[index].end, span.end);
  };
  const auto touch_all = [&](const std::vector<ValueId>& values, const std::vector<Tensor>& bound,
                             const Span& span) {
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] != kNone)
        touch(values[i], operands ? offset_of(values[i], bound[i]) : program_.layout.value_offsets[values[i]],
              span);
  };
  for (OpId id : graph.op_ids()) {
    if (!executed_[id]) continue;
    const Op& op = graph.op(id);
    touch_all(op.inputs, bound_[id].in, spans[id]);
    touch_all(op.outputs, bound_[id].out, spans[id]);
    if (bound_[id].workspace)
      blocks.push_back({.bytes = aligned(program_.kernels[id]->workspace_bytes()),
                        .category = Category::kWorkspace,
                        .begin = spans[id].begin,
                        .end = spans[id].end,
                        .offset = operands
                                      ? memory_.arena(MemorySpace::kDevice).offset_of(bound_[id].workspace)
                                      : program_.layout.workspace_offsets[id]});
  }
  if (!held.empty())
    for (ValueId v : graph.value_ids())
      if (block_of[piece_of(graph, v).first] < 0 && is_shared(graph.value(v)) &&
          held.contains(graph.value(v).name))
        touch(v, program_.layout.value_offsets[v], {});
  return ledger_of(graph, std::move(blocks), program_.layout.transient_begin);
}

void Executor::add_held(NameSet& held) const {
  for (OpId id : program_.graph.op_ids()) {
    if (!executed_[id]) continue;
    for (const auto* list : {&program_.graph.op(id).inputs, &program_.graph.op(id).outputs})
      for (ValueId v : *list)
        if (v != kNone && is_shared(program_.graph.value(v))) held.insert(program_.graph.value(v).name);
  }
}

bool Executor::has_run() const {
  return std::find(executed_.begin(), executed_.end(), char{1}) != executed_.end();
}

bool Executor::finite(ValueId value) const {
  Tensor copy = tensor(value);
  std::vector<std::byte> bytes(copy.bytes());
  read(bytes.data(), value);
  copy.data = bytes.data();
  switch (copy.dtype) {
    case DType::kF64:
      return all_finite<double>(copy);
    case DType::kF32:
      return all_finite<float>(copy);
    case DType::kBF16:
      return all_finite<bf16>(copy);
    case DType::kF16:
      return all_finite<f16>(copy);
    default:
      return true;
  }
}

std::string Executor::find_non_finite(const RunState& state) {
  const Graph& graph = program_.graph;
  std::string first;
  const auto look = [&](ValueId v) {
    if (first.empty() && v != kNone && graph.value(v).space != MemorySpace::kDisk && !finite(v))
      first = graph.value(v).name;
  };
  for (OpId id = 0; id < optimizer_begin_; ++id) {
    for (ValueId v : graph.op(id).inputs)
      if (v != kNone && graph.value(v).category != Category::kGradient) look(v);
    streams_->run(id, id + 1,
                  state);  // continues after a find: the other ranks take part in the same collectives
    for (ValueId v : graph.op(id).outputs) look(v);
  }
  return first;
}

}  // namespace recollect
