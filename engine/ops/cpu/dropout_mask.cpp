// The vector form of engine/core/philox.h. The processor multiplies 32-bit words in 64-bit lanes, using only
// the lower halves of the lanes. So each lane computes one block through all rounds, and its upper half is
// ignored. Two vectors, of even and of odd block numbers, are interleaved at the end.
#include "engine/ops/cpu/dropout_mask.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstring>

namespace recollect::cpu {

namespace {

constexpr int kGroup = kRandomGroup, kGroupBlocks = kGroup / 4;

#if defined(__AVX512F__)
constexpr int kPhiloxBytes = 64;
#elif defined(__AVX2__)
constexpr int kPhiloxBytes = 32;
#else
constexpr int kPhiloxBytes = 16;
#endif
constexpr int kPhiloxLanes = kPhiloxBytes / 8;
using PhiloxLanes = uint64_t __attribute__((vector_size(kPhiloxBytes)));

inline PhiloxLanes in_all_lanes(uint64_t value) { return PhiloxLanes{} + value; }

// Multiplies the lower halves of the lanes.
inline PhiloxLanes product(PhiloxLanes a, PhiloxLanes b) {
#if defined(__AVX512F__)
  return reinterpret_cast<PhiloxLanes>(
      _mm512_maskz_mul_epu32(0xff, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<PhiloxLanes>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#elif defined(__SSE2__)
  return reinterpret_cast<PhiloxLanes>(
      _mm_mul_epu32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#else
  return (a & in_all_lanes(0xffffffffu)) * (b & in_all_lanes(0xffffffffu));
#endif
}

struct PhiloxBlocks {
  PhiloxLanes c0, c1, c2, c3;

  void round(PhiloxLanes k0, PhiloxLanes k1) {
    const PhiloxLanes p0 = product(c0, in_all_lanes(0xD2511F53u)),
                      p1 = product(c2, in_all_lanes(0xCD9E8D57u));
    c0 = (p1 >> 32) ^ c1 ^ k0;
    c1 = p1;
    c2 = (p0 >> 32) ^ c3 ^ k1;
    c3 = p0;
  }
};

inline void weave(PhiloxLanes even, PhiloxLanes odd, uint32_t* out) {
  const PhiloxLanes words = (even & in_all_lanes(0xffffffffu)) | (odd << 32);
  std::memcpy(out, &words, sizeof words);
}

// Computes the words of the 64 elements from 64 * index on.
void random_group(const RoundKeys& keys, uint64_t index, uint32_t* out) {
  PhiloxLanes places;
  for (int i = 0; i < kPhiloxLanes; ++i) places[i] = static_cast<uint64_t>(2 * i);
  for (int block = 0; block < kGroupBlocks; block += 2 * kPhiloxLanes) {
    const uint64_t first = index * kGroupBlocks + static_cast<uint64_t>(block);
    PhiloxBlocks even{places + first, in_all_lanes(first >> 32), in_all_lanes(keys.c2),
                      in_all_lanes(keys.c3)};
    PhiloxBlocks odd = even;
    odd.c0 += 1;
    for (int round = 0; round < RoundKeys::kRounds; ++round) {
      const PhiloxLanes k0 = in_all_lanes(keys.k0[round]), k1 = in_all_lanes(keys.k1[round]);
      even.round(k0, k1);
      odd.round(k0, k1);
    }
    weave(even.c0, odd.c0, out + block);
    weave(even.c1, odd.c1, out + kGroupBlocks + block);
    weave(even.c2, odd.c2, out + 2 * kGroupBlocks + block);
    weave(even.c3, odd.c3, out + 3 * kGroupBlocks + block);
  }
}

}  // namespace

void random_words(const RoundKeys& keys, uint64_t first, int64_t count, uint32_t* out) {
  for (const uint64_t end = first + static_cast<uint64_t>(count); first < end;) {
    const uint64_t skip = first % kGroup, take = std::min<uint64_t>(kGroup - skip, end - first);
    if (take == kGroup) {
      random_group(keys, first / kGroup, out);
    } else {
      alignas(64) uint32_t words[kGroup];
      random_group(keys, first / kGroup, words);
      std::copy_n(words + skip, take, out);
    }
    out += take;
    first += take;
  }
}

void DropoutMask::group(uint64_t index, float* out) const {
  alignas(64) uint32_t words[kGroup];
  random_group(keys_, index, words);
  // Local copies, because the compiler must assume that `out` overwrites the members.
  const uint32_t threshold = threshold_;
  const float scale = scale_;
#pragma omp simd
  for (int i = 0; i < kGroup; ++i) out[i] = words[i] < threshold ? 0.0f : scale;
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
