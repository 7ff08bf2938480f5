// What a layer saves between forward and backward, against the formulas of Korthikanti et al., "Reducing
// Activation Recomputation in Large Transformer Models" (2022), in bytes of 16-bit values; s: sequence,
// b: micro-batch, h: hidden, a: heads, t: tensor ranks. Where we differ from the paper, a name says by what:
// attention scores and their dropout masks (5 a s^2 b) are never stored, nor are the other dropout masks,
// which are drawn again; statistics are, a number or two a row. The families that have no such paper have
// formulas of their own below, by the same reckoning: a value counts once, for the layer that made it, if the
// gradient of any op reads it.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "engine/runtime/schedule.h"
#include "launch/config/read.h"
#include "launch/program/estimate.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::saved_activations_test {
namespace {

// Of the paper's table 3.
struct PaperModel {
  const char* name;
  int64_t heads, hidden, layers, micro_batch;
};
constexpr PaperModel kPaperModels[] = {{"22B", 64, 6144, 48, 4},
                                       {"175B", 96, 12288, 96, 1},
                                       {"530B", 128, 20480, 105, 1},
                                       {"1T", 160, 25600, 128, 1}};
constexpr int64_t kSequence = 2048;

struct Division {
  int64_t ranks;
  bool sequence;
  bool uncut = false;  // collectives wait for products
};
constexpr Division kDivisions[] = {{1, false}, {8, false}, {8, true}};

// `model`: the section of that name, and whatever else is particular to it.
TrainingProgram plan_model(const std::string& model, int64_t micro_batch, const Division& d,
                           std::vector<std::string> keys) {
  for (std::string& key : keys) key = "activation_checkpointing." + key;
  const std::string yaml = fmt::format(
      "{}\n"
      "parallelism: {{tensor_parallel_size: {}, sequence_parallel: {}{}}}\n"
      "device: {{backend: cpu, threads: 1}}\n"
      "training: {{micro_batch_size: {}, precision: bf16, max_steps: 1}}\n"
      "data: {{format: random}}\n",
      model, d.ranks, d.sequence, d.uncut ? ", collective_pieces: 0" : "", micro_batch);
  Config config = read_config_text("paper.yaml", yaml, keys);
  resolve_planned_world(config);
  return std::move(plan_training(config, 0, 0).training);
}

TrainingProgram plan_paper_model(const PaperModel& m, const Division& d,
                                 const std::vector<std::string>& keys) {
  return plan_model(
      fmt::format("model: {{vocab_size: 51200, n_positions: {}, n_embd: {}, n_layer: {}, n_head: {}, "
                  "resid_pdrop: 0.1, embd_pdrop: 0.1, attn_pdrop: 0.1}}",
                  kSequence, m.hidden, m.layers, m.heads),
      m.micro_batch, d, keys);
}

// What another op only hands to the ranks is the value that it has taken.
ValueId origin(const Graph& graph, ValueId v) {
  while (v != kNone && graph.value(v).producer != kNone &&
         graph.op(graph.value(v).producer).phase == Phase::kForward &&
         graph.op(graph.value(v).producer).def->passes_on)
    v = graph.op(graph.value(v).producer).inputs.at(0);
  return v;
}

// Bytes that forward leaves for backward on the device, by layer.
std::vector<uint64_t> saved_bytes(const Graph& graph, int64_t layers) {
  std::vector<uint64_t> bytes(static_cast<std::size_t>(layers));
  std::vector<char> counted(graph.values().size());
  for (const Op& op : graph.ops())
    for (ValueId read : op.inputs) {
      const ValueId v = origin(graph, read);
      if (op.phase != Phase::kBackward || v == kNone || std::exchange(counted[v], 1)) continue;
      const Value& value = graph.value(v);
      const bool saved = value.producer != kNone && !value.persistent && value.layer >= 0 &&
                         graph.op(value.producer).phase == Phase::kForward;
      if (saved) bytes[static_cast<std::size_t>(value.layer)] += value.bytes();
    }
  return bytes;
}

// The paper's formulas without attention scores, and our differences, in bytes of one layer.
struct Formulas {
  int64_t sbh, sb, heads, t, rows;  // rows: over how many ranks norms and residuals are divided

