// Work divided over ranks is the same work: a vocabulary in parts gives the whole's loss and gradients, and
// dropout masks do not depend on where tokens, samples and heads are.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <thread>

#include "tests/engine/cpu_kernels.h"
#include "tests/engine/op_harness.h"
#include "tests/engine/rounding.h"
#include "tests/gpu/emulation/backend.h"

namespace recollect::test {
namespace {

// Where the parts of a vocabulary, one thread each, meet to reduce.
class Meeting {
 public:
  explicit Meeting(int parts) : barrier_(parts), slots_(parts) {}

  template <typename T, typename F>
  void reduce(int part, T* values, int64_t count, F combine) {
    slots_[part] = values;
    barrier_.arrive_and_wait();
    std::vector<T> result(static_cast<T*>(slots_[0]), static_cast<T*>(slots_[0]) + count);
    for (std::size_t other = 1; other < slots_.size(); ++other)
      for (int64_t i = 0; i < count; ++i) result[i] = combine(result[i], static_cast<T*>(slots_[other])[i]);
    barrier_.arrive_and_wait();
    std::copy(result.begin(), result.end(), values);
  }

 private:
  std::barrier<> barrier_;
  std::vector<void*> slots_;
};

class Part final : public VocabularyReduction {
 public:
  Part(Meeting& meeting, int part) : meeting_(meeting), part_(part) {}
  void max(double* values, int64_t count, void*) override { larger(values, count); }
  void max(float* values, int64_t count, void*) override { larger(values, count); }
  void sum(double* values, int64_t count, void*) override { total(values, count); }
  void sum(float* values, int64_t count, void*) override { total(values, count); }

 private:
  template <typename T>
  void larger(T* values, int64_t count) {
    meeting_.reduce(part_, values, count, [](T a, T b) { return std::max(a, b); });
  }
  template <typename T>
  void total(T* values, int64_t count) {
    meeting_.reduce(part_, values, count, [](T a, T b) { return a + b; });
  }

