// Sets of instructions that the cpu backend's kernels are compiled for, each with all of those before it.
#pragma once

#include "engine/core/spelled.h"

namespace recollect {

// kAuto: the most that the processor has. Bits, and workspaces, are those of a set; speed too.
enum class CpuIsa {
  kAuto,
  kBaseline,    // of every processor of its kind
  kAvx2,        // x86-64-v3: with FMA and BMI
  kAvx512,      // x86-64-v4: F, BW, CD, DQ and VL
  kAvx512Bf16,  // dot products of bf16
  kAmx,         // tiles of bf16
};
template <>
inline constexpr std::array<std::string_view, 6> kSpellings<CpuIsa> = {"auto",   "baseline",    "avx2",
                                                                       "avx512", "avx512_bf16", "amx"};

}  // namespace recollect
