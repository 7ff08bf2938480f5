// Order and loader: the same samples in the same places whatever the layout, read ahead or not.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "engine/core/error.h"
#include "engine/core/ignored_label.h"
#include "engine/data/loader.h"
#include "engine/data/order.h"
#include "engine/data/tasks.h"
#include "tests/engine/expect_error.h"

namespace recollect {
namespace {

using test::expect_error;

std::vector<int64_t> epoch_of(const SampleOrder& order, int64_t epoch) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < order.size(); ++i) indices.push_back(order.at(epoch, i));
  return indices;
}

bool is_permutation_of_range(std::vector<int64_t> indices) {
  std::sort(indices.begin(), indices.end());
  for (std::size_t i = 0; i < indices.size(); ++i)
    if (indices[i] != static_cast<int64_t>(i)) return false;
  return true;
}

TEST(SampleOrder, IsAPermutationOfEverySizeAndEpoch) {
  for (int64_t size = 1; size <= 70; ++size)
    for (int64_t epoch : {int64_t{0}, int64_t{1}, int64_t{1} << 40})
      EXPECT_TRUE(is_permutation_of_range(epoch_of(SampleOrder(size, 3, true), epoch))) << size;
  for (int64_t size : {1023, 1024, 1025, 4096, 10007, 65537})
    EXPECT_TRUE(is_permutation_of_range(epoch_of(SampleOrder(size, 3, true), 2))) << size;
}

TEST(SampleOrder, DependsOnSeedAndEpochAndNothingElse) {
  const SampleOrder order(1000, 7, true);
  EXPECT_EQ(epoch_of(order, 1), epoch_of(SampleOrder(1000, 7, true), 1));
  const auto agreement = [](const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
    int same = 0;
    for (std::size_t i = 0; i < a.size(); ++i) same += a[i] == b[i];
    return same;
  };
  // Two independent permutations agree in about one place.
  EXPECT_LT(agreement(epoch_of(order, 0), epoch_of(order, 1)), 10);
  EXPECT_LT(agreement(epoch_of(order, 0), epoch_of(SampleOrder(1000, 8, true), 0)), 10);
  EXPECT_LT(agreement(epoch_of(order, 0), epoch_of(SampleOrder(1000, 7 + (uint64_t{1} << 32), true), 0)), 10);
  EXPECT_LT(agreement(epoch_of(order, 0), epoch_of(SampleOrder(1000, 7, false), 0)), 10);
  EXPECT_EQ(order.at(1003), order.at(1, 3));
}

TEST(SampleOrder, WithoutShuffleIsTheFilesOrder) {
  const SampleOrder order(5, 7, false);
  std::vector<int64_t> seen;
  for (int64_t k = 0; k < 12; ++k) seen.push_back(order.at(k));
  EXPECT_EQ(seen, (std::vector<int64_t>{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1}));
}

// Each index should come first in 1/n of the epochs, and each pair of neighbours be in order half the time.
TEST(SampleOrder, ShufflesSmallSetsEvenly) {
  constexpr int kEpochs = 12000;
  for (int64_t size : {5, 12}) {
    const SampleOrder order(size, 11, true);
    for (int64_t position = 0; position < size; ++position) {
      std::vector<int> count(static_cast<std::size_t>(size), 0);
      for (int epoch = 0; epoch < kEpochs; ++epoch)
        ++count[static_cast<std::size_t>(order.at(epoch, position))];
      const double expected = static_cast<double>(kEpochs) / static_cast<double>(size);
      for (int c : count) EXPECT_NEAR(c, expected, 6 * std::sqrt(expected)) << size << " at " << position;
    }
  }
}

TEST(SampleOrder, TakesHugeSetsWithoutATable) {
  const SampleOrder order(int64_t{1} << 40, 1, true);
  std::set<int64_t> seen;
  for (int64_t k = 0; k < 1000; ++k) {
    const int64_t index = order.at(k);
    ASSERT_TRUE(index >= 0 && index < order.size());
    seen.insert(index);
  }
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_GT(*seen.rbegin(), int64_t{1} << 39);
  EXPECT_LT(SampleOrder(int64_t{1} << 62, 1, true).at(5), int64_t{1} << 62);
}

// Sequence i holds i * 100 + position, and its first (i % length) + 1 of them; the label at position p is
// ignored when (i + p) % 3 == 0.
class CountingDataset : public Dataset {
 public:
  CountingDataset(int64_t size, int64_t length) : size_(size), length_(length) {}
  int64_t size() const override { return size_; }
  int64_t sequence_length() const override { return length_; }
  void read(int64_t index, Fields& sample) const override {
    if (index == failing) throw Error(ExitCode::kInput, "sequence 13 is damaged");
    ++reads;
    for (int64_t p = 0; p <= index % length_; ++p) {
      sample["ids"].push_back(id(index, p));
      sample["labels"].push_back(label(index, p));
    }
  }
  static int32_t id(int64_t index, int64_t p) { return static_cast<int32_t>(index * 100 + p); }
  static int32_t label(int64_t index, int64_t p) {
    return (index + p) % 3 == 0 ? kIgnoredLabel : id(index, p);
  }
  int32_t target(int64_t index, int64_t p) const {
    return p < index % length_ ? label(index, p + 1) : kIgnoredLabel;
  }

