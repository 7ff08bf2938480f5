// The ops attention and attention_backward on cuDNN, cut as attention_chunks.h says. Masks are not
// those of the other backends: cuDNN draws its own, from seeds that depend on the same things; so with
// dropout on, bits agree between runs of one layout, and between forward, recomputation and backward, and
// nothing else.
#include "engine/ops/cuda/attention_fused.h"

#include <map>

#include "engine/ops/attention.h"
#include "engine/ops/cuda/attention_chunks.h"
#include "engine/ops/cuda/attention_padding.h"
#include "engine/ops/cuda/cudnn.h"
#include "engine/ops/cuda/cudnn_seeds.h"
#include "engine/ops/cuda/libraries.h"

namespace recollect::cuda {

namespace {

constexpr int64_t kAlignment = 256;
constexpr int64_t kLargestHead = 128;  // on every device; cuDNN does up to 256 on some

std::byte* aligned_up(std::byte* at) {
  return reinterpret_cast<std::byte*>(rounded_up(reinterpret_cast<std::intptr_t>(at), kAlignment));
}

class FusedAttention : public Kernel {
 public:
  FusedAttention(const OpView& view, const AttentionInputs& at, Libraries* libraries)
      : libraries_(libraries),
        dtype_(view.in(at.q).dtype),
        inputs_(at),
        shape_(view, at),
        group_(shape_.heads / shape_.kv_heads),
        padded_(view.has_input(at.lengths)),
        in_order_(view.attributes().has(kKeysInOrder)),
        dropout_(view.attributes().real("p")),
        site_{view.attributes().integer("layer"), view.attributes().integer("site"), shape_.first_head},
        chunks_(attention_chunks(shape_.samples, shape_.heads, group_, unit_bytes())) {}

  std::size_t workspace_bytes() const override {
    return kAlignment + seed_bytes() + length_bytes() + graph_bytes();
  }

 protected:
  virtual std::size_t graph_bytes() const = 0;

  std::size_t seed_bytes() const {
    if (dropout_ == 0) return 0;
    return static_cast<std::size_t>(rounded_up(16 * static_cast<int64_t>(chunks_.size()), kAlignment));
  }

  std::size_t length_bytes() const {
    return padded_ ? static_cast<std::size_t>(rounded_up(4 * shape_.samples, kAlignment)) : 0;
  }

  std::size_t unit_bytes() const {
    return attention_unit_bytes(shape_.length, shape_.head_size, group_, in_order_);
  }

  AttentionProblem problem(const AttentionChunk& chunk, double dropout, bool backward) const {
    return {.backward = backward,
            .dtype = dtype_,
            .samples = chunk.samples,
            .heads = chunk.heads,
            .kv_heads = chunk.heads / group_,
            .length = shape_.length,
            .head_size = shape_.head_size,
            .q_row = shape_.q_row,
            .kv_row = shape_.kv_row,
            .o_row = shape_.out_row,
            .causal = shape_.causal,
            .padded = padded_,
            .dropout = dropout,
            .in_order = backward && in_order_};
  }

  // The graph of a chunk, planned; what it asks for must fit what was predicted.
  std::shared_ptr<AttentionGraph> planned(const AttentionProblem& problem) {
    require(libraries_, "attention that is only planned is prepared");
    std::shared_ptr<AttentionGraph> graph = libraries_->cudnn().attention(problem);
    if (graph->workspace_bytes() > graph_bytes())
      throw Error(ExitCode::kDeviceMemory,
                  "cuDNN asks for " + std::to_string(graph->workspace_bytes()) +
                      " bytes of workspace for attention" + (problem.backward ? "'s backward" : "") +
                      " where " + std::to_string(graph_bytes()) + " were predicted (" +
                      libraries_->cudnn().path() + ")",
                  "take a version of cuDNN that this recollect was tried with, 9.19 to 9.26: "
                  "RECOLLECT_NVIDIA_LIBRARIES=FOLDER");
    return graph;
  }

  // Of one chunk, in the whole values' memory.
  AttentionOperands operands(const AttentionChunk& c, const AttentionRows& rows, const Tensor& o,
                             const Tensor& lse) const {
    const int64_t unit = shape_.unit(c.first_sample, c.first_head), kv_unit = shape_.kv_unit(unit);
    AttentionOperands to;
    to.q = element(rows.q, shape_.q_at(unit));
    to.k = element(rows.kv, shape_.k_at(kv_unit));
    to.v = element(rows.kv, shape_.v_at(kv_unit));
    to.o = element(o, shape_.out_at(unit));
    to.lse = element(lse, unit * shape_.length);
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
    write_attention_seeds(args.device_state, site_, static_cast<int64_t>(chunks_.size()), out, args.stream);
    return out;
  }

