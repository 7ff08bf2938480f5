// Sequences padded to the longest of their micro-batch train as those padded to one length do, in memory that was
// predicted for every length, and with the same bits whatever is checkpointed.
#include <gtest/gtest.h>

#include <map>

#include <cmath>
#include <filesystem>
#include <random>

#include <fmt/format.h>

#include "launch/config/read.h"
#include "launch/program/estimate.h"
#include "launch/program/lengths.h"
#include "launch/ranks/world.h"
#include "launch/report/rank_report.h"
#include "tests/engine/expect_error.h"
#include "tests/launch/training_harness.h"
#include "tests/launch/training_rounding.h"

namespace recollect::test::lengths_test {
namespace {

using Words = std::vector<std::string>;

const char* const kBert = R"(
task: token_classification
model: {type: bert, vocab_size: 41, hidden_size: 20, num_hidden_layers: 4, num_attention_heads: 4,
        intermediate_size: 28, max_position_embeddings: 24, num_labels: 3, initializer_range: 0.2}
device: {threads: 1}
training: {micro_batch_size: 2, global_batch_size: 8, max_steps: 3, seed: 7}
data: {format: jsonl, sequence_length: 24}
)";
const char* const kGpt2 = R"(
model: {type: gpt2, vocab_size: 41, n_positions: 24, n_embd: 20, n_layer: 4, n_head: 4}
device: {threads: 1}
training: {micro_batch_size: 2, global_batch_size: 8, max_steps: 3, seed: 7}
data: {format: jsonl, sequence_length: 24}
)";
const char* const kLlama = R"(
model: {type: llama, vocab_size: 41, hidden_size: 20, num_hidden_layers: 4, num_attention_heads: 4,
        num_key_value_heads: 2, head_dim: 6, intermediate_size: 28, max_position_embeddings: 24,
        attention_dropout: 0.1, initializer_range: 0.2}
device: {threads: 1}
training: {micro_batch_size: 2, global_batch_size: 8, max_steps: 3, seed: 7}
data: {format: jsonl, sequence_length: 24}
)";

// Lines of JSONL of every length up to `longest`, in a folder of its own.
class Lines {
 public:
  Lines(int64_t longest, bool labels) {
    std::mt19937 random(3);
    std::string text;
    for (int64_t i = 0; i < 60; ++i) {
      const int64_t length = 1 + static_cast<int64_t>(random()) % longest;
      std::string ids, classes;
      for (int64_t j = 0; j < length; ++j) {
        ids += fmt::format("{}{}", j ? ", " : "", random() % 41);
        classes += fmt::format("{}{}", j ? ", " : "", random() % 3);
      }
      text += fmt::format("{{\"input_ids\": [{}]{}}}\n", ids,
                          labels ? fmt::format(", \"labels\": [{}]", classes) : "");
    }
    path_ = folder_.write("lines.jsonl", text);
  }
  std::string word() const { return "data.path=" + path_; }

 private:
  TemporaryFolder folder_;
  std::string path_;
};

