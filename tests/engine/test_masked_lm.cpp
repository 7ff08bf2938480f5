// Masking of data without labels: how much is chosen and what becomes of it, and that it follows from the
// seed, the sample's number in the run and the position alone.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "engine/core/ignored_label.h"
#include "engine/data/dataset.h"
#include "engine/data/loader.h"
#include "engine/data/tasks.h"
#include "tests/engine/temporary_folder.h"

namespace recollect::test::masked_lm_test {
namespace {

constexpr int32_t kMask = 4;

Masking masking(double probability = 0.15) {
  return {.mask_id = kMask, .special_ids = {0, 1, 2, 3, kMask}, .probability = probability, .seed = 7};
}

TokenInputs inputs(int64_t length) { return {.sequence_length = length, .vocabulary_size = 1000}; }

std::unique_ptr<Dataset> random_ids(int64_t length, int64_t size) {
  return open_dataset({.format = DataFormat::kRandom,
                       .sequence_length = length,
                       .vocabulary_size = 1000,
                       .random_size = size});
}

StepBatch read(const Dataset& dataset, const Masking& how, const LoaderOptions& options, int64_t step = 0) {
  const TaskData task = masked_lm_data(inputs(dataset.sequence_length()), how);
  StepBatch batch;
  BatchReader(dataset, *task.collator, SampleOrder(dataset.size(), 3, true), options).read(step, batch);
  return batch;
}

void expect_share(int64_t count, int64_t all, double share) {
  const double mean = static_cast<double>(all) * share, deviation = std::sqrt(mean * (1 - share));
  EXPECT_NEAR(static_cast<double>(count), mean, 5 * deviation) << share;
}

TEST(MaskedLm, FifteenInAHundredAreChosenAndMostOfThemMasked) {
  const int64_t length = 128, samples = 1000;
  const auto dataset = random_ids(length, samples);
  const SampleOrder order(samples, 3, true);
  StepBatch batch = read(*dataset, masking(), {.micro_batch_size = samples});
  const auto& ids = batch.micro_batches[0].fields["ids"];
  const auto& targets = batch.micro_batches[0].fields["targets"];
  int64_t plain = 0, chosen = 0, masked = 0, replaced = 0;
  std::set<int32_t> replacements;
  for (int64_t sample = 0; sample < samples; ++sample) {
    Fields original;
    dataset->read(order.at(sample), original);
    for (int64_t position = 0; position < length; ++position) {
      const int32_t was = original["ids"][position], is = ids[sample * length + position],
                    target = targets[sample * length + position];
      plain += was > kMask;
      if (target == kIgnoredLabel) {
        ASSERT_EQ(is, was) << "not chosen";
        continue;
      }
      ASSERT_EQ(target, was);
      ASSERT_GT(was, kMask) << "a special id was chosen";
      ++chosen;
      masked += is == kMask;
      if (is == was || is == kMask) continue;
      ++replaced;
      replacements.insert(is);
    }
  }
  EXPECT_EQ(batch.valid_targets, (TargetCounts{chosen, 0}));
  expect_share(chosen, plain, 0.15);
  expect_share(masked, chosen, 0.8 + 0.1 / 1000);  // a random one may be the mask
  expect_share(replaced, chosen, 0.1 * 998 / 1000);
  EXPECT_GT(replacements.size(), 700u) << "of the whole vocabulary";
  EXPECT_LT(*replacements.begin(), 5) << "of special ids too";
}

TEST(MaskedLm, TheProbabilityIsThatOfTheSettings) {
  const auto dataset = random_ids(100, 100);
  for (const double probability : {0.4, 1.0}) {
    StepBatch batch = read(*dataset, masking(probability), {.micro_batch_size = 100});
    const auto& ids = batch.micro_batches[0].fields["ids"];
    int64_t special = 0;
    for (const int32_t id : ids) special += id < kMask;
    if (probability == 1)
      EXPECT_GE(batch.valid_targets[0], 9900) << "all but special ids";
    else
      expect_share(batch.valid_targets[0], 10000 - special, probability);
  }
}

TEST(MaskedLm, EveryLayoutAndRestartMasksAlikeAndEveryEpochAnew) {
  const auto dataset = random_ids(16, 8);  // an epoch is two steps of four
  const auto fields = [&](const LoaderOptions& options, int64_t step, std::size_t micro) {
    return read(*dataset, masking(), options, step).micro_batches[micro].fields;
  };
  const LoaderOptions whole{.micro_batch_size = 2, .accumulation_steps = 2};
  for (int64_t step : {0, 1, 5})
    for (std::size_t rank : {0, 1})
      EXPECT_EQ(
          fields(whole, step, rank),
          fields({.micro_batch_size = 2, .data_rank = static_cast<int64_t>(rank), .data_size = 2}, step, 0));
  // The same four samples in file order, in two epochs.
  const TaskData task = masked_lm_data(inputs(16), masking());
  BatchReader reader(*dataset, *task.collator, SampleOrder(8, 0, false), {.micro_batch_size = 4});
  StepBatch first, again, second;
  reader.read(0, first);
  reader.read(2, second);
  reader.read(0, again);
  EXPECT_EQ(first.micro_batches[0].fields, again.micro_batches[0].fields);
  EXPECT_NE(first.micro_batches[0].fields["targets"], second.micro_batches[0].fields["targets"]);
  Masking other = masking();
  other.seed = 8;
  EXPECT_NE(fields(whole, 0, 0)["targets"], read(*dataset, other, whole).micro_batches[0].fields["targets"]);
}

TEST(MaskedLm, NothingBeyondTheMaskIsChosen) {
  const TemporaryFolder folder;
  const TaskData task = masked_lm_data(inputs(4), masking(1));
  const auto dataset = open_dataset({.format = DataFormat::kJsonl,
                                     .paths = {folder.write("a.jsonl",
                                                            "{\"input_ids\": [1, 20, 21, 22], "
                                                            "\"attention_mask\": [1, 1, 0, 0]}")},
                                     .sequence_length = 4,
                                     .vocabulary_size = 1000,
                                     .fields = task.fields});
  StepBatch batch;
  BatchReader(*dataset, *task.collator, SampleOrder(1, 0, false), {}).read(0, batch);
  EXPECT_EQ(batch.micro_batches[0].fields["targets"],
            (std::vector<int32_t>{kIgnoredLabel, 20, kIgnoredLabel, kIgnoredLabel}));
  EXPECT_EQ(batch.valid_targets, (TargetCounts{1, 0}));
}

}  // namespace
}  // namespace recollect::test::masked_lm_test
