// Tokens divided over ranks (sequence parallelism): what stands at samples' first tokens adds up to the whole,
// and token types are those of the rank's own tokens.
#include <gtest/gtest.h>

#include "tests/engine/cpu_kernels.h"
#include "tests/engine/op_harness.h"
#include "tests/engine/rounding.h"
#include "tests/gpu/emulation/backend.h"

namespace recollect::test {
namespace {

constexpr int64_t kSamples = 3, kLength = 8, kTokens = kSamples * kLength, kWidth = 19;

struct TokenBackend {
  const char* name;
  void (*register_kernels)(KernelTable&, VocabularyReduction*);
  Precision precision;
};

class DividedTokens : public ::testing::TestWithParam<TokenBackend> {
 protected:
  Numbers run(const OpCase& c, std::vector<Numbers> inputs) const {
    KernelTable kernels;
    GetParam().register_kernels(kernels, nullptr);
    return run_case(c, {.inputs = std::move(inputs), .accumulators = {}}, kernels, GetParam().precision)[0];
  }
  Numbers some(int64_t rows, uint64_t seed) const {
    const OpCase c{
        .name = "x" + std::to_string(seed), .kind = "", .inputs = {activation("x", {rows, kWidth})}};
    return make_data(c, GetParam().precision).inputs[0];
  }
};

Numbers rows_of(const Numbers& numbers, int64_t first, int64_t count) {
  return {numbers.begin() + first * kWidth, numbers.begin() + (first + count) * kWidth};
}

OpCase first_case(int64_t first, int64_t tokens) {
  return {.name = "first",
          .kind = "first_tokens",
          .inputs = {activation("x", {tokens, kWidth})},
          .attributes = {{"samples", kSamples}, {"sequence_length", kLength}, {"first_token", first}}};
}

TEST_P(DividedTokens, FirstTokensAddUpToTheWhole) {
  const Numbers x = some(kTokens, 1), whole = run(first_case(0, kTokens), {x});
  for (int64_t i = 0; i < kSamples; ++i) EXPECT_EQ(rows_of(whole, i, 1), rows_of(x, i * kLength, 1));
  OpCase back = first_case(0, kTokens);
  back.kind = "first_tokens_backward";
  back.inputs = {activation("dy", {kSamples, kWidth})};
  back.attributes.set("rows", kTokens);
  const Numbers dy = some(kSamples, 2), dx = run(back, {dy});
  for (const int64_t ranks : {2, 4, 6}) {
    const int64_t tokens = kTokens / ranks;
    Numbers sum(whole.size(), 0.0);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const Numbers part = run(first_case(rank * tokens, tokens), {rows_of(x, rank * tokens, tokens)});
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
      OpCase own = back;
      own.attributes.set("first_token", rank * tokens);
      own.attributes.set("rows", tokens);
      EXPECT_EQ(run(own, {dy}), rows_of(dx, rank * tokens, tokens)) << "rank " << rank << " of " << ranks;
    }
    EXPECT_EQ(sum, whole) << ranks << " ranks";
  }
}

// A table of few rows and one of many are summed in two ways.
TEST_P(DividedTokens, TokenTypesAreThoseOfTheRanksTokens) {
  for (const int64_t rows : {2, 5}) {
    const ValueSpec id{.name = "ids",
                       .shape = {kSamples, kLength},
                       .storage = Storage::kI32,
                       .fill = Fill::kIds,
                       .limit = rows};
    const auto forward = [&](int64_t first, int64_t tokens) {
      return OpCase{.name = "types",
                    .kind = "add_embedding",
                    .inputs = {activation("x", {tokens, kWidth}), id, activation("table", {rows, kWidth})},
                    .attributes = {{"first_token", first}}};
    };
    const auto backward = [&](int64_t first, int64_t tokens) {
      return OpCase{.name = "dtypes",
                    .kind = "add_embedding_backward",
                    .inputs = {activation("dy", {tokens, kWidth}), id},
                    .attributes = {{"first_token", first}},
                    .accumulators = {{0, statistic("dtable", {rows, kWidth})}}};
    };
    const Numbers x = some(kTokens, 3), table = some(rows, 4), ids = random_numbers(id, 5);
    const Numbers y = run(forward(0, kTokens), {x, ids, table}), whole = run(backward(0, kTokens), {x, ids});
    Numbers sum(whole.size(), 0.0);
    for (const int64_t first : {int64_t{0}, kTokens / 2}) {
      const Numbers own = rows_of(x, first, kTokens / 2);
      EXPECT_EQ(run(forward(first, kTokens / 2), {own, ids, table}), rows_of(y, first, kTokens / 2));
      const Numbers part = run(backward(first, kTokens / 2), {own, ids});
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
    }
    expect_close(sum, whole, result_bound(GetParam().precision.statistics, kTokens),
                 std::to_string(rows) + " rows");
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, DividedTokens,
                         ::testing::Values(TokenBackend{"reference_double", reference::register_kernels,
                                                        kDouble},
                                           TokenBackend{"cpu_float", register_cpu_kernels, kFloat},
                                           TokenBackend{"cpu_bf16", register_cpu_kernels, kBfloat16},
                                           TokenBackend{"cuda_float", emulation::register_kernels, kFloat},
                                           TokenBackend{"cuda_bf16", emulation::register_kernels, kBfloat16}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace recollect::test
