// The largest micro-batch, sequence length and number of layers: the answer fits as a configuration of its own, and the
// next larger one does not, whether a mode is named or a planner looks for what fits.
#include <gtest/gtest.h>

#include <regex>

#include <set>

#include <fmt/format.h>

#include "launch/config/read.h"
#include "launch/program/estimate.h"
#include "launch/program/largest_run.h"
#include "launch/program/limits.h"
#include "tests/engine/expect_error.h"
#include "tests/launch/planned.h"
#include "tests/launch/process.h"
#include "tests/launch/training_harness.h"

namespace recollect::test::largest_run_test {
namespace {

const char* const kRun = R"(
device: {backend: cpu, threads: 1}
training: {micro_batch_size: 2, max_steps: 2}
data: {format: random, sequence_length: 16}
)";
const char* const kLearned = R"(
task: question_answering
model: {type: bert, vocab_size: 24, hidden_size: 32, num_hidden_layers: 3, num_attention_heads: 4,
        intermediate_size: 64, max_position_embeddings: 512})";
const char* const kRotary = R"(
model: {type: llama, vocab_size: 24, hidden_size: 32, num_hidden_layers: 3, num_attention_heads: 4,
        num_key_value_heads: 2, intermediate_size: 48, max_position_embeddings: 20})";

Config planned(const std::string& model, const Words& words) { return test::planned(model + kRun, words); }

Words limited(uint64_t bytes, const Words& words) {
  return words + Words{fmt::format("device.memory_limit={}", bytes)};
}

// As a command line would have it.
bool does_fit(const std::string& model, const Words& words) {
  const Config config = planned(model, words);
  const TrainingProgram training = PlannedRank(config, 0, 0).plan(config);
  if (training.checkpointed.refusal) {
    EXPECT_EQ(training.checkpointed.refusal->code(), ExitCode::kDeviceMemory)
        << training.checkpointed.refusal->what();
    return false;
  }
  return fits(config, training.program.predicted());
}

struct Size {
  RunSize size;
  const char* key;
};
const Size kSizes[] = {
    {RunSize::kMicroBatch, "training.micro_batch_size"},
    {RunSize::kSequenceLength, "data.sequence_length"},
    {RunSize::kLayers, "model.num_hidden_layers"},
};

void expect_largest(const std::string& model, const Size& size, const Words& words) {
  const char* const key = size.key;
  const LargestRun found = largest_run(planned(model, words), size.size);
  ASSERT_GT(found.value, 1) << key;
  EXPECT_EQ(found.bound, "");
  EXPECT_EQ(found.settings.find(fmt::format("{}={}", key, found.value)), 0u) << found.settings;
  const bool longer = found.settings.find(' ') != std::string::npos;
  EXPECT_EQ(longer, found.settings.find("model.max_position_embeddings=") != std::string::npos);
  const auto of = [&](int64_t value) {
    Words changed = words + Words{fmt::format("{}={}", key, value)};
    return longer ? changed + Words{fmt::format("model.max_position_embeddings={}", value)} : changed;
  };
  EXPECT_TRUE(does_fit(model, of(found.value))) << found.settings;
  EXPECT_FALSE(does_fit(model, of(found.value + 1))) << found.settings;
}

TEST(LargestRun, FitsAndTheNextDoesNot) {
  for (const char* model : {kLearned, kRotary}) {
    const uint64_t given = bytes_of(planned(model, {}));
    for (const Size& size : kSizes) {
      for (const char* mode : {"none", "full", "auto"}) {
        SCOPED_TRACE(fmt::format("{} in mode {}", size.key, mode));
        expect_largest(model, size, limited(2 * given, {ac(std::string("mode=") + mode)}));
      }
    }
    // From a run that is too large itself.
    for (const char* mode : {"none", "full"}) {
      const Words words{ac(std::string("mode=") + mode)};
      expect_largest(model, kSizes[2], limited(bytes_of(planned(model, words)) - 1, words));
    }
  }
}

TEST(LargestRun, WithAPlannerIsNoSmallerThanInAnyMode) {
  const uint64_t given = bytes_of(planned(kLearned, {}));
  for (const Size& size : kSizes) {
    const auto largest = [&](const Words& words) {
      return largest_run(planned(kLearned, limited(2 * given, words)), size.size).value;
    };
    const int64_t chosen = largest({ac("mode=auto")});
    EXPECT_GT(chosen, largest({}));
    for (const char* mode : {"full", "sqrt", "selective", "recursive"})
      EXPECT_GE(chosen, largest({ac(std::string("mode=") + mode)})) << size.key << " in mode " << mode;
  }
}

TEST(LargestRun, EndsWhereTheModelDoes) {
  const Words ample = limited(uint64_t{4} << 60, {});
  EXPECT_EQ(largest_run(planned(kLearned, ample), RunSize::kMicroBatch).value, kMostTokens / 16);
  const LargestRun longest = largest_run(planned(kLearned, ample), RunSize::kSequenceLength);
  EXPECT_EQ(longest.value, 512);
  EXPECT_EQ(longest.bound, "model.max_position_embeddings 512 allows no more");
  EXPECT_EQ(largest_run(planned(kRotary, ample), RunSize::kSequenceLength).value, kMostTokens / 2)
      << "positions that are not learnt do not end";
}

