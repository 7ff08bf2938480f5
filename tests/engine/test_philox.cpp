// Philox is the published one, elements map to its words as documented, and dropout drops as often as it
// says.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "engine/core/philox.h"

namespace recollect {
namespace {

using Words = std::array<uint32_t, 4>;

// The vectors that Random123 publishes for philox4x32-10 (kat_vectors).
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, 0, 0), (Words{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  constexpr uint32_t ones = 0xffffffffu;
  EXPECT_EQ(philox4x32({ones, ones, ones, ones}, ones, ones),
            (Words{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(philox4x32({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, 0xa4093822u, 0x299f31d0u),
            (Words{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST(Philox, MapsElementsToLanesOfBlocks) {
  const RandomKey key{.seed = 0x0123456789abcdefu, .step = 77, .layer = 5, .site = 3};
  for (const uint64_t element : {0ull, 1ull, 15ull, 16ull, 63ull, 64ull, 1000ull, (1ull << 40) + 37}) {
    const uint64_t group = element / 64, lane = element % 64 / 16, block = group * 16 + element % 16;
    const Words words =
        philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0x503u, 77u},
                   0x89abcdefu, 0x01234567u);
    EXPECT_EQ(random_word(key, element), words[lane]) << "element " << element;
  }
}

TEST(Philox, GivesEveryElementOfTwoGroupsItsOwnWord) {
  std::set<uint32_t> words;
  for (uint64_t element = 0; element < 128; ++element) words.insert(random_word({.seed = 1}, element));
  EXPECT_EQ(words.size(), 128u);
}

TEST(Philox, DependsOnEveryPartOfTheKey) {
  const RandomKey key{.seed = 1, .step = 2, .layer = 3, .site = 4};
  const uint32_t word = random_word(key, 5);
  EXPECT_EQ(random_word(key, 5), word);
  RandomKey other = key;
  other.seed = 1 + (1ull << 32);
  EXPECT_NE(random_word(other, 5), word);
  other = key, other.step = 3;
  EXPECT_NE(random_word(other, 5), word);
  other = key, other.layer = 4;
  EXPECT_NE(random_word(other, 5), word);
  other = key, other.site = 5;
  EXPECT_NE(random_word(other, 5), word);
}

TEST(Dropout, ThresholdIsTheProbabilityTimesTwoToThe32) {
  EXPECT_EQ(dropout_threshold(0), 0u);
  EXPECT_EQ(dropout_threshold(0.25), 1u << 30);
  EXPECT_EQ(dropout_threshold(0.5), 1u << 31);
  EXPECT_EQ(dropout_threshold(1), 0xffffffffu);
  EXPECT_NEAR(dropout_threshold(0.1) * 0x1p-32, 0.1, 0x1p-32);
}

TEST(Dropout, DropsAsOftenAsItSays) {
  constexpr int64_t count = 1 << 20;
  for (const double p : {0.01, 0.1, 0.5, 0.9}) {
    const uint32_t threshold = dropout_threshold(p);
    int64_t dropped = 0, both = 0;  // both: an element and its neighbour
    bool before = false;
    for (int64_t i = 0; i < count; ++i) {
      const bool now = random_word({.seed = 42, .step = 1}, i) < threshold;
      dropped += now;
      both += now && before;
      before = now;
    }
    EXPECT_NEAR(double(dropped) / count, p, 5 * std::sqrt(p * (1 - p) / count)) << "p = " << p;
    EXPECT_NEAR(double(both) / count, p * p, 6 * std::sqrt(p * p * (1 - p * p) / count)) << "p = " << p;
  }
}

TEST(RandomUnit, IsUniformAndNeverAnEnd) {
  constexpr int64_t count = 1 << 20;
  double sum = 0, squares = 0, low = 1, high = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double u = random_unit({.seed = 9}, i);
    sum += u;
    squares += u * u;
    low = std::fmin(low, u);
    high = std::fmax(high, u);
  }
  EXPECT_GT(low, 0);
  EXPECT_LT(high, 1);
  EXPECT_NEAR(sum / count, 0.5, 5 * std::sqrt(1.0 / 12 / count));
  EXPECT_NEAR(squares / count, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / count));
}

}  // namespace
}  // namespace recollect
