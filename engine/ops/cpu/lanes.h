// Vectors of floats that are as long as the processor's registers. The compiler handles longer vectors
// through memory, many times slower, so code with explicit vectors is written for this length.
#pragma once

namespace recollect::cpu {

#if defined(__AVX512F__)
inline constexpr int kLanes = 16;  // floats in a register
#elif defined(__AVX__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif

using Floats = float __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));

}  // namespace recollect::cpu
