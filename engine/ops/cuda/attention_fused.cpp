// The ops attention and attention_backward on cuDNN, cut as attention_chunks.h says. Masks are not
// those of the other backends: cuDNN draws its own, from seeds that depend on the same things; so with
// dropout on, bits agree between runs of one layout, and between forward, recomputation and backward, and
// nothing else.
#include "engine/ops/cuda/attention_fused.h"

#include <map>

#include "engine/ops/cuda/attention_padding.h"
#include "engine/ops/cuda/attention_workspace.h"
#include "engine/ops/cuda/cudnn.h"
#include "engine/ops/cuda/cudnn_seeds.h"
#include "engine/ops/cuda/libraries.h"

namespace recollect::cuda {

namespace {

std::byte* aligned_up(std::byte* at) {
  return reinterpret_cast<std::byte*>(rounded_up(reinterpret_cast<std::intptr_t>(at), kGraphAlignment));
}

class FusedAttention : public Kernel {
 public:
  FusedAttention(const OpView& view, const AttentionInputs& at, Libraries* libraries)
      : libraries_(libraries),
        dtype_(view.in(at.q).dtype),
        inputs_(at),
        cut_(view, at),
        site_{view.attributes().integer("layer"), view.attributes().integer("site"), cut_.shape.first_head} {}

  std::size_t workspace_bytes() const override { return cut_.bytes(); }

 protected:
  AttentionProblem problem(const AttentionChunk& chunk, double dropout, bool backward) const {
    return {.backward = backward,
            .dtype = dtype_,
            .samples = chunk.samples,
            .heads = chunk.heads,
            .kv_heads = chunk.heads / cut_.group,
            .length = cut_.shape.length,
            .head_size = cut_.shape.head_size,
            .q_row = cut_.shape.q_row,
            .kv_row = cut_.shape.kv_row,
            .o_row = cut_.shape.out_row,
            .causal = cut_.shape.causal,
            .window = cut_.shape.window < cut_.shape.length ? cut_.shape.window : 0,
            .scale = cut_.scale,
            .padded = cut_.padded,
            .dropout = dropout,
            .in_order = backward && cut_.in_order};
  }

  // The graph of a chunk, planned; what it asks for must fit what was predicted.
  std::shared_ptr<AttentionGraph> planned(const AttentionProblem& problem) {
    require(libraries_, "attention that is only planned is prepared");
    std::shared_ptr<AttentionGraph> graph = libraries_->cudnn().attention(problem);
    if (graph->workspace_bytes() > cut_.graph_bytes())
      throw Error(ExitCode::kDeviceMemory,
                  "cuDNN asks for " + std::to_string(graph->workspace_bytes()) +
                      " bytes of workspace for attention" + (problem.backward ? "'s backward" : "") +
                      " where " + std::to_string(cut_.graph_bytes()) + " were predicted (" +
                      libraries_->cudnn().path() + ")",
                  "take a version of cuDNN that this recollect was tried with, 9.19 to 9.26: "
                  "RECOLLECT_NVIDIA_LIBRARIES=FOLDER");
    return graph;
  }

  // Of one chunk, in the whole values' memory.
  AttentionOperands operands(const AttentionChunk& c, const AttentionRows& rows, const Tensor& o,
                             const Tensor& lse) const {
    const int64_t unit = cut_.shape.unit(c.first_sample, c.first_head), kv_unit = cut_.shape.kv_unit(unit);
    AttentionOperands to;
    to.q = element(rows.q, cut_.shape.q_at(unit));
    to.k = element(rows.kv, cut_.shape.k_at(kv_unit));
    to.v = element(rows.kv, cut_.shape.v_at(kv_unit));
    to.o = element(o, cut_.shape.out_at(unit));
    to.lse = element(lse, unit * cut_.shape.length);
    if (rows.lengths) to.lengths = const_cast<int32_t*>(rows.lengths + c.first_sample);
    return to;
  }

  static std::byte* element(const Tensor& tensor, int64_t index) {
    return static_cast<std::byte*>(tensor.data) + index * static_cast<int64_t>(size_of(tensor.dtype));
  }

  // Where the seeds of masks are, written; null where no mask is drawn.
  int64_t* seeds(const KernelArgs& args, bool drawn) const {
    if (!drawn) return nullptr;
    auto* out = reinterpret_cast<int64_t*>(aligned_up(args.workspace));
    write_attention_seeds(args.device_state, site_, static_cast<int64_t>(cut_.chunks.size()), out,
                          args.stream);
    return out;
  }

