// Attention as a cuDNN graph: q, k and v are read where they stand in longer rows, gradients are written into
// such, and the statistics are ops.h's lse. Backward gives the same bits every time. Where the build
// has no cudnn-frontend, cudnn_attention_absent.cpp answers.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/core/dtype.h"

namespace recollect::cuda {

struct AttentionProblem {
  bool backward = false;
  DType dtype = DType::kBF16;  // or f16
  int64_t samples = 0, heads = 0, kv_heads = 0, length = 0, head_size = 0;
  int64_t q_row = 0, kv_row = 0, o_row = 0;  // from one token to the next; rows may have more heads
  bool causal = true;
  int64_t window = 0;     // a query sees no key at this distance or farther; 0: no window
  double scale = 0;       // of scores; 0: 1 / sqrt(head_size)
  bool padded = false;    // of sample i only the first lengths[i] keys count; all queries do
  double dropout = 0;     // 0: no mask is drawn
  bool in_order = false;  // backward adds up dq in the order of keys, without the gradients of all scores

  auto operator<=>(const AttentionProblem&) const = default;
};

inline constexpr std::size_t kOldestInOrder = 92500;  // the cuDNN that can do that, and on Hopper alone

// Whether this build has cuDNN's attention at all.
bool has_fused_attention();

// The first element of each, of the first sample and head that are computed.
struct AttentionOperands {
  void *q = nullptr, *k = nullptr, *v = nullptr;
  void *o = nullptr, *d_o = nullptr;
  void* lse = nullptr;                                // [samples * heads, length] f32; forward writes it
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;   // as q, k, v
  void* random = nullptr;                             // on the device, i64: seed, offset. With dropout
  void *lengths = nullptr, *query_lengths = nullptr;  // on the device, [samples] i32. Where padded
};

class Cudnn;
class Library;

class AttentionGraph {
 public:
  // Error kConfiguration where cuDNN has no kernel for it, or cannot go in order on this device.
  AttentionGraph(const AttentionProblem& problem, const Cudnn& cudnn);
  ~AttentionGraph();

  std::size_t workspace_bytes() const;
  // Enqueues it on `stream`; `workspace` is 256-byte aligned.
  void run(const AttentionOperands& operands, void* workspace, void* stream);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// A device that need not be there: its compute capability (90 is Hopper), and the rest as cuDNN writes
// devices down.
struct DescribedDevice {
  int32_t capability = 0;
  std::string json;
};

struct PlannedAttention {
  std::string kernel;                          // cuDNN's name for the one that it would take
  std::optional<std::size_t> workspace_bytes;  // known where a driver takes the kernel
};

// What AttentionGraph would plan on that device; throws as it does.
PlannedAttention planned_attention(const AttentionProblem& problem, const Library& library,
                                   const DescribedDevice& device);

// Tells cudnn-frontend which cuDNN this process uses: the first one named stays.
void use_cudnn(void* library);

}  // namespace recollect::cuda
