// Blocks of 32 x 32 sums of bf16 products on Intel AMX: four tile registers of sums, each loaded tile used
// twice. Exists where the compiler targets AMX; whether the system grants it is amx::available()'s to say.
#pragma once

#include "engine/ops/cpu/amx_tile.h"

#ifdef RECOLLECT_AMX

namespace recollect::cpu {

struct AmxProduct {
  using Element = bf16;
  using Packed = bf16;
  using Registers = amx::TileRegisters;

  static constexpr int64_t kBlock = 32, kDepthStep = amx::kDepth;
  static constexpr int64_t kRowStep = kBlock, kColumnStep = kBlock;  // of what a block at the edge writes
  static constexpr int64_t kStrip = 2;                               // blocks side by side in a strip
  static constexpr int64_t kSlice = 256;                         // depth of a strip in the first-level cache
  static constexpr int64_t kShallowest = 1024, kDeepest = 1024;  // of one pass
  static constexpr int64_t kResidentBytes = 1 << 20;             // in the second-level cache
  static constexpr int64_t kMostSummed = 640;                    // resident lines where sums wait for a slice
  static constexpr bool kFetches = false;  // a slice is packed faster than it is asked for

  static void pack(const bf16* from, int64_t stride, bool strided, bool left, int64_t lines, int64_t depth,
                   bf16* to) {
    amx::pack(from, stride, strided, left, lines, depth, to);
  }

  // to = from + left right, where `from` may be null for zeros.
  static void multiply(const bf16* left, bool, const bf16* right, int64_t depth, int64_t, int64_t,
                       const float* from, int64_t from_stride, float* to, int64_t to_stride) {
    if (from)
      amx::load_sums(from, from_stride);
    else
      amx::clear_sums();
    amx::multiply(left, right, (depth + kDepthStep - 1) / kDepthStep);
    amx::store_sums(to, to_stride);
  }
};

}  // namespace recollect::cpu

#endif
