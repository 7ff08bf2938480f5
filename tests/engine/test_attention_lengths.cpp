// Which keys attention's queries see, and whose heads they are: against a formula that knows nothing of the
// kernels' shapes; and that what stands behind a sample's length is never read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/engine/cpu_kernels.h"
#include "tests/engine/op_harness.h"
#include "tests/engine/rounding.h"
#include "tests/gpu/emulation/backend.h"

namespace recollect::test::attention_lengths_test {
namespace {

// An attention case of the table, taken to pieces.
struct Sizes {
  explicit Sizes(const OpCase& c)
      : heads(c.attributes.integer("heads")),
        kv_heads(c.attributes.integer("kv_heads")),
        group(c.attributes.integer("kv_group")),
        first_head(c.attributes.integer("first_head")),
        size(c.attributes.integer("head_size")),
        length(c.attributes.integer("sequence_length")),
        causal(c.attributes.integer("causal") == 1),
        window(c.attributes.has("window") ? c.attributes.integer("window") : length),
        cap(c.attributes.has("score_cap") ? c.attributes.real("score_cap") : 0),
        scale(c.attributes.has("score_scale") ? c.attributes.real("score_scale")
                                              : 1 / std::sqrt(static_cast<double>(size))),
        q(c.kind == "attention" ? 0 : 1),
        kv(c.kind == "attention" ? 1 : 4),
        samples(c.inputs[q].shape[0] / length),
        has_lengths(has(c, kv + 1)),
        packed(has(c, kv + 2)),
        own_kv(has(c, kv)) {}

  static bool has(const OpCase& c, int input) {
    return static_cast<int>(c.inputs.size()) > input && c.inputs[input].fill != Fill::kAbsent;
  }

  int64_t rows_from() const { return own_kv ? 0 : heads * size; }  // k | v in a row
  int64_t row() const { return rows_from() + 2 * kv_heads * size; }
  int64_t keys(const CaseData& data, int64_t sample) const {
    return has_lengths ? static_cast<int64_t>(data.inputs[kv + 1][sample]) : length;
  }

  // Whether a query's key is one of its own sequence.
  bool together(const CaseData& data, int64_t sample, int64_t query, int64_t key) const {
    if (!packed) return true;
    const double *row = data.inputs[kv + 2].data() + sample * length, q = row[query], k = row[key];
    return q >= 0 && k >= 0 && static_cast<double>(query) - q == static_cast<double>(key) - k;
  }

  int64_t heads, kv_heads, group, first_head, size, length;
  bool causal;
  int64_t window;
  double cap, scale;
  int q, kv;  // among the inputs
  int64_t samples;
  bool has_lengths, packed, own_kv;
};

struct Outputs {
  Numbers o, lse;
};

Outputs by_formula(const OpCase& c, const CaseData& data) {
  const Sizes z(c);
  const Numbers &q = data.inputs[0], &kv = data.inputs[z.own_kv ? 1 : 0];
  const int64_t q_row = z.own_kv ? z.heads * z.size : z.row();
  Outputs out;
  out.o.resize(z.samples * z.length * z.heads * z.size);
  for (int64_t sample = 0; sample < z.samples; ++sample)
    for (int64_t head = 0, kv_head = 0; head < z.heads; ++head) {
      if (head > 0 && (z.first_head + head) % z.group == 0) ++kv_head;  // another group begins
      for (int64_t query = 0; query < z.length; ++query) {
        const auto at = [&](int64_t key, int64_t part) {
          return (sample * z.length + key) * z.row() + z.rows_from() + (part * z.kv_heads + kv_head) * z.size;
        };
        std::vector<double> weights;
        double sum = 0;
        for (int64_t key = 0; key < z.keys(data, sample) && (!z.causal || key <= query); ++key) {
          weights.push_back(0);
          const int64_t sees_as = std::min(query, z.keys(data, sample) - 1);  // padding sees as the last one
          if (!z.together(data, sample, query, key) || std::abs(sees_as - key) >= z.window) continue;
          double score = 0;
          for (int64_t i = 0; i < z.size; ++i)
            score += q[(sample * z.length + query) * q_row + head * z.size + i] * kv[at(key, 0) + i];
          score *= z.scale;
          weights.back() = std::exp(z.cap > 0 ? z.cap * std::tanh(score / z.cap) : score);
          sum += weights.back();
        }
        out.lse.push_back(sum > 0 ? std::log(sum) : 0);
        for (std::size_t key = 0; sum > 0 && key < weights.size(); ++key)
          for (int64_t i = 0; i < z.size; ++i)
            out.o[((sample * z.length + query) * z.heads + head) * z.size + i] +=
                weights[key] / sum * kv[at(static_cast<int64_t>(key), 1) + i];
      }
    }
  return out;
}

TEST(AttentionKeys, AreThoseOfTheFormula) {
  KernelTable kernels;
  reference::register_kernels(kernels);
  int compared = 0;
  for (const OpCase& c : op_cases()) {
    if (c.kind != "attention" || c.attributes.real("p") > 0) continue;
    const CaseData data = make_data(c, kDouble);
    const Outputs want = by_formula(c, data);
    const std::vector<Numbers> got = run_case(c, data, kernels, kDouble);
    const double bound = 2 * result_bound(DType::kF64, c.inputs[0].shape[0]);
    expect_close(got[0], want.o, bound, c.name + " o");
    expect_close(got[1], want.lse, bound, c.name + " lse");
    ++compared;
  }
  EXPECT_GE(compared, 35);
}

// The keys of a query, the queries of a key and the number of pairs equal those that are counted one by one.
TEST(AttentionKeys, OfWindowsAreCounted) {
  for (const bool causal : {true, false})
    for (const int64_t window : {1, 2, 5, 8, 11, 30})
      for (const int64_t keys : {1, 3, 8, 12}) {
        constexpr int64_t kTokens = 12;
        AttentionShape shape({{"heads", int64_t{1}},
                              {"kv_heads", int64_t{1}},
                              {"kv_group", int64_t{1}},
                              {"head_size", int64_t{4}},
                              {"sequence_length", kTokens},
                              {"causal", int64_t{causal}},
                              {"first_head", int64_t{0}},
                              {"all_heads", int64_t{1}},
                              {"window", window}},
                             kTokens, true);
        int64_t pairs = 0;
        for (int64_t query = 0; query < kTokens; ++query)
          for (int64_t key = 0; key < keys; ++key) {
            const int64_t as = std::min(query, keys - 1);  // a padding query sees what the last query sees
            const bool sees = std::abs(as - key) < window && (!causal || key <= as);
            pairs += sees;
            EXPECT_EQ(key >= shape.first_seen(query, keys) && key < shape.seen(query, keys), sees);
            EXPECT_EQ(query >= shape.first_query(key) && query < shape.end_of_queries(key, keys, kTokens),
                      sees)
                << "window " << window << ", " << keys << " keys, query " << query << ", key " << key;
          }
        EXPECT_EQ(shape.pairs(kTokens, keys), pairs);
      }
}

struct Backend {
  const char* name;
  void (*register_kernels)(KernelTable&, VocabularyReduction*);
  Precision precision;
};

class UnseenKeys : public ::testing::TestWithParam<Backend> {
 protected:
  void SetUp() override { GetParam().register_kernels(kernels_, nullptr); }

