// Sequences that share a sample get what each gets in a sample of its own, and their dropout is that of their places.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/engine/cpu_kernels.h"
#include "tests/engine/op_harness.h"
#include "tests/engine/rounding.h"
#include "tests/gpu/emulation/backend.h"

namespace recollect::test::attention_segments_test {
namespace {

constexpr int64_t kHeads = 3, kKvHeads = 3, kSize = 24, kWidth = kHeads * kSize,
                  kRow = kWidth + 2 * kKvHeads * kSize;

struct Segment {
  int64_t first, tokens;
};
// Shorter and longer than the blocks of every kernel, and padding behind the third and at the end.
constexpr Segment kSegments[] = {{0, 40}, {40, 1}, {41, 131}, {175, 70}};
constexpr int64_t kLength = 250;

OpCase forward_case(int64_t length, bool causal, double p, int64_t window = 0) {
  OpCase c{.name = "attention",
           .kind = "attention",
           .inputs = {activation("qkv", {length, kRow})},
           .attributes = {{"heads", kHeads},
                          {"kv_heads", kKvHeads},
                          {"kv_group", int64_t{1}},
                          {"head_size", kSize},
                          {"sequence_length", length},
                          {"causal", int64_t{causal}},
                          {"first_head", int64_t{0}},
                          {"all_heads", kHeads},
                          {"p", p},
                          {"layer", int64_t{1}},
                          {"site", int64_t{0}}}};
  if (window > 0) c.attributes.set("window", window);
  return c;
}

OpCase backward_case(int64_t length, bool causal, double p, int64_t window = 0) {
  OpCase c = forward_case(length, causal, p, window);
  c.kind = "attention_backward";
  c.inputs = {activation("do", {length, kWidth}), activation("qkv", {length, kRow}),
              activation("o", {length, kWidth}), statistic("lse", {kHeads, length})};
  return c;
}

OpCase packed(OpCase c) {
  c.inputs.insert(c.inputs.end(), 2, absent());
  c.inputs.push_back({.name = "positions", .shape = {1, kLength}, .storage = Storage::kI32});
  return c;
}

Numbers positions() {
  Numbers numbers(kLength, -1);
  for (const Segment& s : kSegments)
    for (int64_t i = 0; i < s.tokens; ++i) numbers[s.first + i] = static_cast<double>(i);
  return numbers;
}

// Of one segment: rows of `numbers`, which has `width` for each token of a sample; or of lse, by head.
Numbers cut(const Numbers& numbers, const Segment& s, int64_t width) {
  return {numbers.begin() + s.first * width, numbers.begin() + (s.first + s.tokens) * width};
}
Numbers cut_lse(const Numbers& lse, const Segment& s) {
  Numbers out;
  for (int64_t head = 0; head < kHeads; ++head) {
    const auto first = lse.begin() + head * kLength + s.first;
    out.insert(out.end(), first, first + s.tokens);
  }
  return out;
}

struct Backend {
  const char* name;
  void (*register_kernels)(KernelTable&, VocabularyReduction*);
  Precision precision;
  bool same_bits;
};

class AttentionSegments : public ::testing::TestWithParam<Backend> {
 protected:
  void SetUp() override { GetParam().register_kernels(kernels_, nullptr); }

  // o and lse, or the gradient of qkv.
  std::vector<Numbers> run(const OpCase& c, std::vector<Numbers> inputs) const {
    return run_case(c, {.inputs = std::move(inputs), .accumulators = {}}, kernels_, GetParam().precision);
  }
  void expect_equal(const Numbers& got, const Numbers& want, const std::string& what) const {
    if (GetParam().same_bits)
      EXPECT_EQ(got, want) << what;
    else
      expect_close(got, want, 2 * result_bound(GetParam().precision.activation, kLength), what);  // of both
  }

