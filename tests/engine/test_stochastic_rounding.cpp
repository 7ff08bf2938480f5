// Rounding to bf16 by chance: right on average, the same in every layout of ranks, and what the update rules do with a
// parameter that has no copy in more bits.
#include "engine/ops/stochastic_rounding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/ops/optimizer.h"
#include "tests/engine/cpu_kernels.h"
#include "tests/engine/op_harness.h"
#include "tests/gpu/emulation/backend.h"

namespace recollect::test::stochastic_rounding_test {
namespace {

TEST(StochasticRounding, GoesUpAsOftenAsANumberLiesFarUp) {
  for (const float value : {1.0f, 1.001f, -1.003f, 3.14159f, -2.5e-7f, 1e-39f, 0.0f}) {
    const uint32_t bits = std::bit_cast<uint32_t>(value), beyond = bits & 0xffff;
    uint32_t up = 0;
    for (uint32_t chance = 0; chance < 65536; ++chance) {
      const uint32_t got = rounded_by_chance(value, chance << 16 | 0x1234).bits;
      ASSERT_TRUE(got == bits >> 16 || got == (bits >> 16) + 1) << value;
      up += got != bits >> 16;
    }
    EXPECT_EQ(up, beyond) << value;
  }
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(static_cast<float>(rounded_by_chance(infinity, 0xffffffffu)), infinity);
  EXPECT_EQ(static_cast<float>(rounded_by_chance(-infinity, 0xffffffffu)), -infinity);
  EXPECT_TRUE(
      std::isnan(static_cast<float>(rounded_by_chance(std::bit_cast<float>(0x7fffffffu), 0xffffffffu))));
}

Attributes place(const std::string& runs, int64_t first_column = 0) {
  return {{"rounded_as", int64_t{5}},
          {"rounded_columns", int64_t{600}},
          {"rounded_first_column", first_column},
          {"rounded_runs", runs}};
}

TEST(StochasticRounding, CountsElementsOfTheWholeParameter) {
  const RoundedParameter p(place("0 4 2 12 ", 300));
  EXPECT_EQ(p.key(7, 9).layer, kRoundingLayer + 5);
  EXPECT_EQ(p.element(0, 0), 4u * 600 + 300);
  EXPECT_EQ(p.element(1, 2), 5u * 600 + 302);
  EXPECT_EQ(p.element(2, 0), 12u * 600 + 300);
  EXPECT_EQ(p.element(9, 1), 19u * 600 + 301);
  EXPECT_THROW(RoundedParameter(place("")), Error);
}

struct Setting {
  std::string kind;
  void (*register_kernels)(KernelTable&, VocabularyReduction*);
  std::string name;
};

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const char* kind : {"adamw", "adamw_hf", "adam", "sgd", "lion", "adamw8bit", "lion8bit"}) {
    all.push_back({kind, register_cpu_kernels, std::string(kind) + "_cpu"});
    all.push_back({kind, emulation::register_kernels, std::string(kind) + "_cuda"});
  }
  return all;
}

constexpr int64_t kRows = 6, kColumns = 600;
const RunState kState{.seed = 0xfedcba9876543210, .step = 3};

// A step of a bf16 parameter, or of rows and columns of it; all that it leaves.
struct Update {
  Update(const Setting& s, const std::string& runs, int64_t first_row, int64_t rows, int64_t first_column,
         int64_t columns) {
    register_engine_ops(registry);
    s.register_kernels(kernels, nullptr);
    const bool quantised = s.kind.ends_with("8bit"), one = s.kind == "sgd" || s.kind.starts_with("lion");
    const Shape shape{rows, columns};
    OpCase c{.name = s.name,
             .kind = s.kind,
             .inputs = {{.name = "schedule", .shape = {3}, .storage = Storage::kF64},
                        {.name = "factor", .shape = {1}, .storage = Storage::kF64},
                        statistic("grad", shape)},
             .attributes = place(runs, first_column),
             .accumulators = {{0, activation("master", shape)}},
             .state = kState};
    c.attributes.set("cast", int64_t{0});
    c.attributes.set("weight_decay", 0.1);
    for (const char* name : {"beta1", "beta2"}) c.attributes.set(name, 0.75);
    c.attributes.set("epsilon", 1e-6);
    c.attributes.set("momentum", 0.75);
    for (int moment = 0, next = 1; moment < (one ? 1 : 2); ++moment) {
      c.accumulators[next++] = {
          .name = "moment", .shape = shape, .storage = quantised ? Storage::kU8 : Storage::kStatistics};
      if (quantised)
        c.accumulators[next++] = {
            .name = "sizes", .shape = {rows, (columns + 255) / 256}, .storage = Storage::kF32};
    }
    graph = make_graph(c, registry, kBfloat16);
    runner = std::make_unique<GraphRunner>(graph, kernels, kState);
    const Op& op = graph.op(0);
    write(runner->tensor(op.inputs[0]), {0.01, 0.5, 0.5});
    write(runner->tensor(op.inputs[1]), {1.0});
    const Numbers all = random_numbers(statistic("w", {kRows, kColumns}), 1),
                  gradients = random_numbers(statistic("g", {kRows, kColumns}), 2);
    Numbers w, g;
    for (int64_t r = first_row; r < first_row + rows; ++r)
      for (int64_t c0 = first_column; c0 < first_column + columns; ++c0)
        w.push_back(all[r * kColumns + c0]), g.push_back(gradients[r * kColumns + c0]);
    write(runner->tensor(op.inputs[2]), g);
    for (const ValueId out : op.outputs)
      write(runner->tensor(out), Numbers(runner->tensor(out).elements(), 0.0));
    write(runner->tensor(op.outputs[0]), w);
    before = read(runner->tensor(op.outputs[0]));
    runner->run_op(0, true);
    runner->expect_intact();
    after = read(runner->tensor(op.outputs[0]));
  }

