// What each task makes of lines of JSONL: the batch, to the word, as a model of that task reads it.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/core/ignored_label.h"
#include "engine/data/dataset.h"
#include "engine/data/loader.h"
#include "engine/data/tasks.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/temporary_folder.h"

namespace recollect::test::data_tasks_test {
namespace {

using List = std::vector<int32_t>;
using Batch = std::map<std::string, List>;

constexpr TokenInputs kInputs{.sequence_length = 4, .vocabulary_size = 50, .token_types = 2, .padding_id = 9};
constexpr int32_t kIgnored = kIgnoredLabel;

int32_t bits(float value) { return std::bit_cast<int32_t>(value); }

class DataTasks : public ::testing::Test {
 protected:
  std::unique_ptr<Dataset> open(const TaskData& task, const std::string& lines, int64_t length = 4) {
    return open_dataset({.format = DataFormat::kJsonl,
                         .paths = {folder_.write("a.jsonl", lines)},
                         .sequence_length = length,
                         .vocabulary_size = 50,
                         .fields = task.fields});
  }
  // All samples of the lines, in their order, and one of padding behind them.
  void expect_batch(const TaskData& task, const std::string& lines, const Batch& expected,
                    const TargetCounts& valid) {
    const auto dataset = open(task, lines);
    StepBatch batch;
    BatchReader(*dataset, *task.collator, SampleOrder(dataset->size(), 0, false),
                {.micro_batch_size = dataset->size() + 1, .cycle = 1})
        .read(0, batch);
    EXPECT_EQ(batch.valid_targets, valid);
    Batch found;
    for (const Field& field : batch.micro_batches[0].fields) found[field.name] = field.values;
    EXPECT_EQ(found, expected);
    for (const Collator::BatchField& field : task.collator->fields())
      EXPECT_EQ(batch.micro_batches[0].fields.field(field.name).dtype, field.dtype) << field.name;
  }