  int64_t failing = -1;
  mutable std::atomic<int64_t> reads = 0;

 private:
  int64_t size_, length_;
};

const std::unique_ptr<Collator> kCausal = causal_lm_data({.vocabulary_size = 1}).collator;

StepBatch read_batch(const Dataset& dataset, const SampleOrder& order, const LoaderOptions& options,
                     int64_t step) {
  StepBatch batch;
  BatchReader(dataset, *kCausal, order, options).read(step, batch);
  return batch;
}

void expect_equal(const StepBatch& a, const StepBatch& b) {
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.valid_targets, b.valid_targets);
  ASSERT_EQ(a.micro_batches.size(), b.micro_batches.size());
  for (std::size_t m = 0; m < a.micro_batches.size(); ++m) {
    EXPECT_EQ(a.micro_batches[m].first_sample, b.micro_batches[m].first_sample);
    EXPECT_EQ(a.micro_batches[m].samples, b.micro_batches[m].samples);
    EXPECT_EQ(a.micro_batches[m].fields, b.micro_batches[m].fields);
  }
}

TEST(CausalLm, EachPositionIsToPredictTheNext) {
  const auto targets = [](std::vector<int32_t> ids, std::vector<int32_t> labels, int64_t valid) {
    Fields sample;
    sample["ids"] = std::move(ids);
    sample["labels"] = std::move(labels);
    EXPECT_EQ(kCausal->prepare(sample, 0, 8), (TargetCounts{valid, 0}));
    return sample["targets"];
  };
  using List = std::vector<int32_t>;
  EXPECT_EQ(targets({4, 5, 6}, {}, 2), (List{5, 6, -100}));
  EXPECT_EQ(targets({4, 5, 6, 7}, {-100, 5, -100, 7}, 2), (List{5, -100, 7, -100}));
  EXPECT_EQ(targets({4}, {}, 0), (List{-100}));
  EXPECT_EQ(targets({}, {}, 0), List{});
}

TEST(Loader, ReadsTheSamplesOfItsPlace) {
  const CountingDataset dataset(1000, 5);
  const SampleOrder order(1000, 1, true);
  const LoaderOptions options{.micro_batch_size = 2, .accumulation_steps = 3, .data_rank = 1, .data_size = 2};
  Loader loader(dataset, *kCausal, order, options);
  for (int64_t step = 0; step < 120; ++step) {  // ten a step and rank: goes over the end of the epoch
    StepBatch batch = loader.next();
    ASSERT_EQ(batch.step, step);
    int64_t valid = 0;
    for (int64_t micro = 0; micro < 3; ++micro) {
      const int64_t first = step * 12 + (micro * 2 + 1) * 2;
      EXPECT_EQ(batch.micro_batches[micro].first_sample, first);
      EXPECT_EQ(batch.micro_batches[micro].samples, 2);
      Fields& fields = batch.micro_batches[micro].fields;
      for (int64_t i = 0; i < 2; ++i)
        for (int64_t p = 0; p < 5; ++p) {
          const int64_t index = order.at(first + i);
          ASSERT_EQ(fields["ids"][i * 5 + p], p <= index % 5 ? dataset.id(index, p) : 0);
          ASSERT_EQ(fields["targets"][i * 5 + p], dataset.target(index, p));
          valid += dataset.target(index, p) != kIgnoredLabel;
        }
    }
    EXPECT_EQ(batch.valid_targets, (TargetCounts{valid, 0}));
  }
}

TEST(Loader, EveryLayoutSeesTheSameGlobalBatch) {
  const CountingDataset dataset(50, 4);
  const SampleOrder order(50, 9, true);
  for (int64_t step : {0, 1, 7}) {
    const StepBatch whole =
        read_batch(dataset, order, {.micro_batch_size = 2, .accumulation_steps = 4}, step);
    for (int64_t ranks : {2, 4}) {
      int64_t valid = 0;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const StepBatch part = read_batch(
            dataset, order,
            {.micro_batch_size = 2, .accumulation_steps = 4 / ranks, .data_rank = rank, .data_size = ranks},
            step);
        valid += total(part.valid_targets);
        for (int64_t micro = 0; micro < 4 / ranks; ++micro) {
          const MicroBatch& own = part.micro_batches[micro];
          const MicroBatch& twin = whole.micro_batches[micro * ranks + rank];  // in the same place
          EXPECT_EQ(own.first_sample, twin.first_sample);
          EXPECT_EQ(own.fields, twin.fields);
        }
      }
      EXPECT_EQ(valid, total(whole.valid_targets));
    }
  }
}

