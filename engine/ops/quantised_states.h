// Optimizer states of one byte per number (Dettmers et al., "8-bit Optimizers via Block-wise Quantization",
// ICLR 2022). A row is divided into blocks of 256 numbers; no block extends over the end of a row. Each
// number is divided by the block's largest magnitude and stored as the index of the nearest table entry. The
// two tables are the dynamic maps of bitsandbytes, bit for bit: entries of seven decades, 0 and 1, in
// ascending order.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "engine/core/host_device.h"

namespace recollect {

inline constexpr int64_t kQuantisedBlock = 256;

constexpr int64_t quantised_blocks(int64_t columns) {
  return (columns + kQuantisedBlock - 1) / kQuantisedBlock;
}

// Returns the middle of part `part`, when [0.1, 1] is divided into `parts` equal parts. It reproduces float
// arithmetic with fused multiply-add, which is exact in double.
RECOLLECT_HOST_DEVICE constexpr float middle_of_part(int part, int parts) {
  const float step = (1.0f - 0.1f) / static_cast<float>(parts);
  float ends[2] = {};
  for (int i = 0; i < 2; ++i) {
    const int end = part + i;
    const double wide = step, low = 0.1f;
    ends[i] = static_cast<float>(end < (parts + 1) / 2 ? low + wide * end : 1.0 - wide * (parts - end));
  }
  return (ends[0] + ends[1]) * 0.5f;
}

// Returns the upper end of decade 0 ... 6. It is not an array, because that would be in memory if `decade` is
// not known at compile time.
RECOLLECT_HOST_DEVICE constexpr float end_of_decade(int decade) {
  if (decade < 3) return decade == 0 ? 1e-6f : decade == 1 ? 1e-5f : 1e-4f;
  if (decade < 5) return decade == 3 ? 1e-3f : 1e-2f;
  return decade == 5 ? 1e-1f : 1.0f;
}

// Returns entry 0 ... 255. Below 1 the signed map has 127 negative and 127 positive entries, the unsigned one
// 254 positive entries.
RECOLLECT_HOST_DEVICE constexpr float dynamic_entry(int index, bool is_signed) {
  if (index == 255) return 1.0f;
  const int zero = is_signed ? 127 : 0;
  if (index == zero) return 0.0f;
  const int from_zero = index < zero ? zero - 1 - index : index - zero - 1;
  int decade = 0, parts = is_signed ? 1 : 2, part = from_zero;
  while (part >= parts) part -= parts, parts *= 2, ++decade;
  const float size = end_of_decade(decade) * middle_of_part(part, parts);
  return index < zero ? -size : size;
}

// Returns the next float above or below `of`, which is not zero.
RECOLLECT_HOST_DEVICE constexpr float neighbour(float of, bool up) {
  const uint32_t bits = std::bit_cast<uint32_t>(of);
  return std::bit_cast<float>((of > 0) == up ? bits + 1 : bits - 1);
}

// Returns the largest number that is not nearer to entry index + 1 than to entry `index`, with distances
// computed in float.
RECOLLECT_HOST_DEVICE constexpr float dynamic_boundary(int index, bool is_signed) {
  const float lower = dynamic_entry(index, is_signed), upper = dynamic_entry(index + 1, is_signed);
  float boundary = (lower + upper) * 0.5f;
  while (upper - boundary < boundary - lower) boundary = neighbour(boundary, false);
  for (float next = neighbour(boundary, true); !(upper - next < next - lower); next = neighbour(next, true))
    boundary = next;
  return boundary;
}

// One of the two tables. boundaries[i] separates entries i and i + 1; the last boundary is unused.
struct DynamicMap {
  std::array<float, 256> entries = {}, boundaries = {};

  static constexpr DynamicMap make(bool is_signed) {
    DynamicMap map;
    for (int i = 0; i < 256; ++i) map.entries[i] = dynamic_entry(i, is_signed);
    for (int i = 0; i < 255; ++i) map.boundaries[i] = dynamic_boundary(i, is_signed);
    return map;
  }
};

// Returns the entry nearest to `share`, which is in -1 to 1; of two equally near entries the lower one.
// Binary search over the boundaries.
RECOLLECT_HOST_DEVICE constexpr int nearest_entry(const float* boundaries, float share) {
  int index = 0;
  for (int step = 128; step > 0; step /= 2)
    if (share > boundaries[index + step - 1]) index += step;
  return index;
}

// Returns a moment divided by the largest magnitude of its block.
RECOLLECT_HOST_DEVICE constexpr float share_of(float moment, float largest) {
  return largest > 0 ? moment / largest : 0.0f;
}

}  // namespace recollect
