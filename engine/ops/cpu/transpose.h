// A square of 16 x 16 words of 32 bits, transposed in registers.
#pragma once

#include <algorithm>
#include <cstdint>

namespace recollect::cpu {

// One row per vector.
using Words = uint32_t __attribute__((vector_size(64)));

inline void transpose_words(Words (&rows)[16]) {
  using Pairs = uint64_t __attribute__((vector_size(64)));
  Words r[16], t[16];
  std::copy_n(rows, 16, r);
  for (int i = 0; i < 16; i += 2) {
    t[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
    t[i + 1] =
        __builtin_shufflevector(r[i], r[i + 1], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
  }
  Pairs p[16], q[16];
  for (int i = 0; i < 16; ++i) p[i] = reinterpret_cast<Pairs>(t[i]);
  for (int i = 0; i < 16; i += 4)
    for (int j = 0; j < 2; ++j) {
      q[i + 2 * j] = __builtin_shufflevector(p[i + j], p[i + j + 2], 0, 8, 2, 10, 4, 12, 6, 14);
      q[i + 2 * j + 1] = __builtin_shufflevector(p[i + j], p[i + j + 2], 1, 9, 3, 11, 5, 13, 7, 15);
    }
  // Now q[4 i + j] holds in its four quarters columns j, j + 4, j + 8 and j + 12 of rows 4 i to 4 i + 3.
  for (int j = 0; j < 4; ++j) {
    const Pairs even01 = __builtin_shufflevector(q[j], q[j + 4], 0, 1, 4, 5, 8, 9, 12, 13);
    const Pairs odd01 = __builtin_shufflevector(q[j], q[j + 4], 2, 3, 6, 7, 10, 11, 14, 15);
    const Pairs even23 = __builtin_shufflevector(q[j + 8], q[j + 12], 0, 1, 4, 5, 8, 9, 12, 13);
    const Pairs odd23 = __builtin_shufflevector(q[j + 8], q[j + 12], 2, 3, 6, 7, 10, 11, 14, 15);
    rows[j] = reinterpret_cast<Words>(__builtin_shufflevector(even01, even23, 0, 1, 4, 5, 8, 9, 12, 13));
    rows[j + 4] = reinterpret_cast<Words>(__builtin_shufflevector(odd01, odd23, 0, 1, 4, 5, 8, 9, 12, 13));
    rows[j + 8] =
        reinterpret_cast<Words>(__builtin_shufflevector(even01, even23, 2, 3, 6, 7, 10, 11, 14, 15));
    rows[j + 12] = reinterpret_cast<Words>(__builtin_shufflevector(odd01, odd23, 2, 3, 6, 7, 10, 11, 14, 15));
  }
}

}  // namespace recollect::cpu
