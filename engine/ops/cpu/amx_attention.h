// What the AMX attention kernels share. As in attention_kernel.h they go strip by strip over the queries of a
// head; probabilities and their gradients are rounded to bf16 for the products, everything else is float.
// Blocks are 32 x 32. Only for files that have tested RECOLLECT_AMX.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "engine/ops/cpu/amx_tile.h"
#include "engine/ops/cpu/attention_kernel.h"

#ifdef RECOLLECT_AMX

namespace recollect::cpu {

inline constexpr int64_t kBlock = 32;

// Cuts a thread's workspace into arrays that begin on cache lines; without memory it only measures.
class Pieces {
 public:
  explicit Pieces(std::byte* start) : start_(start) {}
  template <typename T>
  T* take(int64_t count) {
    const std::size_t at = used_;
    used_ += (sizeof(T) * count + 63) / 64 * 64;
    return start_ ? reinterpret_cast<T*>(start_ + at) : nullptr;
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* start_;
  std::size_t used_ = 0;
};

// high + low is from, to about 16 bits. Goes in steps of 32.
inline void store_parts(const float* from, int64_t n, bf16* high, bf16* low) {
  const __m512i first_half = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512i second_half = _mm512_add_epi32(first_half, _mm512_set1_epi32(8));
  for (int64_t j = 0; j < n; j += 32) {
    const __m512 first = _mm512_loadu_ps(from + j), second = _mm512_loadu_ps(from + j + 16);
    const __m512i rounded = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first));
    // As words, the odd elements are in place with others below them, and the even ones have to be shifted
    // there.
    const __m512 even = _mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xffff, rounded, 16));
    const __m512 odd = _mm512_castsi512_ps(_mm512_and_si512(rounded, _mm512_set1_epi32(-65536)));
    const __m512 first_high = _mm512_permutex2var_ps(even, first_half, odd);
    const __m512 second_high = _mm512_permutex2var_ps(even, second_half, odd);
    const __m512i rest = reinterpret_cast<__m512i>(
        _mm512_cvtne2ps_pbh(_mm512_sub_ps(second, second_high), _mm512_sub_ps(first, first_high)));
    _mm512_storeu_si512(high + j, rounded);
    _mm512_storeu_si512(low + j, rest);
  }
}

struct AmxAttentionShape : AttentionShape {
  explicit AmxAttentionShape(const OpView& view)
      : AttentionShape(view),
        size((head_size + kBlock - 1) / kBlock * kBlock),
        keys((length + kPanel - 1) / kPanel * kPanel),
        sizes(size / kBlock) {}

  // Rows of k or v as columns of a right operand: scores of 32 keys per panel.
  void pack_by_key(const bf16* from, bf16* to) const {
    for (int64_t key = 0; key < length; key += kBlock)
      amx::pack(from + key * qkv_row(), qkv_row(), false, false, length - key, head_size, to + key * size);
  }
  // Rows of k or v as the depth of a right operand: 32 of the head's numbers per panel.
  void pack_by_size(const bf16* from, bf16* to) const {
    for (int64_t c = 0; c < head_size; c += kBlock)
      amx::pack(from + c, qkv_row(), true, false, head_size - c, length, to + c * keys);
  }
  // `rows` rows, zero up to the padded size and to whole blocks of rows.
  void copy_rows(const bf16* from, int64_t stride, int64_t rows, bf16* to) const {
    for (int64_t i = 0; i < (rows + kBlock - 1) / kBlock * kBlock; ++i) {
      const int64_t n = i < rows ? head_size : 0;
      std::copy_n(from + i * stride, n, to + i * size);
      std::fill_n(to + i * size + n, size - n, bf16{});
    }
  }

  int64_t size;   // head_size, padded
  int64_t keys;   // length, padded to whole panels of kPanel
  int64_t sizes;  // blocks in size
};

}  // namespace recollect::cpu

#endif
