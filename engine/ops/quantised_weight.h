// Weights of 4 or 8 bits a number as bitsandbytes has them (Dettmers et al., "QLoRA", NeurIPS 2023, and "LLM.int8()", NeurIPS
// 2022). Of 4 bits a number is an entry of a table times the largest size of its block of 64 numbers of a row, two in a byte,
// the first in the high half; of 8 it is the row's largest size times a whole number / 127. Nested sizes of blocks are entries
// of the signed dynamic map times the largest of 256 of them, and a mean is added.
//
// In memory each row stands for itself, whatever rows and columns a rank has: its numbers, then what they are multiplied by.
//
//   nf4, fp4           columns / 2 bytes, and of each block its size (float)
//   nf4, fp4, nested   columns / 2 bytes, the mean (float), the largest of each 256 sizes that the row has a part of (float),
//                      where in its 256 the row's first size stands (byte), and of each block the entry (byte)
//   int8               columns bytes, and the row's size (float)
//
// A row takes a multiple of 16 bytes. Numbers are floats that are rounded once to what they are made for; products and sums
// on the way are rounded each by itself.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/core/dtype.h"
#include "engine/core/host_device.h"
#include "engine/core/spelled.h"
#include "engine/graph/attributes.h"
#include "engine/ops/quantised_states.h"

namespace recollect {

enum class WeightFormat : uint8_t { kWhole, kNF4, kFP4, kInt8 };
template <>
inline constexpr std::array<std::string_view, 4> kSpellings<WeightFormat> = {"whole", "nf4", "fp4", "int8"};

inline constexpr int64_t kWeightBlock = 64;   // numbers
inline constexpr int64_t kNestedBlock = 256;  // sizes of blocks

// The tables, with 1 as the largest entry: in order for nf4; for fp4 by the bits of sign, exponent and mantissa.
RECOLLECT_HOST_DEVICE constexpr float weight_entry(WeightFormat format, int code) {
  constexpr float kNF4[16] = {-1.0f,           -0x1.647362p-1f, -0x1.0cd66p-1f,  -0x1.94654p-2f,
                              -0x1.23449ap-2f, -0x1.7a6a7ep-3f, -0x1.74f0e2p-4f, 0.0f,
                              0x1.45f5fep-4f,  0x1.4995c6p-3f,  0x1.f809bap-3f,  0x1.5a0674p-2f,
                              0x1.c3497p-2f,   0x1.200f56p-1f,  0x1.722766p-1f,  1.0f};
  constexpr float kFP4[8] = {0.0f,           0x1.555556p-8f, 0x1.555556p-1f, 1.0f,
                             0x1.555556p-2f, 0.5f,           0x1.555556p-3f, 0.25f};
  if (format == WeightFormat::kNF4) return kNF4[code];
  return code > 8 ? -kFP4[code - 8] : kFP4[code & 7];  // zero has no sign
}

// What a row of so many columns is made of. Offsets are bytes.
struct StoredRow {
  WeightFormat format = WeightFormat::kWhole;
  bool nested = false;
  int64_t columns = 0;

  RECOLLECT_HOST_DEVICE constexpr int64_t blocks() const { return columns / kWeightBlock; }
  RECOLLECT_HOST_DEVICE constexpr int64_t code_bytes() const {
    return format == WeightFormat::kInt8 ? (columns + 3) / 4 * 4 : columns / 2;
  }
  // The most of them that a row has a part of, wherever its first block stands.
  RECOLLECT_HOST_DEVICE constexpr int64_t nested_sizes() const {
    return (blocks() + kNestedBlock - 2) / kNestedBlock + 1;
  }
  RECOLLECT_HOST_DEVICE constexpr int64_t place_offset() const {
    return code_bytes() + 4 + 4 * nested_sizes();
  }
  RECOLLECT_HOST_DEVICE constexpr int64_t bytes() const {
    const int64_t sizes = format == WeightFormat::kInt8 ? code_bytes() + 4
                          : nested                      ? place_offset() + 1 + blocks()
                                                        : code_bytes() + 4 * blocks();
    return (sizes + 15) / 16 * 16;
  }
};

// The op kind that makes a weight's numbers of its rows, and its attributes.
inline constexpr std::string_view kStoredRows = "dequantise_rows";
StoredRow stored_row_of(const Attributes& attributes);
Attributes attributes_of(const StoredRow& row, DType dtype);

inline constexpr float kInt8Share = 7.874015718698502e-3f;  // 1 / 127, as it is multiplied by
// No compiler joins these to one operation (where it might, sources are compiled with -ffp-contract=off).
RECOLLECT_HOST_DEVICE inline float separate_product(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
RECOLLECT_HOST_DEVICE inline float separate_sum(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}

// The size of a row's block of that number; `map`: the entries of the signed dynamic map.
RECOLLECT_HOST_DEVICE inline float size_of_block(const StoredRow& of, const std::byte* row, int64_t block,
                                                 const float* map) {
  const auto* const floats = reinterpret_cast<const float*>(row + of.code_bytes());
  if (!of.nested) return floats[block];
  const auto* const bytes = reinterpret_cast<const uint8_t*>(row + of.place_offset());
  const float largest = floats[1 + (bytes[0] + block) / kNestedBlock];
  return separate_sum(separate_product(map[bytes[1 + block]], largest), floats[0]);
}

}  // namespace recollect
