// The vector form of engine/core/philox.h: lane i is one block of the sixteen of a group.
#include "engine/ops/cpu/dropout_mask.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include <algorithm>

namespace recollect::cpu {

namespace {

constexpr int kLanes = 16;
constexpr int kGroup = 4 * kLanes;

#if defined(__AVX512F__)

// Each lane's product with `factor`, as its high and its low word. The unit multiplies even lanes only.
struct Product {
  __m512i high, low;
};
inline Product multiply(__m512i x, __m512i factor) {
  const __m512i even = _mm512_maskz_mul_epu32(0xff, x, factor);
  const __m512i odd = _mm512_maskz_mul_epu32(0xff, _mm512_maskz_srli_epi64(0xff, x, 32), factor);
  return {_mm512_mask_blend_epi32(0xaaaa, _mm512_maskz_srli_epi64(0xff, even, 32), odd),
          _mm512_mask_blend_epi32(0xaaaa, even, _mm512_maskz_slli_epi64(0xff, odd, 32))};
}

inline __m512i exclusive_or(__m512i a, __m512i b, __m512i c) {
  return _mm512_ternarylogic_epi32(a, b, c, 0x96);
}

// The words of sixteen blocks from `block` on: words[w][i] is word w of block + i.
void philox_blocks(const RandomKey& key, uint64_t block, uint32_t (&words)[4][kLanes]) {
  const auto all = [](uint32_t v) { return _mm512_set1_epi32(static_cast<int>(v)); };
  const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  __m512i c0 = _mm512_add_epi32(all(static_cast<uint32_t>(block)), lanes);
  __m512i c1 = all(static_cast<uint32_t>(block >> 32));
  __m512i c2 = all((key.layer << 8) | (key.site & 0xffu)), c3 = all(static_cast<uint32_t>(key.step));
  __m512i k0 = all(static_cast<uint32_t>(key.seed)), k1 = all(static_cast<uint32_t>(key.seed >> 32));
  for (int round = 0; round < 10; ++round) {
    const Product p0 = multiply(c0, all(0xD2511F53u)), p1 = multiply(c2, all(0xCD9E8D57u));
    c0 = exclusive_or(p1.high, c1, k0);
    c1 = p1.low;
    c2 = exclusive_or(p0.high, c3, k1);
    c3 = p0.low;
    k0 = _mm512_add_epi32(k0, all(0x9E3779B9u));
    k1 = _mm512_add_epi32(k1, all(0xBB67AE85u));
  }
  _mm512_storeu_si512(words[0], c0);
  _mm512_storeu_si512(words[1], c1);
  _mm512_storeu_si512(words[2], c2);
  _mm512_storeu_si512(words[3], c3);
}

#else

void philox_blocks(const RandomKey& key, uint64_t block, uint32_t (&words)[4][kLanes]) {
  for (int i = 0; i < kLanes; ++i) {
    const auto all = philox4x32({static_cast<uint32_t>(block) + i, static_cast<uint32_t>(block >> 32),
                                 (key.layer << 8) | (key.site & 0xffu), static_cast<uint32_t>(key.step)},
                                static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32));
    for (int w = 0; w < 4; ++w) words[w][i] = all[w];
  }
}

#endif

}  // namespace

void random_words(const RandomKey& key, uint64_t first, int64_t count, uint32_t* out) {
  alignas(64) uint32_t words[4][kLanes];
  for (const uint64_t end = first + static_cast<uint64_t>(count); first < end;) {
    const uint64_t skip = first % kGroup, take = std::min<uint64_t>(kGroup - skip, end - first);
    philox_blocks(key, first / kGroup * kLanes, words);
    out = std::copy_n(&words[0][0] + skip, take, out);
    first += take;
  }
}

void DropoutMask::group(uint64_t index, float* out) const {
  alignas(64) uint32_t words[4][kLanes];
  philox_blocks(key_, index * kLanes, words);
  // Locals, since the members might be what `out` overwrites.
  const uint32_t threshold = threshold_;
  const float scale = scale_;
  for (int w = 0; w < 4; ++w)
#pragma omp simd
    for (int i = 0; i < kLanes; ++i) out[w * kLanes + i] = words[w][i] < threshold ? 0.0f : scale;
}

void DropoutMask::multipliers(uint64_t first, int64_t count, float* out) const {
  const uint64_t end = first + static_cast<uint64_t>(count);
  while (first < end) {
    const uint64_t index = first / kGroup, skip = first % kGroup;
    const uint64_t take = std::min<uint64_t>(kGroup - skip, end - first);
    if (take == kGroup) {
      group(index, out);
    } else {
      float all[kGroup];
      group(index, all);
      std::copy_n(all + skip, take, out);
    }
    out += take;
    first += take;
  }
}

}  // namespace recollect::cpu