  // f(index) for every number of k and v that stands behind its sample's length.
  template <typename F>
  static void for_each_unseen(const Sizes& z, const CaseData& data, F f) {
    for (int64_t sample = 0; sample < z.samples; ++sample)
      for (int64_t token = z.keys(data, sample); token < z.length; ++token)
        for (int64_t i = z.rows_from(); i < z.row(); ++i) f((sample * z.length + token) * z.row() + i);
  }

  KernelTable kernels_;
};

TEST_P(UnseenKeys, AreNeverReadAndHaveNoGradient) {
  const Precision precision = GetParam().precision;
  int compared = 0;
  for (const OpCase& c : op_cases()) {
    if (!c.kind.starts_with("attention") || !Sizes(c).has_lengths) continue;
    const Sizes z(c);
    const CaseData data = make_data(c, precision);
    CaseData garbage = data;
    for_each_unseen(z, data, [&](int64_t i) { garbage.inputs[z.own_kv ? z.kv : z.q][i] = std::nan(""); });
    const std::vector<Numbers> clean = run_case(c, data, kernels_, precision);
    EXPECT_EQ(run_case(c, garbage, kernels_, precision), clean) << c.name;  // no number equals NaN
    if (c.kind == "attention_backward")
      for_each_unseen(z, data, [&](int64_t i) { ASSERT_EQ(clean[z.own_kv ? 1 : 0][i], 0) << c.name; });
    ++compared;
  }
  EXPECT_GE(compared, 16);
}

// What runs beside cuDNN's attention where samples have lengths.
TEST(CudaPadding, ClearsTheGradientsOfUnseenKeysAlone) {
  constexpr int64_t kSamples = 3, kLength = 7, kHeads = 4, kKvHeads = 2, kSize = 40;
  const Attributes attributes{
      {"heads", kHeads},          {"kv_heads", kKvHeads},       {"kv_group", int64_t{2}},
      {"head_size", kSize},       {"sequence_length", kLength}, {"causal", int64_t{0}},
      {"first_head", int64_t{0}}, {"all_heads", kHeads}};
  const int32_t lengths[kSamples] = {3, 7, 1};
  for (const bool joined : {true, false}) {
    const AttentionShape shape(attributes, kSamples * kLength, joined);
    GuardedBuffer buffer(kSamples * kLength * shape.kv_row * 2);
    const Tensor gradients{buffer.data(), {kSamples * kLength, shape.kv_row}, DType::kBF16};
    Numbers want = Numbers(gradients.elements(), 1.5);
    write(gradients, want);
    for (int64_t token = 0; token < kSamples * kLength; ++token)
      for (int64_t i = shape.first_key; i < shape.kv_row && token % kLength >= lengths[token / kLength]; ++i)
        want[token * shape.kv_row + i] = 0;
    emulation::clear_unseen_keys(shape, lengths, gradients);
    EXPECT_EQ(read(gradients), want);
    EXPECT_TRUE(buffer.intact());
  }
  std::vector<int32_t> out(200, -1);
  emulation::write_query_lengths(199, 512, out.data());
  EXPECT_EQ(std::count(out.begin(), out.end(), 512), 199);
  EXPECT_EQ(out.back(), -1);
}

INSTANTIATE_TEST_SUITE_P(Backends, UnseenKeys,
                         ::testing::Values(Backend{"reference_double", reference::register_kernels, kDouble},
                                           Backend{"cpu_float", register_cpu_kernels, kFloat},
                                           Backend{"cpu_bf16", register_cpu_kernels, kBfloat16},
                                           Backend{"cuda_float", emulation::register_kernels, kFloat}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace recollect::test::attention_lengths_test