  // Of any chunk's queries: all tokens. Null where samples have no lengths.
  int32_t* query_lengths(const KernelArgs& args) const {
    if (!padded_) return nullptr;
    auto* out = reinterpret_cast<int32_t*>(aligned_up(args.workspace) + seed_bytes());
    write_query_lengths(shape_.samples, shape_.length, out, args.stream);
    return out;
  }

  std::byte* graph_workspace(const KernelArgs& args) const {
    return aligned_up(args.workspace) + seed_bytes() + length_bytes();
  }

  Libraries* libraries_;
  DType dtype_;
  AttentionInputs inputs_;
  AttentionShape shape_;
  int64_t group_;  // query heads that share a key/value head
  bool padded_, in_order_;
  double dropout_;
  AttentionSite site_;
  std::vector<AttentionChunk> chunks_;
};

// In one piece, but where a mask is drawn, and backward will draw it again, piece by piece.
class Forward : public FusedAttention {
 public:
  Forward(const OpView& view, Libraries* libraries) : FusedAttention(view, kAttentionInputs, libraries) {}

  void prepare(const KernelArgs&) override {
    whole_ = planned(problem(all(), 0, false));
    if (dropout_ == 0) return;
    for (const AttentionChunk& chunk : chunks_) pieces_.push_back(planned(problem(chunk, dropout_, false)));
  }

  void run(const KernelArgs& args) override {
    const AttentionRows in(args.in, inputs_);
    const bool drop = dropout_ > 0 && args.state->training;
    int64_t* seed = seeds(args, drop);
    int32_t* lengths = query_lengths(args);
    const auto run_piece = [&](const AttentionChunk& chunk, AttentionGraph& graph, int64_t* random) {
      AttentionOperands of = operands(chunk, in, args.out[0], args.out[1]);
      of.random = random;
      of.query_lengths = lengths;
      graph.run(of, graph_workspace(args), args.stream);
    };
    if (!drop) run_piece(all(), *whole_, nullptr);
    for (std::size_t i = 0; drop && i < chunks_.size(); ++i) run_piece(chunks_[i], *pieces_[i], seed + 2 * i);
  }

 private:
  std::size_t graph_bytes() const override { return kAttentionOtherBytes; }
  AttentionChunk all() const { return {0, shape_.samples, 0, shape_.heads}; }

  std::shared_ptr<AttentionGraph> whole_;
  std::vector<std::shared_ptr<AttentionGraph>> pieces_;
};

class Backward : public FusedAttention {
 public:
  Backward(const OpView& view, Libraries* libraries)
      : FusedAttention(view, kAttentionBackwardInputs, libraries) {}

  void prepare(const KernelArgs&) override {
    for (const AttentionChunk& chunk : chunks_) pieces_.push_back(planned(problem(chunk, dropout_, true)));
  }

  void run(const KernelArgs& args) override {
    const AttentionRows in(args.in, inputs_), gradients(args.out, 0, 1);
    int64_t* seed = seeds(args, dropout_ > 0);
    int32_t* lengths = query_lengths(args);
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      AttentionOperands of = operands(chunks_[i], in, args.in[2], args.in[3]);
      of.d_o = operands(chunks_[i], in, args.in[0], args.in[3]).o;
      const AttentionOperands to = operands(chunks_[i], gradients, args.in[2], args.in[3]);
      of.dq = to.q, of.dk = to.k, of.dv = to.v;
      of.query_lengths = lengths;
      if (seed) of.random = seed + 2 * i;
      pieces_[i]->run(of, graph_workspace(args), args.stream);
    }
    if (padded_) clear_unseen_keys(shape_, in.lengths, gradients.kv, args.stream);
  }

 private:
  std::size_t graph_bytes() const override {
    return chunks_.front().samples * chunks_.front().heads * unit_bytes() + kAttentionOtherBytes;
  }

  std::vector<std::shared_ptr<AttentionGraph>> pieces_;
};

bool suits(const OpView& view, const AttentionInputs& at) {
  const DType dtype = view.in(at.q).dtype;
  const AttentionShape shape(view, at);
  return has_fused_attention() && !view.has_input(at.positions) &&
         (dtype == DType::kBF16 || dtype == DType::kF16) && shape.whole_groups() &&
         shape.head_size % 8 == 0 && shape.head_size <= kLargestHead && shape.length > 1;
}

}  // namespace

KernelPointer make_fused_attention(const OpView& view, Libraries* libraries) {
  if (!suits(view, kAttentionInputs)) return nullptr;
  return std::make_unique<Forward>(view, libraries);
}

KernelPointer make_fused_attention_backward(const OpView& view, Libraries* libraries) {
  if (!suits(view, kAttentionBackwardInputs)) return nullptr;
  return std::make_unique<Backward>(view, libraries);
}

}  // namespace recollect::cuda
