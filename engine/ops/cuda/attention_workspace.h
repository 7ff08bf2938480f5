// How attention on GPUs takes its workspace: on cuDNN, cut as attention_chunks.h says, and in our own kernels. Of an op alone: asked
// by the kernels, and where programs are planned without them.
#pragma once

#include <string>

#include "engine/core/error.h"
#include "engine/ops/attention.h"
#include "engine/ops/cuda/attention_chunks.h"
#include "engine/ops/cuda/cudnn_attention.h"

namespace recollect::cuda {

inline constexpr int64_t kGraphAlignment = 256;    // of what cuDNN is given; a workspace has less
inline constexpr int64_t kLargestFusedHead = 128;  // on every device; cuDNN does up to 256 on some
inline constexpr int64_t kLargestTiledHead = 256;  // of our own kernels

// On cuDNN. Seeds of masks stand first, then the lengths of queries, then cuDNN's own.
struct FusedAttentionWorkspace {
  FusedAttentionWorkspace(const OpView& view, const AttentionInputs& at)
      : shape(view, at),
        group(shape.heads / shape.kv_heads),
        padded(view.has_input(at.lengths)),
        in_order(view.attributes().has(kKeysInOrder)),
        backward(at.q == kAttentionBackwardInputs.q),
        dropout(view.attributes().real("p")),
        scale(view.attributes().has(kScoreScale) ? view.attributes().real(kScoreScale) : 0),
        chunks(attention_chunks(shape.samples, shape.heads, group, unit_bytes())) {}

  std::size_t bytes() const {
    return static_cast<std::size_t>(kGraphAlignment) + seed_bytes() + length_bytes() + graph_bytes();
  }

  std::size_t seed_bytes() const {
    if (dropout == 0) return 0;
    return static_cast<std::size_t>(rounded_up(16 * static_cast<int64_t>(chunks.size()), kGraphAlignment));
  }

  std::size_t length_bytes() const {
    return padded ? static_cast<std::size_t>(rounded_up(4 * shape.samples, kGraphAlignment)) : 0;
  }

  // The most that cuDNN may ask for, for any chunk.
  std::size_t graph_bytes() const {
    if (!backward) return kAttentionOtherBytes;
    return static_cast<std::size_t>(chunks.front().samples * chunks.front().heads) * unit_bytes() +
           kAttentionOtherBytes;
  }

  AttentionShape shape;
  int64_t group;  // query heads that share a key/value head
  bool padded, in_order, backward;
  double dropout, scale;  // scale 0: 1 / sqrt(head_size)
  std::vector<AttentionChunk> chunks;

 private:
  std::size_t unit_bytes() const {
    return attention_unit_bytes(shape.length, shape.head_size, group, in_order);
  }
};

// Whether cuDNN computes it, which does not take f32 either.
inline bool is_fused(const OpView& view, const AttentionInputs& at) {
  const DType dtype = view.in(at.q).dtype;
  const AttentionShape shape(view, at);
  return has_fused_attention() && !needs_own_attention(view, at) &&
         (dtype == DType::kBF16 || dtype == DType::kF16) && shape.whole_groups() &&
         shape.head_size % 8 == 0 && shape.head_size <= kLargestFusedHead && shape.length > 1;
}

// Of our own kernels, whose forward takes none.
inline std::size_t tiled_backward_bytes(const AttentionShape& shape) {
  return sizeof(float) * static_cast<std::size_t>(shape.units() * shape.length);
}

// Error kConfiguration where our own kernels have none.
inline void check_tiled_head(int64_t head_size, const std::string& kind) {
  if (head_size <= kLargestTiledHead) return;
  throw Error(ExitCode::kConfiguration,
              "the cuda backend has no " + kind + " for heads of " + std::to_string(head_size),
              "heads have at most 256 features there");
}

}  // namespace recollect::cuda