TEST(Loader, ReadingAheadChangesNothing) {
  const CountingDataset dataset(37, 6);
  const SampleOrder order(37, 2, true);
  for (int64_t start : {0, 5}) {
    const LoaderOptions options{.micro_batch_size = 3, .accumulation_steps = 2, .start_step = start};
    Loader loader(dataset, *kCausal, order, options);
    for (int64_t step = start; step < start + 50; ++step) {
      const StepBatch& batch = loader.next();
      const StepBatch direct = read_batch(dataset, order, options, step);
      expect_equal(batch, direct);
      if (step % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      expect_equal(batch, direct);  // untouched until the following call
    }
  }
}

// What an evaluation reads: the whole set, with padding at its end, and then again.
TEST(Loader, ACycleBeginsAgain) {
  const CountingDataset dataset(11, 4);
  const SampleOrder order(11, 0, false);
  int64_t samples = 0, valid = 0;
  for (int64_t rank : {0, 1}) {
    const LoaderOptions options{.micro_batch_size = 2, .data_rank = rank, .data_size = 2, .cycle = 3};
    Loader loader(dataset, *kCausal, order, options);
    std::vector<StepBatch> once;
    for (int64_t step = 0; step < 3; ++step) {
      once.push_back(loader.next());
      MicroBatch& micro = once.back().micro_batches[0];
      samples += micro.samples;
      valid += total(once.back().valid_targets);
      EXPECT_EQ(micro.first_sample, step * 4 + rank * 2);
      for (int64_t i = 0; i < 2; ++i)
        for (int64_t p = 0; p < 4; ++p) {
          const int64_t index = micro.first_sample + i;
          EXPECT_EQ(micro.fields["ids"][i * 4 + p], index < 11 && p <= index % 4 ? dataset.id(index, p) : 0);
          EXPECT_EQ(micro.fields["targets"][i * 4 + p],
                    index < 11 ? dataset.target(index, p) : kIgnoredLabel);
        }
    }
    for (int64_t step = 3; step < 9; ++step) {
      StepBatch again = loader.next();
      EXPECT_EQ(again.step, step);
      again.step %= 3;
      expect_equal(again, once[static_cast<std::size_t>(step % 3)]);
    }
  }
  EXPECT_EQ(samples, 11);
  EXPECT_GT(valid, 0);
}

TEST(Loader, BatchesLieInAFixedRing) {
  const CountingDataset dataset(37, 6);
  for (int64_t prefetch : {1, 2, 5}) {
    Loader loader(dataset, *kCausal, SampleOrder(37, 2, true),
                  {.micro_batch_size = 3, .accumulation_steps = 2, .prefetch = prefetch});
    std::set<const int32_t*> addresses;
    for (int step = 0; step < 30; ++step)
      addresses.insert(loader.next().micro_batches[0].fields.begin()->values.data());
    EXPECT_EQ(addresses.size(), static_cast<std::size_t>(prefetch) + 1);
  }
}

TEST(Loader, ReadsAheadByABoundedAmount) {
  const CountingDataset dataset(1000, 4);
  Loader loader(dataset, *kCausal, SampleOrder(1000, 2, false), {});
  const auto wait_for = [&](int64_t reads) {
    for (int i = 0; i < 5000 && dataset.reads < reads; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(dataset.reads, reads);
  };
  wait_for(3);
  loader.next();
  wait_for(3);  // the batch in use keeps its place
  loader.next();
  wait_for(4);
}

TEST(Loader, AnErrorSurfacesAtItsStep) {
  CountingDataset dataset(1000, 4);
  dataset.failing = 13;
  Loader loader(dataset, *kCausal, SampleOrder(1000, 2, false), {.micro_batch_size = 2});
  for (int step = 0; step < 6; ++step) EXPECT_EQ(loader.next().step, step);
  for (int again = 0; again < 2; ++again)
    expect_error(ExitCode::kInput, {"sequence 13 is damaged"}, [&] { loader.next(); });
}

TEST(Loader, StopsWithoutBeingRead) {
  const CountingDataset dataset(1000, 4);
  for (int i = 0; i < 100; ++i) Loader loader(dataset, *kCausal, SampleOrder(1000, 2, false), {});
  expect_error(ExitCode::kInternal, {"another number"},
               [&] { Loader loader(dataset, *kCausal, SampleOrder(999, 2, false), {}); });
  expect_error(ExitCode::kInternal, {"out of range"},
               [&] { Loader loader(dataset, *kCausal, SampleOrder(1000, 2, false), {.data_rank = 1}); });
}

}  // namespace
}  // namespace recollect