  TemporaryFolder folder_;
};

TEST_F(DataTasks, CausalLmReadsIdsAndTargets) {
  expect_batch(
      causal_lm_data(kInputs),
      "{\"input_ids\": [1, 2, 3]}\n"
      "{\"input_ids\": [1, 2, 3, 4], \"labels\": [1, -100, 3, 7]}\n",
      {{"ids", {1, 2, 3, 0, 1, 2, 3, 4, 0, 0, 0, 0}},
       {"targets",
        {2, 3, kIgnored, kIgnored, kIgnored, 3, 7, kIgnored, kIgnored, kIgnored, kIgnored, kIgnored}}},
      {4, 0});
}

TEST_F(DataTasks, MaskedLmTakesLabelsAsTheyAre) {
  expect_batch(
      masked_lm_data(kInputs, {.mask_id = 3}),
      "{\"input_ids\": [1, 3, 2], \"labels\": [-100, 8, -100]}\n"
      "{\"input_ids\": [1, 3, 2, 9], \"labels\": [1, 8, 2, -100], \"attention_mask\": [1, 1, 1, 0], "
      "\"token_type_ids\": [0, 1, 1, 0]}\n",
      {{"ids", {1, 3, 2, 9, 1, 3, 2, 9, 9, 9, 9, 9}},
       {"token_types", {0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0}},
       {"lengths", {3, 3, 1}},
       {"targets",
        {kIgnored, 8, kIgnored, kIgnored, 1, 8, 2, kIgnored, kIgnored, kIgnored, kIgnored, kIgnored}}},
      {4, 0});
}

TEST_F(DataTasks, AModelWithoutTokenTypesReadsNone) {
  TokenInputs inputs = kInputs;
  inputs.token_types = 0;
  const TaskData task = token_classification_data(inputs, 3);
  expect_batch(task, "{\"input_ids\": [1, 2], \"labels\": [2, -100]}",
               {{"ids", {1, 2, 9, 9, 9, 9, 9, 9}},
                {"lengths", {2, 1}},
                {"targets", {2, kIgnored, kIgnored, kIgnored, kIgnored, kIgnored, kIgnored, kIgnored}}},
               {1, 0});
  expect_error(ExitCode::kInput, {"unknown key \"token_type_ids\"", "\"input_ids\" and \"labels\""},
               [&] { open(task, "{\"input_ids\": [1], \"labels\": [1], \"token_type_ids\": [0]}"); });
}

TEST_F(DataTasks, SequenceClassification) {
  const Batch tokens = {
      {"ids", {1, 2, 9, 9, 1, 9, 9, 9, 9, 9, 9, 9}}, {"token_types", List(12, 0)}, {"lengths", {2, 1, 1}}};
  const auto with_targets = [&](List targets) {
    Batch batch = tokens;
    batch["targets"] = std::move(targets);
    return batch;
  };
  expect_batch(sequence_classification_data(kInputs, 3, ProblemType::kSingleLabel),
               "{\"input_ids\": [1, 2], \"labels\": 2}\n{\"labels\": [-100], \"input_ids\": [1]}",
               with_targets({2, kIgnored, kIgnored}), {1, 0});
  expect_batch(sequence_classification_data(kInputs, 1, ProblemType::kRegression),
               "{\"input_ids\": [1, 2], \"labels\": -2.5e-1}\n{\"labels\": [7], \"input_ids\": [1]}",
               with_targets({bits(-0.25f), bits(7), bits(kIgnoredNumber)}), {2, 0});
  expect_batch(
      sequence_classification_data(kInputs, 2, ProblemType::kMultiLabel),
      "{\"input_ids\": [1, 2], \"labels\": [1, 0.1]}\n{\"labels\": [0.0, -0], \"input_ids\": [1]}",
      with_targets({bits(1), bits(0.1f), bits(0), bits(-0.0f), bits(kIgnoredNumber), bits(kIgnoredNumber)}),
      {4, 0});
}

TEST_F(DataTasks, MultipleChoiceHasARowForEachChoice) {
  expect_batch(multiple_choice_data(kInputs, 2),
               "{\"input_ids\": [[1, 2, 3], [4]], \"labels\": 1}\n"
               "{\"input_ids\": [[5, 6], [7, 8]], \"labels\": 0, \"attention_mask\": [[1, 0], [1, 1]], "
               "\"token_type_ids\": [[0, 1], [1, 1]]}\n",
               {{"ids", {1, 2, 3, 9, 4, 9, 9, 9, 5, 6, 9, 9, 7, 8, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9}},
                {"token_types", {0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
                {"lengths", {3, 1, 1, 2, 1, 1}},
                {"targets", {1, 0, kIgnored}}},
               {2, 0});
}

// Transformers: clamp(0, length), and that index is ignored.
TEST_F(DataTasks, QuestionAnsweringClampsPositions) {
  expect_batch(question_answering_data(kInputs),
               "{\"input_ids\": [1, 2], \"start_positions\": 0, \"end_positions\": 3}\n"
               "{\"input_ids\": [1, 2], \"start_positions\": -1, \"end_positions\": 4}\n"
               "{\"input_ids\": [1, 2], \"start_positions\": 2147483647, \"end_positions\": -100}\n",
               {{"ids", {1, 2, 9, 9, 1, 2, 9, 9, 1, 2, 9, 9, 9, 9, 9, 9}},
                {"token_types", List(16, 0)},
                {"lengths", {2, 2, 2, 1}},
                {"targets", {0, 3, 0, kIgnored, kIgnored, 0, kIgnored, kIgnored}}},
               {2, 2});
}

TEST_F(DataTasks, TokenClassification) {
  expect_batch(token_classification_data(kInputs, 5),
               "{\"input_ids\": [1, 2, 3], \"labels\": [4, -100, 0], \"attention_mask\": [1, 1, 1]}",
               {{"ids", {1, 2, 3, 9, 9, 9, 9, 9}},
                {"token_types", List(8, 0)},
                {"lengths", {3, 1}},
                {"targets", {4, kIgnored, 0, kIgnored, kIgnored, kIgnored, kIgnored, kIgnored}}},
               {2, 0});
}

struct NamedTask {
  const char* name;
  TaskData data;
};

std::vector<NamedTask> all_tasks(const TokenInputs& inputs) {
  std::vector<NamedTask> tasks;
  tasks.push_back({"causal_lm", causal_lm_data(inputs)});
  tasks.push_back({"masked_lm", masked_lm_data(inputs, {.mask_id = 3})});
  tasks.push_back({"classes", sequence_classification_data(inputs, 3, ProblemType::kSingleLabel)});
  tasks.push_back({"regression", sequence_classification_data(inputs, 1, ProblemType::kRegression)});
  tasks.push_back({"several labels", sequence_classification_data(inputs, 2, ProblemType::kMultiLabel)});
  tasks.push_back({"multiple_choice", multiple_choice_data(inputs, 3)});
  tasks.push_back({"question_answering", question_answering_data(inputs)});
  tasks.push_back({"token_classification", token_classification_data(inputs, 5)});
  return tasks;
}

TEST_F(DataTasks, RandomDataHasWhatEachTaskNeeds) {
  const TokenInputs inputs{.sequence_length = 64, .vocabulary_size = 1000, .token_types = 2};
  const auto read = [](const Dataset& dataset, int64_t index) {
    Fields sample;
    dataset.read(index, sample);
    return sample;
  };
  List causal_ids;
  for (const auto& [name, task] : all_tasks(inputs)) {
    SCOPED_TRACE(name);
    DatasetSpec spec{.format = DataFormat::kRandom, .sequence_length = 64, .vocabulary_size = 1000};
    spec.seed = 5, spec.fields = task.fields;
    const auto dataset = open_dataset(spec);
    Fields sample = read(*dataset, 7);
    EXPECT_EQ(sample, read(*dataset, 7));
    const auto& ids = sample["ids"];
    if (causal_ids.empty()) causal_ids = ids;
    if (task.collator->rows() == 1) {
      EXPECT_EQ(ids, causal_ids) << "as ever";
    }
    EXPECT_EQ(static_cast<int64_t>(ids.size()), 64 * task.collator->rows());
    EXPECT_GT(std::set<int32_t>(ids.begin(), ids.end()).size(), 55u) << "rows that repeat each other";
    for (const FieldSpec& field : task.fields) {
      if (!field.required || field.name == "ids") continue;
      std::map<int32_t, int> found;
      for (int64_t index = 0; index < 1000; ++index) {
        Fields made = read(*dataset, index);
        for (const int32_t word : made[field.name]) ++found[word];
      }
      EXPECT_EQ(static_cast<int64_t>(found.size()), field.dtype == DType::kF32 ? 2 : field.random_values);
      const double even =
          1000.0 * static_cast<double>(sample[field.name].size()) / static_cast<double>(found.size());
      for (const auto& [word, times] : found) {
        if (even > 50) {
          EXPECT_NEAR(times, even, 5 * std::sqrt(even)) << word;
        }
        const double value = field.dtype == DType::kF32 ? double{std::bit_cast<float>(word)} : double(word);
        EXPECT_TRUE(value >= 0 && value < static_cast<double>(field.random_values)) << value;
      }
    }
    StepBatch batch;
    BatchReader(*dataset, *task.collator, SampleOrder(dataset->size(), 0, true), {.micro_batch_size = 2})
        .read(0, batch);
    EXPECT_GT(total(batch.valid_targets), 0);
  }
}

TEST_F(DataTasks, TextAndTokensAreEnoughWhereNoLabelsAreNeeded) {
  const std::string text = folder_.write("a.txt", std::string(100, 'a'));
  const TokenInputs inputs{.sequence_length = 8, .vocabulary_size = 256};
  for (const auto& [name, task] : all_tasks(inputs)) {
    const auto open_text = [&, &task = task] {
      return open_dataset({.format = DataFormat::kText,
                           .paths = {text},
                           .sequence_length = 8,
                           .vocabulary_size = 256,
                           .fields = task.fields});
    };
    if (std::string(name).ends_with("_lm"))
      EXPECT_EQ(open_text()->size(), 12) << name;
    else
      expect_error(ExitCode::kConfiguration, {"text data has no \"", "jsonl, or random"}, open_text);
  }
}

// Reading allocates nothing, whichever of a line's keys stand in which line.
TEST_F(DataTasks, SamplesKeepTheirMemory) {
  const std::map<std::string, std::string> lines = {
      {"masked_lm",
       "{\"input_ids\": [1]}\n"
       "{\"input_ids\": [1, 2, 3, 4], \"labels\": [1, 2, 3, 4], \"attention_mask\": [1, 1, 1, 0], "
       "\"token_type_ids\": [0, 0, 0, 1]}"},
      {"multiple_choice",
       "{\"input_ids\": [[1], [2], [3]], \"labels\": 1}\n"
       "{\"input_ids\": [[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4]], \"labels\": 0, "
       "\"token_type_ids\": [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]}"}};
  int tried = 0;
  for (const auto& [name, task] : all_tasks(kInputs)) {
    if (lines.count(name) == 0) continue;
    const auto dataset = open(task, lines.at(name));
    Fields sample;
    dataset->read(0, sample);
    const auto memory = [&] {
      std::vector<std::pair<const void*, const void*>> places;
      for (const Field& field : sample) places.emplace_back(field.values.data(), field.ends.data());
      return places;
    };
    const auto before = memory();
    sample.clear();
    dataset->read(1, sample);
    EXPECT_EQ(memory(), before) << name;
    ++tried;
  }
  EXPECT_EQ(tried, 2);
}

}  // namespace
}  // namespace recollect::test::data_tasks_test
