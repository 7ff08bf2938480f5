// The logarithm, sine and cosine of many numbers at once come from polynomials, in double and good to some 2^-50. They are not
// the C library's last bits, and need not be: the float is taken where everything within 2^-42 of the number rounds to it, and
// else, for one element in 100 000, it is made as engine/core/normals.h says.
#include "engine/ops/cpu/draw_normals.h"

#include <algorithm>
#include <bit>
#include <numbers>

namespace recollect::cpu {

namespace {

constexpr int kDrawnBlocks = 64, kDrawnGroup = 4 * kDrawnBlocks;  // made together

#if defined(__AVX2__)  // narrower vectors are slower than the C library

constexpr double kDrawMargin = 0x1p-42;

// A whole number below 2^52 as a double.
inline double exact_double(uint64_t number) {
  return std::bit_cast<double>(0x4330000000000000u | number) - 0x1p52;
}

// Of 2^-33 <= u < 1, as 2^exponent * m with m from sqrt(1/2) to sqrt(2).
inline double logarithm(double u) {
  constexpr uint64_t kRootHalf = 0x3fe6a09e667f3bcdu;
  constexpr int kBias = 64;  // so that no exponent is negative
  const uint64_t bits = std::bit_cast<uint64_t>(u);
  const uint64_t exponent = (bits - kRootHalf + (uint64_t{kBias} << 52)) >> 52;
  const double f = std::bit_cast<double>(bits - ((exponent - kBias) << 52)) - 1;
  const double s = f / (2 + f), z = s * s;
  double p = 1.0 / 19;
  p = p * z + 1.0 / 17;
  p = p * z + 1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  return (exact_double(exponent) - kBias) * std::numbers::ln2 + (2 * s + 2 * s * (z * p));
}

struct Circle {
  double cosine, sine;
};

// Of 0 <= angle <= 2 pi. What is left of it beyond quarters of a turn keeps all its bits: pi / 2 is subtracted in two parts, of
// which a multiple of the first is exact.
inline Circle circle(double angle) {
  constexpr double kFirst = 0x1.921fb544p+0, kSecond = 0x1.0b4611a626331p-34, kRounder = 0x1.8p52;
  const double shifted = angle * (2 / std::numbers::pi) + kRounder, quarters = shifted - kRounder;
  const uint64_t quarter = std::bit_cast<uint64_t>(shifted) & 3;
  const double x = (angle - quarters * kFirst) - quarters * kSecond, z = x * x;
  double p = -1.0 / 1307674368000;  // 1 / 15!
  p = p * z + 1.0 / 6227020800;
  p = p * z - 1.0 / 39916800;
  p = p * z + 1.0 / 362880;
  p = p * z - 1.0 / 5040;
  p = p * z + 1.0 / 120;
  p = p * z - 1.0 / 6;
  const double sine = x + x * (z * p);
  double q = 1.0 / 20922789888000;  // 1 / 16!
  q = q * z - 1.0 / 87178291200;
  q = q * z + 1.0 / 479001600;
  q = q * z - 1.0 / 3628800;
  q = q * z + 1.0 / 40320;
  q = q * z - 1.0 / 720;
  q = q * z + 1.0 / 24;
  q = q * z - 0.5;
  const double cosine = 1 + z * q;
  const bool turned = (quarter & 1) != 0;
  const auto with_sign = [](double value, uint64_t bit) {
    return std::bit_cast<double>(std::bit_cast<uint64_t>(value) ^ (bit << 62));
  };
  return {with_sign(turned ? sine : cosine, (quarter + 1) & 2),
          with_sign(turned ? cosine : sine, quarter & 2)};
}

void draw_words(const DrawKey& key, uint64_t first_block, uint32_t (&words)[4][kDrawnBlocks]) {
  const auto seed = static_cast<uint32_t>(key.seed), seed_above = static_cast<uint32_t>(key.seed >> 32),
             place = static_cast<uint32_t>(key.place);
#pragma omp simd
  for (int b = 0; b < kDrawnBlocks; ++b) {
    const uint64_t block = first_block + static_cast<uint64_t>(b);
    uint32_t c0 = static_cast<uint32_t>(block), c1 = static_cast<uint32_t>(block >> 32), c2 = kInitLayer << 8,
             c3 = place, k0 = seed, k1 = seed_above;
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * c0, p1 = uint64_t{0xCD9E8D57u} * c2;
      c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
      c1 = static_cast<uint32_t>(p1);
      c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
      c3 = static_cast<uint32_t>(p0);
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    words[0][b] = c0;
    words[1][b] = c1;
    words[2][b] = c2;
    words[3][b] = c3;
  }
}

// The two numbers of each block that come from these words. Whether any may be rounded wrongly; `unsure` says which.
bool draw_pair(const uint32_t* radii, const uint32_t* angles, double scale, float* cosines, float* sines,
               int32_t* unsure_cosines, int32_t* unsure_sines) {
  int32_t any = 0;
#pragma omp simd reduction(| : any)
  for (int b = 0; b < kDrawnBlocks; ++b) {
    const double radius = std::sqrt(-2.0 * logarithm((exact_double(radii[b]) + 0.5) * 0x1p-32));
    const Circle at = circle(2.0 * std::numbers::pi * ((exact_double(angles[b]) + 0.5) * 0x1p-32));
    const double c = scale * (radius * at.cosine), s = scale * (radius * at.sine);
    const auto c_low = static_cast<float>(c * (1 - kDrawMargin)),
               s_low = static_cast<float>(s * (1 - kDrawMargin));
    const auto c_high = static_cast<float>(c * (1 + kDrawMargin)),
               s_high = static_cast<float>(s * (1 + kDrawMargin));
    cosines[b] = c_low;
    sines[b] = s_low;
    unsure_cosines[b] = c_low != c_high;
    unsure_sines[b] = s_low != s_high;
    any |= unsure_cosines[b] | unsure_sines[b];
  }
  return any != 0;
}

// Elements from 4 * first_block on.
void draw_group(const DrawKey& key, uint64_t first_block, double scale, float* out) {
  alignas(64) uint32_t words[4][kDrawnBlocks];
  alignas(64) float numbers[4][kDrawnBlocks];
  alignas(64) int32_t unsure[4][kDrawnBlocks];
  draw_words(key, first_block, words);
  bool any = false;
  for (int i = 0; i < 4; i += 2)
    any |= draw_pair(words[i], words[i + 1], scale, numbers[i], numbers[i + 1], unsure[i], unsure[i + 1]);
  for (int b = 0; b < kDrawnBlocks; ++b)
    for (int i = 0; i < 4; ++i) out[4 * b + i] = numbers[i][b];
  for (int b = 0; any && b < kDrawnBlocks; ++b)
    for (int i = 0; i < 4; ++i)
      if (unsure[i][b] != 0)
        out[4 * b + i] = static_cast<float>(
            scale * normals(key, first_block + static_cast<uint64_t>(b))[static_cast<std::size_t>(i)]);
}

#else

void draw_group(const DrawKey& key, uint64_t first_block, double scale, float* out) {
  for (int b = 0; b < kDrawnBlocks; ++b)
    for (const double z : normals(key, first_block + static_cast<uint64_t>(b)))
      *out++ = static_cast<float>(scale * z);
}

#endif

}  // namespace

void draw_normals(const DrawKey& key, uint64_t first, int64_t count, double scale, float* out) {
  for (const uint64_t end = first + static_cast<uint64_t>(count); first < end;) {
    const uint64_t skip = first % kDrawnGroup, take = std::min<uint64_t>(kDrawnGroup - skip, end - first);
    if (take == kDrawnGroup) {
      draw_group(key, first / 4, scale, out);
    } else {
      float all[kDrawnGroup];
      draw_group(key, (first - skip) / 4, scale, all);
      std::copy_n(all + skip, take, out);
    }
    out += take;
    first += take;
  }
}

}  // namespace recollect::cpu