  // Of any chunk's queries: all tokens. Null where samples have no lengths.
  int32_t* query_lengths(const KernelArgs& args) const {
    if (!cut_.padded) return nullptr;
    auto* out = reinterpret_cast<int32_t*>(aligned_up(args.workspace) + cut_.seed_bytes());
    write_query_lengths(cut_.shape.samples, cut_.shape.length, out, args.stream);
    return out;
  }

  std::byte* graph_workspace(const KernelArgs& args) const {
    return aligned_up(args.workspace) + cut_.seed_bytes() + cut_.length_bytes();
  }

  Libraries* libraries_;
  DType dtype_;
  AttentionInputs inputs_;
  FusedAttentionWorkspace cut_;
  AttentionSite site_;
};

// In one piece, but where a mask is drawn, and backward will draw it again, piece by piece.
class Forward : public FusedAttention {
 public:
  Forward(const OpView& view, Libraries* libraries) : FusedAttention(view, kAttentionInputs, libraries) {}

  void prepare(const KernelArgs&) override {
    whole_ = planned(problem(all(), 0, false));
    if (cut_.dropout == 0) return;
    for (const AttentionChunk& chunk : cut_.chunks)
      pieces_.push_back(planned(problem(chunk, cut_.dropout, false)));
  }

  void run(const KernelArgs& args) override {
    const AttentionRows in(args.in, inputs_);
    const bool drop = cut_.dropout > 0 && args.state->training;
    int64_t* seed = seeds(args, drop);
    int32_t* lengths = query_lengths(args);
    const auto run_piece = [&](const AttentionChunk& chunk, AttentionGraph& graph, int64_t* random) {
      AttentionOperands of = operands(chunk, in, args.out[0], args.out[1]);
      of.random = random;
      of.query_lengths = lengths;
      graph.run(of, graph_workspace(args), args.stream);
    };
    if (!drop) run_piece(all(), *whole_, nullptr);
    for (std::size_t i = 0; drop && i < cut_.chunks.size(); ++i)
      run_piece(cut_.chunks[i], *pieces_[i], seed + 2 * i);
  }

 private:
  AttentionChunk all() const { return {0, cut_.shape.samples, 0, cut_.shape.heads}; }

  std::shared_ptr<AttentionGraph> whole_;
  std::vector<std::shared_ptr<AttentionGraph>> pieces_;
};

class Backward : public FusedAttention {
 public:
  Backward(const OpView& view, Libraries* libraries)
      : FusedAttention(view, kAttentionBackwardInputs, libraries) {}

  void prepare(const KernelArgs&) override {
    for (const AttentionChunk& chunk : cut_.chunks)
      pieces_.push_back(planned(problem(chunk, cut_.dropout, true)));
  }

  void run(const KernelArgs& args) override {
    const AttentionRows in(args.in, inputs_), gradients(args.out, 0, 1);
    int64_t* seed = seeds(args, cut_.dropout > 0);
    int32_t* lengths = query_lengths(args);
    for (std::size_t i = 0; i < cut_.chunks.size(); ++i) {
      AttentionOperands of = operands(cut_.chunks[i], in, args.in[2], args.in[3]);
      of.d_o = operands(cut_.chunks[i], in, args.in[0], args.in[3]).o;
      const AttentionOperands to = operands(cut_.chunks[i], gradients, args.in[2], args.in[3]);
      of.dq = to.q, of.dk = to.k, of.dv = to.v;
      of.query_lengths = lengths;
      if (seed) of.random = seed + 2 * i;
      pieces_[i]->run(of, graph_workspace(args), args.stream);
    }
    if (cut_.padded) clear_unseen_keys(cut_.shape, in.lengths, gradients.kv, args.stream);
  }

 private:
  std::vector<std::shared_ptr<AttentionGraph>> pieces_;
};

}  // namespace

KernelPointer make_fused_attention(const OpView& view, Libraries* libraries) {
  if (!is_fused(view, kAttentionInputs)) return nullptr;
  return std::make_unique<Forward>(view, libraries);
}

KernelPointer make_fused_attention_backward(const OpView& view, Libraries* libraries) {
  if (!is_fused(view, kAttentionBackwardInputs)) return nullptr;
  return std::make_unique<Backward>(view, libraries);
}

}  // namespace recollect::cuda