  Meeting& meeting_;
  int part_;
};

using Register = void (*)(KernelTable&, VocabularyReduction*);

struct DividingBackend {
  std::string name;
  Register register_kernels;
  Precision precision;
};

OpCase loss_case(int64_t rows, int64_t first_row, bool bias) {
  const ValueSpec targets{
      .name = "targets", .shape = {2, 5}, .storage = Storage::kI32, .fill = Fill::kTargets, .limit = 11};
  const ValueSpec scale{.name = "scale", .shape = {1}, .storage = Storage::kF64, .scale = 0, .offset = 0.25};
  OpCase c{.name = "divided_loss",
           .kind = "lm_head_loss",
           .inputs = {activation("x", {10, 7}), activation("w", {rows, 7}, 0.38), targets, scale},
           .attributes = {{"vocabulary_size", int64_t{11}},
                          {"first_row", first_row},
                          {"chunk_rows", int64_t{4}},
                          {"gradient", int64_t{1}}},
           .bf16_roundings = 5};
  if (bias) c.inputs.push_back(statistic("bias", {rows}, 0.3));
  return c;
}

Numbers slice(const Numbers& numbers, std::size_t first, std::size_t count) {
  return {numbers.begin() + first, numbers.begin() + first + count};
}

class DividedVocabulary : public ::testing::TestWithParam<DividingBackend> {
 protected:
  void compare(bool bias);
};

// 11 entries padded to 16 rows, four to a part: the last part holds nothing but padding.
void DividedVocabulary::compare(bool bias) {
  constexpr int parts = 4;
  constexpr std::size_t rows = 16 / parts;
  const DividingBackend& backend = GetParam();
  const OpCase whole = loss_case(16, 0, bias);
  const CaseData data = make_data(whole, backend.precision);
  KernelTable reference;
  reference::register_kernels(reference);
  const std::vector<Numbers> want = run_case(whole, data, reference, kDouble);

  Meeting meeting(parts);
  std::vector<std::vector<Numbers>> got(parts);
  std::vector<std::thread> threads;
  for (int part = 0; part < parts; ++part) {
    threads.emplace_back([&, part] {
      Part reduction(meeting, part);
      KernelTable kernels;
      backend.register_kernels(kernels, &reduction);
      CaseData mine = data;
      mine.inputs[1] = slice(data.inputs[1], part * rows * 7, rows * 7);
      if (bias) mine.inputs[4] = slice(data.inputs[4], part * rows, rows);
      got[part] = run_case(loss_case(rows, part * rows, bias), mine, kernels, backend.precision);
    });
  }
  for (std::thread& thread : threads) thread.join();

  Numbers dx(70, 0.0), dw, dbias;
  for (const auto& outputs : got) {
    EXPECT_EQ(outputs[0], got[0][0]) << "the parts disagree about the loss";
    for (std::size_t i = 0; i < dx.size(); ++i) dx[i] += outputs[1][i];
    dw.insert(dw.end(), outputs[2].begin(), outputs[2].end());
    if (bias) dbias.insert(dbias.end(), outputs[3].begin(), outputs[3].end());
  }
  const double condition = 4 + std::log(11.0);  // of e^(logit - lse), in exponents
  const double bound = result_bound(backend.precision.activation, 16, whole.bf16_roundings, condition);
  expect_close(got[0][0], want[0], bound, "loss");
  expect_close(dx, want[1], bound, "dx");
  expect_close(dw, want[2], bound, "dw");
  EXPECT_EQ(slice(dw, 77, 35), Numbers(35, 0.0)) << "padding learns";
  if (!bias) return;
  expect_close(dbias, want[3], bound, "dbias");
  EXPECT_EQ(slice(dbias, 11, 5), Numbers(5, 0.0)) << "padding learns";
}

TEST_P(DividedVocabulary, GivesTheWholesLossAndGradients) { compare(false); }
TEST_P(DividedVocabulary, GivesTheWholesLossAndGradientsWithABias) { compare(true); }

INSTANTIATE_TEST_SUITE_P(
    Backends, DividedVocabulary,
    ::testing::Values(DividingBackend{"reference_double", reference::register_kernels, kDouble},
                      DividingBackend{"reference_float", reference::register_kernels, kFloat},
                      DividingBackend{"cpu_float", register_cpu_kernels, kFloat},
                      DividingBackend{"cpu_bf16", register_cpu_kernels, kBfloat16},
                      DividingBackend{"cuda_float", emulation::register_kernels, kFloat},
                      DividingBackend{"cuda_bf16", emulation::register_kernels, kBfloat16}),
    [](const auto& info) { return info.param.name; });

class DividedDropout : public ::testing::TestWithParam<DividingBackend> {
 protected:
  std::vector<Numbers> run(const OpCase& c, const std::vector<Numbers>& inputs) {
    KernelTable kernels;
    GetParam().register_kernels(kernels, nullptr);
    CaseData data;
    data.inputs = inputs;
    return run_case(c, data, kernels, GetParam().precision);
  }
  Numbers run(const OpCase& c, const Numbers& input) { return run(c, std::vector<Numbers>{input})[0]; }
  std::vector<Numbers> inputs_of(const OpCase& c) { return make_data(c, GetParam().precision).inputs; }
};

OpCase dropout_case(int64_t tokens, int64_t first_token, int64_t first_sample) {
  OpCase c{.name = "divided_dropout",
           .kind = "dropout",
           .inputs = {activation("x", {tokens, 67})},
           .attributes = {{"p", 0.4},
                          {"layer", int64_t{3}},
                          {"site", int64_t{1}},
                          {"sequence_length", int64_t{6}},
                          {"first_token", first_token}}};
  c.state.first_sample = first_sample;
  c.state.token_stride = 6;
  return c;
}

TEST_P(DividedDropout, DropsTheSameElementsWhereverTokensAndSamplesAre) {
  const Numbers x = make_data(dropout_case(12, 0, 5), GetParam().precision).inputs[0];
  const Numbers whole = run(dropout_case(12, 0, 5), x);
  // Two sequence-parallel ranks of six tokens, then micro-batches of one sample.
  EXPECT_EQ(run(dropout_case(6, 0, 5), slice(x, 0, 6 * 67)), slice(whole, 0, 6 * 67));
  EXPECT_EQ(run(dropout_case(6, 6, 5), slice(x, 6 * 67, 6 * 67)), slice(whole, 6 * 67, 6 * 67));
  EXPECT_EQ(run(dropout_case(6, 0, 6), slice(x, 6 * 67, 6 * 67)), slice(whole, 6 * 67, 6 * 67));
  EXPECT_NE(run(dropout_case(12, 0, 6), x), whole) << "the sample does not matter";
}

OpCase attention_case(int64_t heads, int64_t first_head) {
  return {.name = "divided_attention",
          .kind = "attention",
          .inputs = {activation("qkv", {9, 3 * heads * 5})},
          .attributes = {{"heads", heads},
                         {"kv_heads", heads},
                         {"kv_group", int64_t{1}},
                         {"causal", int64_t{1}},
                         {"head_size", int64_t{5}},
                         {"sequence_length", int64_t{9}},
                         {"first_head", first_head},
                         {"all_heads", int64_t{4}},
                         {"p", 0.3},
                         {"layer", int64_t{3}},
                         {"site", int64_t{2}}}};
}

TEST_P(DividedDropout, DropsTheSameProbabilitiesWhereverHeadsAre) {
  const Numbers qkv = make_data(attention_case(4, 0), GetParam().precision).inputs[0];
  const Numbers whole = run(attention_case(4, 0), qkv);
  for (const int64_t first_head : {0, 2}) {
    Numbers part, want;  // two heads of q, k and v; two heads of o
    for (int64_t row = 0; row < 9; ++row) {
      for (int64_t which = 0; which < 3; ++which)
        for (int64_t i = 0; i < 10; ++i) part.push_back(qkv[(row * 3 + which) * 20 + first_head * 5 + i]);
      for (int64_t i = 0; i < 10; ++i) want.push_back(whole[row * 20 + first_head * 5 + i]);
    }
    EXPECT_EQ(run(attention_case(2, first_head), part), want);
  }
}

constexpr int64_t kReal = 5, kPadded = 9, kLongest = 12,
                  kDividedSamples = 3;  // tokens of a sample, and samples

// Rows of samples of kReal tokens, as they stand in a batch of longer ones.
Numbers padded(const Numbers& rows, int64_t width) {
  Numbers longer;
  for (int64_t sample = 0; sample < kDividedSamples; ++sample) {
    const Numbers own = slice(rows, sample * kReal * width, kReal * width);
    longer.insert(longer.end(), own.begin(), own.end());
    longer.resize(longer.size() + (kPadded - kReal) * width, 0.0);
  }
  return longer;
}

// The other way round.
Numbers real(const Numbers& rows, int64_t width) {
  Numbers kept;
  for (int64_t sample = 0; sample < kDividedSamples; ++sample) {
    const Numbers own = slice(rows, sample * kPadded * width, kReal * width);
    kept.insert(kept.end(), own.begin(), own.end());
  }
  return kept;
}

OpCase of_samples(OpCase c, int64_t length) {
  c.attributes.set("sequence_length", length);
  c.state.token_stride = kLongest;
  for (ValueSpec& input : c.inputs)
    if (input.shape.rank() == 2) input.shape = {kDividedSamples * length, input.shape[1]};
  return c;
}

TEST_P(DividedDropout, DropsTheSameElementsHoweverASampleIsPadded) {
  for (const int64_t width : {64, 67}) {
    OpCase alone{.name = "padded_dropout",
                 .kind = "dropout",
                 .inputs = {activation("x", {0, width})},
                 .attributes = {{"p", 0.4},
                                {"layer", int64_t{3}},
                                {"site", int64_t{1}},
                                {"sequence_length", int64_t{0}},
                                {"first_token", int64_t{0}}}};
    OpCase fused = alone, backward = alone;
    fused.kind = "bias_dropout_add";
    fused.inputs.push_back(statistic("bias", {width}));
    fused.inputs.push_back(activation("residual", {0, width}));
    backward.kind = "bias_dropout_add_backward";
    for (const OpCase& c : {alone, fused, backward}) {
      const std::vector<Numbers> inputs = inputs_of(of_samples(c, kReal));
      std::vector<Numbers> longer;
      for (std::size_t i = 0; i < inputs.size(); ++i)
        longer.push_back(c.inputs[i].shape.rank() == 2 ? padded(inputs[i], width) : inputs[i]);
      EXPECT_EQ(real(run(of_samples(c, kPadded), longer)[0], width), run(of_samples(c, kReal), inputs)[0])
          << c.kind << " of " << width;
    }
  }
}

TEST_P(DividedDropout, DropsTheSameProbabilitiesHoweverASampleIsPadded) {
  constexpr int64_t heads = 2, width = heads * 5;
  const OpCase forward = attention_case(heads, 1);
  OpCase backward = forward;
  backward.kind = "attention_backward";
  backward.inputs = {activation("do", {0, width}), forward.inputs[0], activation("o", {0, width}), {}};
  const auto lse = [](OpCase c, int64_t length) {
    c = of_samples(c, length);
    c.inputs[3] = statistic("lse", {kDividedSamples * heads, length});
    return c;
  };
  const Numbers qkv = inputs_of(of_samples(forward, kReal))[0], longer = padded(qkv, 3 * width);
  const std::vector<Numbers> out = run(of_samples(forward, kReal), std::vector<Numbers>{qkv}),
                             longer_out = run(of_samples(forward, kPadded), std::vector<Numbers>{longer});
  EXPECT_EQ(real(longer_out[0], width), out[0]);
  const Numbers d_o = inputs_of(lse(backward, kReal))[0];
  const Numbers gradient = run(lse(backward, kReal), {d_o, qkv, out[0], out[1]})[0],
                longer_gradient = run(lse(backward, kPadded),
                                      {padded(d_o, width), longer, longer_out[0], longer_out[1]})[0];
  EXPECT_EQ(real(longer_gradient, 3 * width), gradient);
}

INSTANTIATE_TEST_SUITE_P(
    Backends, DividedDropout,
    ::testing::Values(DividingBackend{"reference_double", reference::register_kernels, kDouble},
                      DividingBackend{"cpu_float", register_cpu_kernels, kFloat},
                      DividingBackend{"cpu_bf16", register_cpu_kernels, kBfloat16},
                      DividingBackend{"cuda_float", emulation::register_kernels, kFloat},
                      DividingBackend{"cuda_bf16", emulation::register_kernels, kBfloat16}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace recollect::test