// All lengths are those that sequence parallelism can divide; padding leaves the longest in charge.
TEST(LargestRun, KeepsToWhatTheRestAllows) {
  const Words divided{"parallelism.tensor_parallel_size=2", "parallelism.ranks_per_process=2",
                      "parallelism.sequence_parallel=true", "training.micro_batch_size=1"};
  const uint64_t given = bytes_of(planned(kLearned, divided));
  const LargestRun even =
      largest_run(planned(kLearned, limited(2 * given, divided)), RunSize::kSequenceLength);
  EXPECT_GT(even.value, 16);
  EXPECT_EQ(even.value % 2, 0);
  const TemporaryFolder folder;
  const Words lines{"data.format=jsonl", "data.path=" + folder.write("lines.jsonl", ""), "task=causal_lm"},
      padded = lines + Words{"data.padding=longest", "data.pad_to_multiple_of=8"};
  const auto longest = [&](const Words& words) {
    return largest_run(planned(kRotary, limited(1 << 20, words)), RunSize::kSequenceLength).value;
  };
  EXPECT_EQ(longest(padded), longest(lines));
  // Up to 8 tokens there is one length: a run would refuse the padding.
  const Words short_ones = padded + Words{"data.sequence_length=4", "data.pad_to_multiple_of=1"};
  const LargestRun none = largest_run(
      planned(kRotary, limited(bytes_of(planned(kRotary, short_ones)), padded)), RunSize::kSequenceLength);
  EXPECT_EQ(none.value, 0);
  EXPECT_EQ(none.smallest, 9);
  const LargestRun batch =
      largest_run(planned(kRotary, limited(1 << 20, Words{"training.global_batch_size=4",
                                                          "training.gradient_accumulation_steps=2"})),
                  RunSize::kMicroBatch);
  EXPECT_EQ(batch.settings, fmt::format("training.micro_batch_size={} training.global_batch_size={}",
                                        batch.value, 2 * batch.value));
  const Words one_by_one = lines + Words{"data.padding=longest", "data.pad_to_multiple_of=1"};
  EXPECT_EQ(
      largest_run(planned(kRotary, limited(int64_t{1} << 40, one_by_one)), RunSize::kSequenceLength).bound,
      "data.pad_to_multiple_of 1 allows no more");
}

// Each size that is answered, one with an odd number of samples in the way, is one that trains.
TEST(LargestRun, IsEvenWhereHalvesTakeTurns) {
  const Words halves{"parallelism.tensor_parallel_size=2", "parallelism.overlap_halves=true",
                     "training.micro_batch_size=4", "training.global_batch_size=4"};
  std::set<int64_t> values;
  for (const int64_t kibibytes : {512, 640, 768, 1024}) {
    const LargestRun run =
        largest_run(planned(kRotary, limited(kibibytes << 10, halves)), RunSize::kMicroBatch);
    values.insert(run.value);
    EXPECT_EQ(run.value % 2, 0) << kibibytes;
    EXPECT_GT(run.value, 0) << kibibytes;
  }
  EXPECT_GT(values.size(), 2u);
}

// A mode that has no effect in a few layers is not asked of them; the answer is a run of that mode, or none.
TEST(LargestRun, IsNoRunThatItsModeRefuses) {
  const Words words{ac("mode=every_k"), ac("k=2")};
  const uint64_t three = bytes_of(planned(kLearned, words));
  const LargestRun found = largest_run(planned(kLearned, limited(three, words)), RunSize::kLayers);
  EXPECT_EQ(found.value, 3);
  const LargestRun none = largest_run(planned(kLearned, limited(three - 1, words)), RunSize::kLayers);
  EXPECT_EQ(none.value, 0);
  EXPECT_EQ(none.smallest, 3);
  // The given run may be too small itself.
  for (const Words& mode :
       {Words{ac("mode=full"), ac("cpu_checkpointing=true")}, Words{ac("mode=every_k"), ac("k=3")}}) {
    const auto from = [&](int given) {
      const Words layers{fmt::format("model.num_hidden_layers={}", given)};
      return largest_run(planned(kLearned, limited(2 * three, mode + layers)), RunSize::kLayers).value;
    };
    EXPECT_GT(from(4), 4);
    EXPECT_EQ(from(1), from(4));
  }
  expect_error(ExitCode::kConfiguration, {"number_checkpoints is 3"}, [&] {
    largest_run(planned(kLearned, limited(3 * three, {ac("mode=full"), ac("number_checkpoints=3")})),
                RunSize::kLayers);
  });
}

TEST(LargestRun, IsSaidInWordsAndJson) {
  const Workplace place;
  place.folder().write("run.yaml", std::string(kLearned) + kRun);
  const auto ask = [&](const Words& words) { return place.recollect(Words{"estimate", "run.yaml"} + words); };
  const Finished text = ask({"--max-layers", "device.memory_limit=1MiB"}),
                 json = ask({"--max-layers", "device.memory_limit=1MiB", "--json"}),
                 none = ask({"--max-sequence-length", "device.memory_limit=1KiB"}),
                 unlimited = ask({"--max-sequence-length", "parallelism.data_parallel_size=2"});
  ASSERT_EQ(json.status, 0) << json.err;
  const auto document = nlohmann::json::parse(json.out);
  EXPECT_GT(document.at("layers"), 1);
  EXPECT_EQ(text.out,
            fmt::format("model.num_hidden_layers={} is the largest that fits 1048576 bytes (1.00 MiB)\n",
                        document.at("layers").get<int64_t>()));
  EXPECT_EQ(document.at("settings"), text.out.substr(0, text.out.find(' ')));
  EXPECT_EQ(none.status, 4);
  EXPECT_NE(none.err.find("not even data.sequence_length=1 fits 1024 bytes (1.00 KiB)"), std::string::npos)
      << none.err;
  // Then it is this machine that it must fit.
  EXPECT_EQ(unlimited.status, 0) << unlimited.err;
  EXPECT_TRUE(std::regex_search(unlimited.err,
                                std::regex("device\\.memory_limit is [0-9.]+ [MG]iB: nine tenths of this "
                                           "machine's [0-9.]+ GiB for 2 ranks\n")))
      << unlimited.err;
}

}  // namespace
}  // namespace recollect::test::largest_run_test