Words plus(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Softmax does not see the key's bias: its gradient is zero but for rounding.
Tensors without_key_bias(Tensors tensors) {
  std::erase_if(tensors, [](const auto& tensor) { return tensor.first.ends_with("key.bias"); });
  return tensors;
}

void expect_close(const Trained& a, const Trained& b, double tolerance) {
  ASSERT_EQ(a.steps.size(), b.steps.size());
  for (std::size_t i = 0; i < a.steps.size(); ++i) {
    EXPECT_NEAR(a.steps[i].loss, b.steps[i].loss, tolerance * std::abs(a.steps[i].loss));
    EXPECT_NEAR(a.steps[i].grad_norm, b.steps[i].grad_norm, tolerance * a.steps[i].grad_norm);
    EXPECT_EQ(a.steps[i].valid_targets, b.steps[i].valid_targets);
  }
  EXPECT_LE(largest_difference(without_key_bias(a.gradients), without_key_bias(b.gradients)), tolerance);
  EXPECT_LE(largest_difference(without_key_bias(a.parameters), without_key_bias(b.parameters)), tolerance);
}

const Words kExactly = {"training.precision=fp64", "device.backend=reference", "device.threads=0",
                        "optimizer.name=sgd"};

// Dropout is on, and data ranks have other lengths than each other.
TEST(Lengths, DecideNothing) {
  for (const bool bert : {true, false}) {
    const Lines lines(24, bert);
    const char* const yaml = bert ? kBert : kGpt2;
    const Words words = plus(kExactly, {lines.word()});
    const Trained fixed = train(yaml, words);
    const Trained longest = train(yaml, plus(words, {"data.padding=longest", "data.pad_to_multiple_of=1"}));
    expect_close(fixed, longest, 1e-12);
    EXPECT_LT(longest.steps[0].tokens, fixed.steps[0].tokens);
    for (const Words& ranks : {Words{"parallelism.data_parallel_size=2", "parallelism.ranks_per_process=2"},
                               Words{"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2",
                                     "parallelism.sequence_parallel=true"},
                               Words{"parallelism.data_parallel_size=2", "parallelism.tensor_parallel_size=2",
                                     "parallelism.ranks_per_process=4"}}) {
      const Trained cut = train(yaml, plus(plus(words, ranks), {"data.padding=longest"}));
      expect_close(fixed, cut, 1e-12);
      EXPECT_EQ(cut.predicted, cut.measured);
    }
  }
}

TEST(Lengths, ChangeNoBitOfCheckpointing) {
  const Lines lines(24, true);
  for (const Words& layout :
       {Words{}, Words{"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2"}}) {
    const Words words = plus(layout, {lines.word(), "data.padding=longest"});
    const Trained none = train(kBert, words);
    for (const std::string_view mode : kNamedModes)
      for (const bool away : {false, true}) {
        if (mode == "none" && !away) continue;
        Words switched = plus(words, {ac("mode=" + std::string(mode))});
        if (mode == "every_k") switched.push_back(ac("k=2"));
        if (away) switched.push_back(ac("cpu_checkpointing=true"));
        if (away && !layout.empty()) switched.push_back(ac("partition_activations=true"));
        expect_same_bits(none, train(kBert, switched), std::string(mode) + (away ? " away" : ""));
      }
  }
}

TEST(Lengths, ChangeNoBitOfLlamaOnDisk) {
  const Lines lines(24, false);
  const Words words = {lines.word(), "data.padding=longest", "training.precision=bf16"};
  const Trained none = train(kLlama, words);
  for (const std::string_view mode : kNamedModes) {
    Words switched =
        plus(words, {ac("mode=" + std::string(mode)),
                     ac("disk_checkpointing.path=" + std::filesystem::temp_directory_path().string())});
    if (mode == "every_k") switched.push_back(ac("k=2"));
    expect_same_bits(none, train(kLlama, switched), std::string(mode));
  }
}

// A session on a rank of its own.
template <typename Use>
void with_session(const char* yaml, const Words& words, const Use& use) {
  const Config config = read_config_text("test.yaml", yaml, words);
  std::unique_ptr<MpiEnvironment> mpi;
  run_ranks(config, mpi, [&](Communicator& world) {
    Config mine = config;
    resolve_world(mine, world.size());
    Session session(mine, world);
    use(mine, session);
  });
}

TEST(Lengths, MemoryOfEachIsPredicted) {
  const Lines lines(24, true);
  for (const char* mode : {"none", "full", "selective"})
    with_session(
        kBert,
        {lines.word(), "data.padding=longest", "data.pad_to_multiple_of=1", "training.max_steps=32",
         "training.global_batch_size=2", ac(std::string("mode=") + mode), ac("cpu_checkpointing=true")},
        [](const Config& config, Session& session) {
          const uint64_t longest = session.executor().program().predicted().transient_bytes;
          const uint64_t persistent = session.executor().program().predicted().persistent_bytes;
          std::map<int64_t, uint64_t> peaks;  // that steps of a length say of themselves
          uint64_t peak = 0;                  // of the length before
          for (int i = 0; i < 32; ++i) {
            const StepResult step = session.step();
            EXPECT_EQ(step.samples, config.training.micro_batch_size);
            peaks[step.sequence_length] = step.memory_peak;
          }
          const RankReport report = report_of(config, session.measurements());
          EXPECT_GT(report.lengths.size(), 5u);
          int64_t micro_batches = 0;
          uint64_t before = 0;
          for (const LengthReport& l : report.lengths) {
            EXPECT_EQ(l.measured_bytes, l.predicted_bytes) << l.length;
            EXPECT_LE(l.measured_bytes, longest);
            EXPECT_LE(before, l.measured_bytes) << "more tokens need no less";
            if (peaks.contains(l.length)) {  // a step is of its neediest micro-batch
              EXPECT_LE(peaks[l.length], persistent + l.measured_bytes);
              EXPECT_GT(peaks[l.length], std::max(persistent, peak)) << l.length << ": more tokens need more";
              peak = peaks[l.length];
            }
            EXPECT_GT(l.predicted, 0);
            EXPECT_GT(l.measured, 0);
            micro_batches += l.micro_batches;
            before = l.measured_bytes;
          }
          EXPECT_EQ(micro_batches, 32);
          EXPECT_GT(peaks.size(), 5u);
        });
}

// The optimizer's phase belongs to the last micro-batch's program, which here is never the longest one's; and sequences
// of the longest length never come.
TEST(Lengths, MemoryOfAStepOfSeveralIsPredicted) {
  const TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 8; ++i)
    lines += i % 2 ? "{\"input_ids\": [1, 2]}\n" : "{\"input_ids\": [1, 2, 3, 4, 5, 6, 7, 8, 9]}\n";
  for (const char* mode : {"none", "full"})
    with_session(kLlama,
                 {"data.path=" + folder.write("lines.jsonl", lines), "data.shuffle=false",
                  "data.padding=longest", "data.pad_to_multiple_of=1", "training.micro_batch_size=1",
                  "training.global_batch_size=2", ac(std::string("mode=") + mode)},
                 [](const Config& config, Session& session) {
                   for (int i = 0; i < 3; ++i) session.step();
                   const RankReport report = report_of(config, session.measurements());
                   ASSERT_TRUE(report.measured);
                   EXPECT_EQ(*report.measured, report.predicted);
                   for (const auto& of_phase : report.measured->at_peak)
                     EXPECT_GT(of_phase[static_cast<int>(Category::kOptimizer)], 0u);
                   EXPECT_EQ(report.reserved.arena, session.programs().needs().arena_bytes());
                   EXPECT_EQ(report.reserved.arena, report.reserved.arena_predicted);
                   EXPECT_LT(report.measured->arena_bytes(), report.reserved.arena);
                 });
}

