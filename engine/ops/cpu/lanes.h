// Vectors of floats as long as the processor's registers. The compiler works on longer ones through memory, many times as
// slowly, so code that names its vectors is written for this length.
#pragma once

namespace recollect::cpu {

#if defined(__AVX512F__)
inline constexpr int kLanes = 16;  // floats of a register
#elif defined(__AVX__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif

using Floats = float __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));

}  // namespace recollect::cpu
