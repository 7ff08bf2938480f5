// How bf16 operands are brought into pairs of depth, as the processor's bf16 products read them: the numbers of
// depths 2i and 2i + 1 of a line share a word of 32 bits. Only for files that have tested RECOLLECT_DOTS.
#pragma once

#if defined(__AVX512BF16__) && defined(__AVX512BW__)
#define RECOLLECT_DOTS 1

#include <immintrin.h>

#include <cstdint>

#include "engine/core/dtype.h"
#include "engine/ops/cpu/transpose.h"

namespace recollect::cpu {

inline __mmask32 first_lanes(int64_t n) {
  return n >= 32 ? ~__mmask32{0} : n <= 0 ? __mmask32{0} : (__mmask32{1} << n) - 1;
}

// Of 16 lines of 32 depths: pairs i of all of them in row i.
inline void transpose_pairs(__m512i (&rows)[16]) {
  Words words[16];
  for (int i = 0; i < 16; ++i) words[i] = reinterpret_cast<Words>(rows[i]);
  transpose_words(words);
  for (int i = 0; i < 16; ++i) rows[i] = reinterpret_cast<__m512i>(words[i]);
}

// 16 rows of 32 elements, zero beyond rows and columns.
inline void load_rows(const bf16* from, int64_t stride, int64_t rows, int64_t columns, __m512i (&to)[16]) {
  const __mmask32 mask = first_lanes(columns);
  for (int i = 0; i < 16; ++i)
    to[i] = i < rows ? _mm512_maskz_loadu_epi16(mask, from + i * stride) : _mm512_setzero_si512();
}

// Rows 2i and 2i + 1 of 32 columns, interleaved: `low` has columns 0-15, `high` 16-31, both of depth pair i.
inline void interleave(__m512i even, __m512i odd, __m512i& low, __m512i& high) {
  alignas(64) static constexpr uint16_t kLow[32] = {0,  32, 1,  33, 2,  34, 3,  35, 4,  36, 5,
                                                    37, 6,  38, 7,  39, 8,  40, 9,  41, 10, 42,
                                                    11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  const __m512i low_index = _mm512_load_si512(kLow);
  const __m512i high_index = _mm512_add_epi16(low_index, _mm512_set1_epi16(16));
  low = _mm512_permutex2var_epi16(even, low_index, odd);
  high = _mm512_permutex2var_epi16(even, high_index, odd);
}

}  // namespace recollect::cpu

#endif
