// How the next token is chosen: the probabilities that Transformers' logits processors leave (generation.json of
// tests/golden/make_generation_goldens.py), and draws that have these frequencies.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <vector>

#include "engine/io/json.h"
#include "launch/generate/sampler.h"
#include "tests/engine/expect_error.h"

namespace recollect::test::sampler_test {
namespace {

nlohmann::json goldens() {
  nlohmann::json json;
  std::ifstream(RECOLLECT_SOURCE_DIR "/tests/golden/generation.json") >> json;
  return json;
}

using Doubles = std::vector<double>;

Sampling drawing(double temperature, int64_t top_k, double top_p, uint64_t seed = 5) {
  return {.draws = true, .temperature = temperature, .top_k = top_k, .top_p = top_p, .seed = seed};
}

int64_t size_of_vocabulary(const Doubles& logits) { return static_cast<int64_t>(logits.size()); }

TEST(Sampler, LeavesTheProbabilitiesThatTransformersLeaves) {
  const nlohmann::json golden = goldens();
  const Doubles logits = golden["logits"];
  ASSERT_GE(golden["sampled"].size(), 9u);
  for (const nlohmann::json& c : golden["sampled"]) {
    Sampler sampler(drawing(c["temperature"], c["top_k"], c["top_p"]), size_of_vocabulary(logits));
    const auto got = sampler.probabilities(logits);
    const Doubles want = c["probabilities"];
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(got[i], want[i], 1e-12) << c.dump() << ", token " << i;
      EXPECT_EQ(got[i] == 0, want[i] == 0) << c.dump() << ", token " << i;
    }
  }
}

// 20 000 places of a sequence; each frequency within five standard deviations.
TEST(Sampler, DrawsEachTokenAsOftenAsItsProbabilitySays) {
  const Doubles logits = goldens()["logits"];
  constexpr int kDraws = 20000;
  for (const Sampling& sampling : {drawing(1, 0, 1), drawing(1.3, 6, 0.8), drawing(0.7, 3, 1)}) {
    Sampler sampler(sampling, size_of_vocabulary(logits));
    const auto span = sampler.probabilities(logits);
    const Doubles probabilities(span.begin(), span.end());
    std::vector<int> times(logits.size());
    for (int64_t position = 0; position < kDraws; ++position)
      ++times.at(static_cast<std::size_t>(sampler.next(logits, 0, position)));
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const double p = probabilities[i], expected = kDraws * p, deviation = std::sqrt(kDraws * p * (1 - p));
      EXPECT_LE(std::abs(times[i] - expected), 5 * deviation) << "token " << i;
    }
  }
}

TEST(Sampler, ADrawFollowsFromSeedPromptAndPlaceAlone) {
  const Doubles logits(50, 0.0);
  const auto draws = [&](uint64_t seed, uint64_t prompt) {
    Sampler sampler(drawing(1, 0, 1, seed), size_of_vocabulary(logits));
    std::vector<int32_t> ids;
    for (int64_t position = 0; position < 40; ++position)
      ids.push_back(sampler.next(logits, prompt, position));
    return ids;
  };
  EXPECT_EQ(draws(1, 0), draws(1, 0));
  EXPECT_NE(draws(1, 0), draws(2, 0));
  EXPECT_NE(draws(1, 0), draws(1, 1));
}

TEST(Sampler, WithoutDrawsTheFirstOfTheMostProbableIsTaken) {
  Sampler sampler({}, 4);
  EXPECT_EQ(sampler.next(Doubles{1, 3, 3, 2}, 0, 0), 1);
  EXPECT_EQ(sampler.next(Doubles{-7, -8, -9, -6}, 0, 0), 3);
}

TEST(Sampler, WhatIsNoNumberIsAnError) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN(), kMuch = HUGE_VAL;
  for (const Sampling& sampling : {Sampling{}, drawing(1, 2, 0.5)}) {
    Sampler sampler(sampling, 3);
    for (const Doubles& logits :
         {Doubles{0, kNone, 1}, Doubles{0, kMuch, 1}, Doubles{-kMuch, -kMuch, -kMuch}})
      expect_error(ExitCode::kNumerics, {"not finite"}, [&] { sampler.next(logits, 0, 0); });
    EXPECT_EQ(sampler.next(Doubles{-kMuch, 2, -kMuch}, 0, 0), 1);
  }
}

}  // namespace
}  // namespace recollect::test::sampler_test