  Formulas(const PaperModel& m, const Division& d)
      : sbh(kSequence * m.micro_batch * m.hidden),
        sb(kSequence * m.micro_batch),
        heads(m.heads),
        t(d.ranks),
        rows(d.sequence ? d.ranks : 1) {}

  int64_t paper_none() const { return 10 * sbh / rows + 24 * sbh / t; }  // 34, 10 + 24/t, 34/t
  int64_t paper_full() const { return 2 * sbh / rows; }
  int64_t dropout_masks() const { return 2 * sbh / rows; }  // a byte an element, twice
  int64_t norm_outputs() const { return 2 * 2 * sbh / rows; }
  int64_t gelu_output() const { return 8 * sbh / t; }
  int64_t attention_output() const { return 2 * sbh / t; }
  int64_t norm_statistics() const { return 2 * 2 * 4 * sb / rows; }  // mean and deviation, fp32
  int64_t attention_statistics() const { return 4 * sb * heads / t; }
  int64_t none() const { return paper_none() - dropout_masks() + norm_statistics() + attention_statistics(); }
};

class PaperFormulas : public testing::TestWithParam<std::tuple<PaperModel, Division>> {};

TEST_P(PaperFormulas, HoldToTheByteInEveryLayer) {
  const auto& [m, d] = GetParam();
  const Formulas f(m, d);
  const auto expect = [&](const std::vector<std::string>& keys, int64_t bytes) {
    const TrainingProgram training = plan_paper_model(m, d, keys);
    const std::vector<uint64_t> expected(static_cast<std::size_t>(m.layers), static_cast<uint64_t>(bytes));
    EXPECT_EQ(saved_bytes(training.program.graph, m.layers), expected) << testing::PrintToString(keys);
  };
  expect({}, f.none());
  expect({"mode=selective"}, f.none() - f.norm_outputs() - f.gelu_output());
  expect({"mode=selective", "recompute=attention"}, f.none() - f.attention_output());
  expect({"mode=full"}, f.paper_full());
}

INSTANTIATE_TEST_SUITE_P(All, PaperFormulas,
                         testing::Combine(testing::ValuesIn(kPaperModels), testing::ValuesIn(kDivisions)),
                         [](const auto& info) {
                           const PaperModel& m = std::get<0>(info.param);
                           const Division& d = std::get<1>(info.param);
                           return fmt::format("{}Tensor{}{}", m.name, d.ranks, d.sequence ? "Sequence" : "");
                         });

// A layer of BERT, in words of Transformers: h hidden_size, f intermediate_size, a num_attention_heads. Its
// gradients read
//   3 h       queries, keys and values of a token        attention
//   h         attention's output                         attention, and the projection's weight
//   a         a logarithm for each head, fp32            attention
//   f, f      before and after GELU                      GELU's and the second product's
//   h, h      both sums with the residual                the norms after them
//   2, 2      their means and deviations, fp32           the same
//   h, h      what the norms made of them                the first product's, and that of the next layer
// where heads and f are divided over the tensor ranks, and the last three rows with sequence parallelism. The
// projections' and second products' own outputs, and masks, are read by none.
struct BertModel {
  const char* name;
  int64_t heads, hidden, inner, layers, sequence, micro_batch;
};
constexpr BertModel kBertModels[] = {{"Base", 12, 768, 3072, 3, 512, 8},
                                     {"Large", 16, 1024, 4096, 4, 512, 4},
                                     {"Narrow", 8, 512, 640, 2, 96, 2}};
constexpr Division kFewDivisions[] = {{1, false}, {2, false}, {4, false}, {2, true}, {4, true}};

class BertFormulas : public testing::TestWithParam<std::tuple<BertModel, Division>> {};

TEST_P(BertFormulas, HoldToTheByteInEveryLayer) {
  const auto& [m, d] = GetParam();
  const int64_t tokens = m.sequence * m.micro_batch, t = d.ranks, rows = d.sequence ? t : 1;
  const int64_t wide = 2 * tokens * m.hidden / rows, gelu = 2 * tokens * m.inner / t,
                heads = 2 * tokens * 4 * m.hidden / t + 4 * tokens * m.heads / t,
                statistics = 2 * 2 * 4 * tokens / rows;
  const int64_t none = heads + 2 * gelu + 4 * wide + statistics;
  const std::string model = fmt::format(
      "task: token_classification\n"
      "model: {{type: bert, vocab_size: 30522, hidden_size: {}, intermediate_size: {}, num_hidden_layers: "
      "{}, num_attention_heads: {}, max_position_embeddings: {}}}",
      m.hidden, m.inner, m.layers, m.heads, m.sequence);
  // Behind the last layer stands dropout, whose output is what the classifier reads.
  const auto expect = [&](const std::vector<std::string>& keys, int64_t bytes) {
    const TrainingProgram training = plan_model(model, m.micro_batch, d, keys);
    std::vector<uint64_t> expected(static_cast<std::size_t>(m.layers), static_cast<uint64_t>(bytes));
    expected.back() -= static_cast<uint64_t>(wide);
    EXPECT_EQ(saved_bytes(training.program.graph, m.layers), expected) << testing::PrintToString(keys);
  };
  expect({}, none);
  expect({"mode=selective"}, none - wide - gelu);  // the second norm's output is the next layer's input
  expect({"mode=full"}, wide);
}

INSTANTIATE_TEST_SUITE_P(All, BertFormulas,
                         testing::Combine(testing::ValuesIn(kBertModels), testing::ValuesIn(kFewDivisions)),
                         [](const auto& info) {
                           const Division& d = std::get<1>(info.param);
                           return fmt::format("{}Tensor{}{}", std::get<0>(info.param).name, d.ranks,
                                              d.sequence ? "Sequence" : "");
                         });

// A layer of Llama: h hidden_size, f intermediate_size, a heads of size d, k key/value heads. Its gradients
// read
//   a d + 2 k d   queries and keys, turned, and values    attention
//   a d           attention's output                      attention, and the projection's weight
//   a             a logarithm for each head, fp32         attention
//   2 f           gate and up                             SwiGLU's
//   f             what it made of them                    the last product's
//   h, h          both sums with the residual             the norms after them, of which one is the next layer's
//   1, 1          roots of mean squares, fp32             the norms
//   h, h          what the norms made of those            the first products'
// where heads and f are divided over the tensor ranks, the last three rows with sequence parallelism. Of key and
// value heads a rank has one at least. Rotary positions are undone by the same turn backwards: nothing is saved
// for them.
struct LlamaModel {
  const char* name;
  int64_t heads, key_heads, head_size, hidden, inner, layers, sequence, micro_batch;
};
constexpr LlamaModel kLlamaModels[] = {{"Of160M", 12, 12, 64, 768, 2048, 3, 1024, 4},
                                       {"Llama2Of7B", 32, 32, 128, 4096, 11008, 2, 4096, 1},
                                       {"Llama3Of8B", 32, 8, 128, 4096, 14336, 2, 8192, 1},
                                       {"OneKeyHead", 8, 1, 96, 512, 1344, 3, 128, 2},
                                       {"TwoKeyHeads", 16, 2, 32, 640, 896, 3, 64, 3}};

class LlamaFormulas : public testing::TestWithParam<std::tuple<LlamaModel, Division>> {};

TEST_P(LlamaFormulas, HoldToTheByteInEveryLayer) {
  const auto& [m, d] = GetParam();
  const int64_t tokens = m.sequence * m.micro_batch, t = d.ranks, rows = d.sequence ? t : 1;
  const int64_t wide = 2 * tokens * m.hidden / rows, swiglu = 2 * tokens * m.inner / t,
                key_heads = std::max<int64_t>(1, m.key_heads / t),
                heads =
                    2 * tokens * m.head_size * (2 * m.heads / t + 2 * key_heads) + 4 * tokens * m.heads / t,
                statistics = 2 * 4 * tokens / rows;
  const int64_t none = heads + 3 * swiglu + 4 * wide + statistics;
  const std::string model = fmt::format(
      "model: {{type: llama, vocab_size: 32000, hidden_size: {}, intermediate_size: {}, num_hidden_layers: "
      "{}, num_attention_heads: {}, num_key_value_heads: {}, head_dim: {}, max_position_embeddings: {}}}",
      m.hidden, m.inner, m.layers, m.heads, m.key_heads, m.head_size, m.sequence);
  const auto expect = [&](const std::vector<std::string>& keys, int64_t bytes) {
    const TrainingProgram training = plan_model(model, m.micro_batch, d, keys);
    const std::vector<uint64_t> expected(static_cast<std::size_t>(m.layers), static_cast<uint64_t>(bytes));
    EXPECT_EQ(saved_bytes(training.program.graph, m.layers), expected) << testing::PrintToString(keys);
  };
  expect({}, none);
  expect({"mode=selective"}, none - 2 * wide - swiglu);
  expect({"mode=selective", "recompute=attention"}, none - 2 * tokens * m.heads * m.head_size / t);
  expect({"mode=full"}, wide);
}

INSTANTIATE_TEST_SUITE_P(All, LlamaFormulas,
                         testing::Combine(testing::ValuesIn(kLlamaModels), testing::ValuesIn(kFewDivisions)),
                         [](const auto& info) {
                           const Division& d = std::get<1>(info.param);
                           return fmt::format("{}Tensor{}{}", std::get<0>(info.param).name, d.ranks,
                                              d.sequence ? "Sequence" : "");
                         });

TEST(GatheredAgain, OneValueAtATimeAndWellBeforeItsUse) {
  for (const char* mode : {"none", "selective"}) {
    const TrainingProgram training =
        plan_paper_model(kPaperModels[0], {8, true, true}, {std::string("mode=") + mode});
    const Graph& graph = training.program.graph;
    const std::vector<Span> spans = op_spans(graph, training.program.schedule);
    std::vector<OpId> last_use(graph.values().size(), kNone);
    for (OpId id : graph.op_ids())
      for (ValueId v : graph.op(id).inputs)
        if (v != kNone) last_use[v] = id;
    int64_t free = 0, gathers = 0;
    for (OpId id : graph.op_ids()) {
      const Op& op = graph.op(id);
      if (op.stream != StreamId::kGather) continue;
      ++gathers;
      const OpId use = last_use[op.outputs[0]];
      EXPECT_GT(spans[id].begin, free) << op.name;
      const auto between = std::count_if(
          graph.ops().begin() + id, graph.ops().begin() + use,
          [](const Op& o) { return o.stream == StreamId::kCompute && o.def->unit == Unit::kGemm; });
      EXPECT_GE(between, gathers == 1 ? 1 : 2) << op.name;
      free = spans[use].end;
    }
    EXPECT_EQ(gathers, 2 * kPaperModels[0].layers);
    EXPECT_EQ(training.checkpointed.gathered.values, gathers);
    const uint64_t whole = 2 * kSequence * 4 * 6144;
    EXPECT_EQ(training.checkpointed.gathered.gathered_bytes, static_cast<uint64_t>(gathers) * whole);
    EXPECT_EQ(training.checkpointed.gathered.saved_bytes, static_cast<uint64_t>(gathers) * whole / 8 * 7);
  }
}

}  // namespace
}  // namespace recollect::test::saved_activations_test