  KernelTable kernels_;
};

TEST_P(AttentionSegments, AreAsInSamplesOfTheirOwn) {
  for (const auto& [causal, window] : {std::pair{true, 0}, {false, 0}, {true, 50}, {false, 35}}) {
    const OpCase forward = packed(forward_case(kLength, causal, 0, window)),
                 backward = packed(backward_case(kLength, causal, 0, window));
    std::vector<Numbers> in = make_data(forward, GetParam().precision).inputs;
    in.back() = positions();
    const std::vector<Numbers> out = run(forward, in);
    const Numbers d_o = make_data(backward, GetParam().precision).inputs[0];
    const Numbers dqkv = run(backward, {d_o, in[0], out[0], out[1], {}, {}, in.back()})[0];
    for (const Segment& s : kSegments) {
      const std::string what =
          std::to_string(s.tokens) + (causal ? " causal" : "") + (window ? " window" : "");
      const Numbers qkv = cut(in[0], s, kRow);
      const std::vector<Numbers> alone = run(forward_case(s.tokens, causal, 0, window), {qkv});
      expect_equal(cut(out[0], s, kWidth), alone[0], what);
      expect_equal(cut_lse(out[1], s), alone[1], what + " lse");
      if (s.tokens == 1 && !GetParam().same_bits) continue;  // its gradient is what rounding leaves
      expect_equal(
          cut(dqkv, s, kRow),
          run(backward_case(s.tokens, causal, 0, window), {cut(d_o, s, kWidth), qkv, alone[0], alone[1]})[0],
          what + " gradient");
    }
    for (int64_t token = 0; token < kLength; ++token) {
      if (in.back()[token] >= 0) continue;
      for (int64_t c = 0; c < kWidth; ++c) ASSERT_EQ(out[0][token * kWidth + c], 0) << token;
      for (int64_t c = 0; c < kRow; ++c) ASSERT_EQ(dqkv[token * kRow + c], 0) << token;
      for (int64_t head = 0; head < kHeads; ++head) ASSERT_EQ(out[1][head * kLength + token], 0) << token;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, AttentionSegments,
                         ::testing::Values(Backend{"reference_double", reference::register_kernels, kDouble,
                                                   true},
                                           Backend{"cpu_float", register_cpu_kernels, kFloat, true},
                                           Backend{"cpu_bf16", register_cpu_kernels, kBfloat16, true},
                                           Backend{"cuda_float", emulation::register_kernels, kFloat, false}),
                         [](const auto& info) { return info.param.name; });

// A query drops what it would drop of the same keys in a sample that is one sequence. Scores are equal and the values of
// a segment's keys are ones, all others zero: an output counts which of those keys stay.
TEST(AttentionSegmentDropout, IsThatOfTheirPlaces) {
  KernelTable kernels;
  register_cpu_kernels(kernels);
  const OpCase whole = forward_case(kLength, true, 0.5);
  const double bound = 2 * result_bound(DType::kF32, kLength);  // outputs are at most 2
  int64_t dropped = 0;
  for (const Segment& s : kSegments) {
    Numbers qkv(kLength * kRow, 0);
    for (int64_t token = s.first; token < s.first + s.tokens; ++token)
      std::fill_n(qkv.begin() + token * kRow + 2 * kWidth, kWidth, 1.0);
    const Numbers one = run_case(whole, {.inputs = {qkv}, .accumulators = {}}, kernels, kFloat)[0],
                  several =
                      run_case(packed(whole), {.inputs = {qkv, {}, {}, positions()}, .accumulators = {}},
                               kernels, kFloat)[0];
    for (int64_t i = 0; i < s.tokens; ++i)
      for (int64_t head = 0; head < kHeads; ++head) {
        const int64_t query = s.first + i, at = query * kWidth + head * kSize;
        const double kept = std::round(several[at] * static_cast<double>(i + 1) / 2);
        EXPECT_NEAR(several[at], 2 * kept / static_cast<double>(i + 1), bound);
        EXPECT_NEAR(one[at], 2 * kept / static_cast<double>(query + 1), bound) << query << ", head " << head;
        dropped += i + 1 - static_cast<int64_t>(kept);
      }
  }
  EXPECT_GT(dropped, 1000);
}

}  // namespace
}  // namespace recollect::test::attention_segments_test
