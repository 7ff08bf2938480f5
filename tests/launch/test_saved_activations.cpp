// What a layer saves between forward and backward, against the formulas of Korthikanti et al., "Reducing
// Activation Recomputation in Large Transformer Models" (2022), in bytes of 16-bit values; s: sequence,
// b: micro-batch, h: hidden, a: heads, t: tensor ranks. Where we differ from the paper, a name says by what:
// attention scores and their dropout masks (5 a s^2 b) are never stored, nor are the other dropout masks,
// which are drawn again; statistics are, a number or two a row.
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
};
constexpr Division kDivisions[] = {{1, false}, {8, false}, {8, true}};

TrainingProgram plan_paper_model(const PaperModel& m, const Division& d, std::vector<std::string> keys) {
  for (std::string& key : keys) key = "activation_checkpointing." + key;
  const std::string yaml = fmt::format(
      "model: {{vocab_size: 51200, n_positions: {0}, n_embd: {1}, n_layer: {2}, n_head: {3}, resid_pdrop: "
      "0.1,\n"
      "        embd_pdrop: 0.1, attn_pdrop: 0.1}}\n"
      "parallelism: {{tensor_parallel_size: {4}, sequence_parallel: {5}}}\n"
      "device: {{backend: cpu, threads: 1}}\n"
      "training: {{micro_batch_size: {6}, precision: bf16, max_steps: 1}}\n"
      "data: {{format: random}}\n",
      kSequence, m.hidden, m.layers, m.heads, d.ranks, d.sequence, m.micro_batch);
  Config config = read_config_text("paper.yaml", yaml, keys);
  resolve_planned_world(config);
  return std::move(plan_training(config, 0, 0).training);
}

// Bytes that forward leaves for backward on the device, by layer.
std::vector<uint64_t> saved_bytes(const Graph& graph, int64_t layers) {
  std::vector<uint64_t> bytes(static_cast<std::size_t>(layers));
  std::vector<char> counted(graph.values().size());
  for (const Op& op : graph.ops())
    for (ValueId v : op.inputs) {
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

TEST(GatheredAgain, OneValueAtATimeAndWellBeforeItsUse) {
  for (const char* mode : {"none", "selective"}) {
    const TrainingProgram training =
        plan_paper_model(kPaperModels[0], kDivisions[2], {std::string("mode=") + mode});
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