TEST(Lengths, AreMadeAheadWhereAsked) {
  const Lines lines(24, true);
  for (const char* when : {"lazy", "ahead"})
    with_session(kBert, {lines.word(), "data.padding=longest", "training.compile=" + std::string(when)},
                 [&](const Config& config, Session& session) {
                   const std::size_t known = session.measurements().programs.all().size();
                   EXPECT_EQ(known, std::string(when) == "lazy" ? 1u : 3u);  // 8, 16, 24
                   EXPECT_EQ(all_batch_shapes(config).size(), 3u);
                   session.step();
                   EXPECT_LE(session.measurements().programs.all().size(), 3u);
                 });
}

const char* const kSmallBert = R"(
task: sequence_classification
model: {type: bert, vocab_size: 41, hidden_size: 64, num_hidden_layers: 1, num_attention_heads: 1,
        intermediate_size: 256, max_position_embeddings: 142}
device: {threads: 1}
training: {micro_batch_size: 8, seed: 7}
data: {format: jsonl, sequence_length: 142, shuffle: false}
)";

// Eight lines of each length.
std::string eight_lines_each(const std::vector<int>& lengths, const TemporaryFolder& folder) {
  std::string text;
  for (const int length : lengths) {
    std::string line;
    for (int i = 0; i < length; ++i) line += i ? ", 1" : "1";
    for (int i = 0; i < 8; ++i) text += fmt::format("{{\"input_ids\": [{}], \"labels\": {}}}\n", line, i % 2);
  }
  return folder.write("lines.jsonl", text);
}

uint64_t reserved_bytes(const Session& session) {
  return session.programs().memory().arena(MemorySpace::kDevice).bytes();
}

// Products of 112 x 8 rows want more workspace here than those of 142 x 8, and forward alone has nothing to spare.
TEST(Lengths, AShorterOneThatNeedsMoreFindsItReserved) {
  const TemporaryFolder folder;
  const Words words = {"training.max_steps=0", "evaluation.format=jsonl", "evaluation.every_steps=1",
                       "evaluation.path=" + eight_lines_each({112}, folder)};
  const double loss = train(kSmallBert, words).evaluations.at(0).loss;
  std::vector<uint64_t> reserved;
  for (const char* when : {"lazy", "ahead"})
    with_session(kSmallBert, plus(words, {"data.padding=longest", fmt::format("training.compile={}", when)}),
                 [&](const Config& config, Session& session) {
                   reserved.push_back(reserved_bytes(session));
                   EXPECT_EQ(estimate(config).memory.arena_bytes(), reserved.back());
                   // Of less than sixteen ops, one after the other.
                   EXPECT_NEAR(session.evaluate().loss, loss, 4 * result_bound(DType::kF32, 256) * loss);
                 });
  EXPECT_EQ(reserved[0], reserved[1]);
}