  OpRegistry registry;
  KernelTable kernels;
  Graph graph;
  std::unique_ptr<GraphRunner> runner;
  Numbers before, after;
};

class RoundedUpdate : public ::testing::TestWithParam<Setting> {};

TEST_P(RoundedUpdate, DependsOnPlacesInTheWholeAlone) {
  const Update whole(GetParam(), "0 0", 0, kRows, 0, kColumns);
  // The last rows are a rank's, and of another some rows and the columns from the second block on.
  const Update rows(GetParam(), "0 4 ", 4, 2, 0, kColumns), part(GetParam(), "0 1", 1, 4, 256, 344);
  int moved = 0;
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t c = 0; c < kColumns; ++c) {
      const double here = whole.after[r * kColumns + c];
      moved += here != whole.before[r * kColumns + c];
      if (r >= 4) {
        ASSERT_EQ(rows.after[(r - 4) * kColumns + c], here) << r << " " << c;
      }
      if (r >= 1 && r < 5 && c >= 256) {
        ASSERT_EQ(part.after[(r - 1) * 344 + c - 256], here) << r << " " << c;
      }
    }
  EXPECT_GT(moved, kRows * kColumns / 2);
}

// The first step of a rule from moments of zero, in float, and the word of each element: also of elements so far on that the
// numbers of their blocks take two words.
TEST_P(RoundedUpdate, StoresWhatTheRuleMakesRoundedByTheElementsWord) {
  const std::string kind = GetParam().kind;
  Attributes attributes{
      {"beta1", 0.75}, {"beta2", 0.75}, {"epsilon", 1e-6}, {"momentum", 0.75}, {"weight_decay", 0.1}};
  const double schedule[] = {0.01, 0.5, 0.5};
  const auto s = step_numbers<float>(schedule, 1.0, UpdateSettings(attributes));
  const Numbers gradients = random_numbers(statistic("g", {kRows, kColumns}), 2);
  for (const char* runs : {"0 0", "0 100000007"}) {
    const Update u(GetParam(), runs, 0, kRows, 0, kColumns);
    const RoundedParameter place_of(place(runs));
    int others = 0;
    for (int64_t i = 0; i < kRows * kColumns; ++i) {
      float w = static_cast<float>(u.before[i]), m = 0, v = 0;
      const auto g = static_cast<float>(gradients[i]);
      if (kind.starts_with("lion")) LionRule::update(s, g, w, m);
      if (kind == "sgd") SgdRule::update(s, g, w, m);
      if (kind == "adam") AdamRule::update(s, g, w, m, v);
      if (kind == "adamw_hf") AdamwHfRule::update(s, g, w, m, v);
      if (kind == "adamw" || kind == "adamw8bit") AdamwRule::update(s, g, w, m, v);
      const uint32_t word =
          random_word(place_of.key(kState.seed, kState.step), place_of.element(i / kColumns, i % kColumns));
      const double want = static_cast<float>(rounded_by_chance(w, word));
      others += u.after[i] != want;
      ASSERT_NEAR(u.after[i], want, 0x1p-7 * std::fabs(want) + 1e-12) << runs << " " << i;
    }
    EXPECT_LE(others, 3) << runs;  // a fused product may round w otherwise
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, RoundedUpdate, ::testing::ValuesIn(settings()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace recollect::test::stochastic_rounding_test
