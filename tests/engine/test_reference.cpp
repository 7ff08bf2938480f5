// The reference means what ops.h says: small answers computed by PyTorch 2.15 in double (torch.nn.functional,
// inputs sin(start), sin(start + 1), ...), and dropout by its definition. Comparisons between backends cannot
// see a mistake that all of them share; these can.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/core/philox.h"
#include "tests/engine/op_harness.h"

namespace recollect::test {
namespace {

constexpr double kTolerance = 1e-14;

Numbers sines(double start, int64_t count) {
  Numbers numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(std::sin(start + static_cast<double>(i)));
  return numbers;
}

std::vector<Numbers> run(const OpCase& c, std::vector<Numbers> inputs) {
  KernelTable kernels;
  reference::register_kernels(kernels);
  CaseData data;
  data.inputs = std::move(inputs);
  return run_case(c, data, kernels, kDouble);
}

TEST(Reference, GeluIsTorchs) {
  const Numbers x{-3.0, -1.0, -0.1, 0.0, 0.5, 2.0, 7.0};
  const auto gelu = [&](const char* form) {
    return run({.name = "gelu",
                .kind = "bias_gelu",
                .inputs = {activation("x", {1, 7}), statistic("bias", {7})},
                .attributes = {{"form", std::string(form)}}},
               {x, Numbers(7, 0.25)})[0];
  };
  expect_close(gelu("tanh"),
               {-0.007723144073617988, -0.17003944483437966, 0.0839424898329261, 0.149675350701685,
                0.5799605551656203, 2.222798670102711, 7.25},
               kTolerance, "tanh form");
  expect_close(gelu("erf"),
               {-0.008194348896400028, -0.16997051428265111, 0.08394265385553637, 0.14967658142073093,
                0.5800294857173489, 2.2224949365261493, 7.249999999998489},
               kTolerance, "erf form");
}

TEST(Reference, LayerNormIsTorchs) {
  const auto outputs =
      run({.name = "norm",
           .kind = "layer_norm",
           .inputs = {activation("x", {2, 3}), statistic("weight", {3}), statistic("bias", {3})},
           .attributes = {{"epsilon", 1e-5}}},
          {sines(1, 6), sines(2, 3), sines(3, 3)});
  expect_close(outputs[0],
               {0.6932136497228889, -0.6435556055626418, 0.10790349367648298, -0.15171653560936296,
                -0.9023628813126943, -1.9832657608743425},
               kTolerance, "y");
  EXPECT_NEAR(outputs[1][0], (std::sin(1) + std::sin(2) + std::sin(3)) / 3, kTolerance);
}

TEST(Reference, LinearIsTorchs) {
  const OpCase c{.name = "linear",
                 .kind = "linear",
                 .inputs = {activation("x", {2, 3}), activation("w", {2, 3}), statistic("bias", {2})}};
  expect_close(run(c, {sines(1, 6), sines(2, 6), sines(3, 2)})[0],
               {0.927787495259034, -1.725067288485996, -0.47089960864349634, 0.0532798547174963}, kTolerance,
               "y");
}

OpCase attention_case(double p) {
  return {.name = "attention",
          .kind = "attention",
          .inputs = {activation("qkv", {6, 12})},
          .attributes = {{"heads", int64_t{2}},
                         {"kv_heads", int64_t{2}},
                         {"kv_group", int64_t{1}},
                         {"causal", int64_t{1}},
                         {"head_size", int64_t{2}},
                         {"sequence_length", int64_t{3}},
                         {"first_head", int64_t{3}},
                         {"all_heads", int64_t{7}},
                         {"p", p},
                         {"layer", int64_t{9}},
                         {"site", int64_t{4}}}};
}

TEST(Reference, AttentionIsTorchs) {
  const auto outputs = run(attention_case(0), {sines(1, 72)});
  expect_close(outputs[0],
               {0.4121184852417566, -0.5440211108893698, -0.9999902065507035, -0.5365729180004349,
                0.589568263538768,  -0.3203286450873025, -0.9314384617632665, -0.7010783451512739,
                0.7070535476053964, -0.0818472896632074, -0.8304850633141657, -0.7517988556754686,
                0.8509035245341184, 0.9017883476488092,  0.123573122745224,   -0.7682546613236668,
                0.6884688191908169, 0.9374620116473276,  0.32266972616215295, -0.5884486436323214,
                0.5623402414170873, 0.90748462013456,    0.4847663860823176,  -0.37463173480687223},
               kTolerance, "o");
  expect_close(outputs[1],
               {-0.7502252668996697, 0.0606374371734309, 0.830866968446339, -0.46388668101215524,
                0.6909288932317493, 1.3983806401619718, -0.11988886037628325, 0.7740293315574284,
                1.2230516514061407, -0.5575329943011827, 0.10913887840950226, 0.7195177318272211},
               kTolerance, "lse");
}

TEST(Reference, AttentionDropsProbabilitiesByTheirGlobalIndex) {
  const OpCase c = attention_case(0.5);
  const Numbers qkv = sines(1, 72);
  const auto outputs = run(c, {qkv});
  const RandomKey key{.seed = c.state.seed, .step = 7, .layer = 9, .site = 4};
  Numbers want(24, 0.0);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t head = 0; head < 2; ++head)
      for (int64_t query = 0; query < 3; ++query)
        for (int64_t k = 0; k <= query; ++k) {
          const auto at = [&](int64_t part, int64_t token) {
            return (b * 3 + token) * 12 + part * 4 + head * 2;
          };
          const double score = qkv[at(0, query)] * qkv[at(1, k)] + qkv[at(0, query) + 1] * qkv[at(1, k) + 1];
          const double probability =
              std::exp(score / std::sqrt(2.0) - outputs[1][(b * 2 + head) * 3 + query]);
          const int64_t index = (((3 + b) * 7 + 3 + head) * 256 + query) * 256 + k;
          if (random_word(key, index) < (1u << 31)) continue;
          for (int64_t i = 0; i < 2; ++i)
            want[(b * 3 + query) * 4 + head * 2 + i] += 2 * probability * qkv[at(2, k) + i];
        }
  expect_close(outputs[0], want, kTolerance, "o");
}

TEST(Reference, DropoutDropsByTheGlobalIndex) {
  const OpCase c{.name = "dropout",
                 .kind = "bias_dropout_add",
                 .inputs = {activation("x", {4, 3}), statistic("bias", {3}), activation("residual", {4, 3})},
                 .attributes = {{"p", 0.5},
                                {"layer", int64_t{9}},
                                {"site", int64_t{4}},
                                {"sequence_length", int64_t{3}},
                                {"first_token", int64_t{2}}}};
  const Numbers y = run(c, {sines(1, 12), sines(2, 3), sines(3, 12)})[0];
  const RandomKey key{.seed = c.state.seed, .step = 7, .layer = 9, .site = 4};
  Numbers want = sines(3, 12);
  for (int64_t i = 0; i < 12; ++i)
    if (random_word(key, ((i < 3 ? 3 * 256 + 2 : 4 * 256 - 1) * 3 + i)) >= (1u << 31))  // the second sample's
      want[i] += 2 * (sines(1, 12)[i] + sines(2, 3)[i % 3]);
  expect_close(y, want, kTolerance, "y");
}

TEST(Reference, LossAndItsGradientsAreTorchs) {
  OpCase c{.name = "loss",
           .kind = "lm_head_loss",
           .inputs = {activation("x", {6, 2}),
                      activation("w", {5, 2}),
                      {.name = "targets", .shape = {2, 3}, .storage = Storage::kI32},
                      {.name = "scale", .shape = {1}, .storage = Storage::kF64}},
           .attributes = {{"vocabulary_size", int64_t{5}},
                          {"first_row", int64_t{0}},
                          {"chunk_rows", int64_t{4}},
                          {"gradient", int64_t{1}}}};
  const Numbers targets{0, 3, -100, -100, 2, -100};
  const auto outputs = run(c, {sines(1, 12), sines(5, 10), targets, {0.25}});
  expect_close(outputs[0], {1.4293789800691217}, kTolerance, "loss");
  expect_close(outputs[1],
               {0.34887897678607444, 0.25879801244901207, 0.19366271110295669, 0.09110772350378457, 0, 0, 0,
                0, -0.11296828226125842, 0.12979353621635212, 0, 0},
               kTolerance, "dx");
  expect_close(outputs[2],
               {-0.17778303296934825, -0.282212656681256, 0.11752156430478268, 0.06333707753608633,
                -0.037380542950563096, 0.05081207969623323, -0.0007278077604187767, 0.12087397762871514,
                0.09836981937554742, 0.047189521820221264},
               kTolerance, "dw");
  EXPECT_THROW(run(c, {sines(1, 12), sines(5, 10), {5, 3, -100, -100, 2, -100}, {0.25}}), Error);
}

TEST(Reference, ClippingIsTorchs) {
  const OpCase c{.name = "clip",
                 .kind = "clip_factor",
                 .inputs = {{.name = "sharded", .shape = {1}, .storage = Storage::kF64},
                            {.name = "replicated", .shape = {1}, .storage = Storage::kF64}},
                 .attributes = {{"max_norm", 2.0}}};
  const auto outputs = run(c, {{25.0}, {144.0}});
  EXPECT_EQ(outputs[0][0], 13);
  EXPECT_NEAR(outputs[1][0], 0.15384614201183525, 1e-16);
}

TEST(Reference, RefusesBfloat16) {
  const OpCase c{.name = "add", .kind = "add", .inputs = {activation("a", {2, 3}), activation("b", {2, 3})}};
  KernelTable kernels;
  reference::register_kernels(kernels);
  try {
    run_case(c, make_data(c, kBfloat16), kernels, kBfloat16);
    FAIL() << "computed in bf16";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kConfiguration);
    EXPECT_NE(std::string(error.what()).find("bf16"), std::string::npos) << error.what();
  }
}

// What an accumulating run leaves is what was there plus what an overwriting run leaves.
class Accumulation : public ::testing::TestWithParam<OpCase> {};

TEST_P(Accumulation, AddsToWhatIsThere) {
  OpCase c = GetParam();
  const CaseData data = make_data(c, kDouble);
  KernelTable kernels;
  reference::register_kernels(kernels);
  const auto added = run_case(c, data, kernels, kDouble);
  c.accumulate = false;
  auto want = run_case(c, data, kernels, kDouble);
  for (const auto& [output, numbers] : data.accumulators)
    for (std::size_t i = 0; i < numbers.size(); ++i) want[output][i] += numbers[i];
  for (std::size_t i = 0; i < want.size(); ++i)
    expect_close(added[i], want[i], 1e-13, "output " + std::to_string(i));
}

std::vector<OpCase> accumulating_cases() {
  std::vector<OpCase> result;
  for (const OpCase& c : op_cases())
    if (c.accumulate && c.name.ends_with("_accumulate")) result.push_back(c);
  return result;
}

INSTANTIATE_TEST_SUITE_P(Ops, Accumulation, ::testing::ValuesIn(accumulating_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace recollect::test