// With a budget that the longest fits without recomputation, and some shorter ones do not, where products are those of
// AVX-512.
TEST(Lengths, AShorterOneThatNeedsMoreKeepsTheBudget) {
  const TemporaryFolder folder;
  std::vector<int> lengths;
  for (int length = 142; length >= 100; length -= 3) lengths.push_back(length);
  const Words words = {"data.path=" + eight_lines_each(lengths, folder),
                       fmt::format("training.max_steps={}", lengths.size())};
  uint64_t longest = 0;
  with_session(kSmallBert, words,
               [&](const Config&, Session& session) { longest = reserved_bytes(session); });
  const Words changing = plus(words, {"data.padding=longest", "data.pad_to_multiple_of=1"});
  std::vector<StepResult> none;
  for (const Words& more : {Words{}, Words{ac("mode=auto"), ac(fmt::format("memory_budget={}", longest))}})
    with_session(kSmallBert, plus(changing, more), [&](const Config& config, Session& session) {
      EXPECT_EQ(estimate(config).memory.arena_bytes(), reserved_bytes(session));
      EXPECT_TRUE(more.empty() || reserved_bytes(session) <= longest);
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        const StepResult step = session.step();
        if (more.empty())
          none.push_back(step);
        else
          EXPECT_EQ(step.loss, none[i].loss) << lengths[i];
      }
      EXPECT_EQ(session.programs().all().size(), lengths.size());
    });
}

TEST(Lengths, TokensOfAStepAreThoseThatItRead) {
  const Lines lines(24, true);
  with_session(kBert,
               {lines.word(), "data.padding=bucket", "data.pad_to_multiple_of=10", "data.shuffle=false"},
               [](const Config&, Session& session) {
                 int64_t tokens = 0;
                 const StepResult step = session.step();
                 for (const auto& [shape, ready] : session.measurements().programs.all()) {
                   EXPECT_TRUE(shape.sequence_length % 10 == 0 || shape.sequence_length == 24);
                   tokens += ready.micro_batches * shape.samples * shape.sequence_length;
                 }
                 EXPECT_EQ(step.tokens, tokens);
               });
}

TEST(Lengths, EvaluationsHaveTheirOwn) {
  const Lines lines(24, true);
  const Words words = {lines.word(), "evaluation." + lines.word().substr(5), "evaluation.every_steps=1",
                       "training.max_steps=2"};
  const Trained fixed = train(kBert, plus(words, kExactly)),
                longest = train(kBert, plus(plus(words, kExactly), {"data.padding=longest"}));
  ASSERT_EQ(fixed.evaluations.size(), longest.evaluations.size());
  for (std::size_t i = 0; i < fixed.evaluations.size(); ++i) {
    EXPECT_NEAR(fixed.evaluations[i].loss, longest.evaluations[i].loss, 1e-12 * fixed.evaluations[i].loss);
    EXPECT_EQ(fixed.evaluations[i].valid_targets, longest.evaluations[i].valid_targets);
    EXPECT_LT(longest.evaluations[i].tokens, fixed.evaluations[i].tokens);
  }
}

TEST(Lengths, TensorRanksReadTheSame) {
  const Lines lines(24, true), others(9, true);
  const Config config =
      read_config_text("test.yaml", kBert,
                       {lines.word(), "data.padding=longest", "parallelism.tensor_parallel_size=2",
                        "parallelism.ranks_per_process=2"});
  std::unique_ptr<MpiEnvironment> mpi;
  expect_error(ExitCode::kRanksDisagree, {"have read sequences of other lengths"}, [&] {
    run_ranks(config, mpi, [&](Communicator& world) {
      Config mine = config;
      resolve_world(mine, world.size());
      if (world.rank() == 1) mine.data.path = {others.word().substr(10)};
      Session session(mine, world);
      session.step();
    });
  });
}

}  // namespace
}  // namespace recollect::test::lengths_test
