// Order and loader: the same samples in the same places whatever the layout, read ahead or not.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "engine/core/error.h"
#include "engine/data/loader.h"
#include "engine/data/order.h"
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

// Sequence i holds i * 100 + position; label at position p of sequence i is ignored when (i + p) % 3 == 0.
class CountingDataset : public Dataset {
 public:
  CountingDataset(int64_t size, int64_t length) : size_(size), length_(length) {}
  int64_t size() const override { return size_; }
  int64_t sequence_length() const override { return length_; }
  void read(int64_t index, std::span<int32_t> ids, std::span<int32_t> labels) const override {
    if (index == failing) throw Error(ExitCode::kInput, "sequence 13 is damaged");
    ++reads;
    for (std::size_t p = 0; p < ids.size(); ++p) {
      ids[p] = static_cast<int32_t>(index * 100) + static_cast<int32_t>(p);
      labels[p] = (static_cast<std::size_t>(index) + p) % 3 == 0 ? kIgnoredLabel : ids[p];
    }
  }

  int64_t failing = -1;
  mutable std::atomic<int64_t> reads = 0;

 private:
  int64_t size_, length_;
};

void expect_equal(const StepBatch& a, const StepBatch& b) {
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.ids, b.ids);
  EXPECT_EQ(a.labels, b.labels);
  EXPECT_EQ(a.first_samples, b.first_samples);
  EXPECT_EQ(a.micro_valid_targets, b.micro_valid_targets);
  EXPECT_EQ(a.valid_targets, b.valid_targets);
}

TEST(Loader, ReadsTheSamplesOfItsPlace) {
  const CountingDataset dataset(1000, 5);
  const SampleOrder order(1000, 1, true);
  const LoaderOptions options{.micro_batch_size = 2, .accumulation_steps = 3, .data_rank = 1, .data_size = 2};
  Loader loader(dataset, order, options);
  for (int64_t step = 0; step < 120; ++step) {  // ten a step and rank: goes over the end of the epoch
    const StepBatch& batch = loader.next();
    ASSERT_EQ(batch.step, step);
    int64_t valid = 0;
    for (int64_t micro = 0; micro < 3; ++micro) {
      const int64_t first = step * 12 + (micro * 2 + 1) * 2;
      EXPECT_EQ(batch.first_sample_of(micro), first);
      for (int64_t i = 0; i < 2; ++i)
        for (int64_t p = 0; p < 5; ++p) {
          const int64_t index = order.at(first + i);
          const bool ignored = (index + p) % 3 == 0;
          ASSERT_EQ(batch.ids_of(micro)[i * 5 + p], index * 100 + p);
          ASSERT_EQ(batch.labels_of(micro)[i * 5 + p], ignored ? kIgnoredLabel : index * 100 + p);
          valid += p > 0 && !ignored;
        }
    }
    EXPECT_EQ(batch.valid_targets, valid);
    EXPECT_EQ(std::accumulate(batch.micro_valid_targets.begin(), batch.micro_valid_targets.end(), int64_t{0}),
              valid);
  }
}

TEST(Loader, EveryLayoutSeesTheSameGlobalBatch) {
  const CountingDataset dataset(50, 4);
  const SampleOrder order(50, 9, true);
  StepBatch whole;
  for (int64_t step : {0, 1, 7}) {
    read_step_batch(dataset, order, {.micro_batch_size = 2, .accumulation_steps = 4}, step, whole);
    for (int64_t ranks : {2, 4}) {
      int64_t valid = 0;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        StepBatch part;
        const int64_t accumulation = 4 / ranks;
        read_step_batch(dataset, order,
                        {.micro_batch_size = 2,
                         .accumulation_steps = accumulation,
                         .data_rank = rank,
                         .data_size = ranks},
                        step, part);
        valid += part.valid_targets;
        for (int64_t micro = 0; micro < accumulation; ++micro) {
          const int64_t twin = micro * ranks + rank;  // the micro-batch of the single rank in the same place
          EXPECT_EQ(part.first_sample_of(micro), whole.first_sample_of(twin));
          EXPECT_TRUE(std::equal(part.ids_of(micro), part.ids_of(micro) + 8, whole.ids_of(twin)));
          EXPECT_TRUE(std::equal(part.labels_of(micro), part.labels_of(micro) + 8, whole.labels_of(twin)));
        }
      }
      EXPECT_EQ(valid, whole.valid_targets);
    }
  }
}

TEST(Loader, ReadingAheadChangesNothing) {
  const CountingDataset dataset(37, 6);
  const SampleOrder order(37, 2, true);
  for (int64_t start : {0, 5}) {
    const LoaderOptions options{.micro_batch_size = 3, .accumulation_steps = 2, .start_step = start};
    Loader loader(dataset, order, options);
    StepBatch direct;
    for (int64_t step = start; step < start + 50; ++step) {
      const StepBatch& batch = loader.next();
      read_step_batch(dataset, order, options, step, direct);
      expect_equal(batch, direct);
      if (step % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      expect_equal(batch, direct);  // untouched until the following call
    }
  }
}

TEST(Loader, BatchesLieInAFixedRing) {
  const CountingDataset dataset(37, 6);
  for (int64_t prefetch : {1, 2, 5}) {
    Loader loader(dataset, SampleOrder(37, 2, true),
                  {.micro_batch_size = 3, .accumulation_steps = 2, .prefetch = prefetch});
    std::set<const int32_t*> addresses;
    for (int step = 0; step < 30; ++step) addresses.insert(loader.next().ids.data());
    EXPECT_EQ(addresses.size(), static_cast<std::size_t>(prefetch) + 1);
  }
}

TEST(Loader, ReadsAheadByABoundedAmount) {
  const CountingDataset dataset(1000, 4);
  Loader loader(dataset, SampleOrder(1000, 2, false), {});
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
  Loader loader(dataset, SampleOrder(1000, 2, false), {.micro_batch_size = 2});
  for (int step = 0; step < 6; ++step) EXPECT_EQ(loader.next().step, step);
  for (int again = 0; again < 2; ++again)
    expect_error(ExitCode::kInput, {"sequence 13 is damaged"}, [&] { loader.next(); });
}

TEST(Loader, StopsWithoutBeingRead) {
  const CountingDataset dataset(1000, 4);
  for (int i = 0; i < 100; ++i) Loader loader(dataset, SampleOrder(1000, 2, false), {});
  expect_error(ExitCode::kInternal, {"another number"},
               [&] { Loader loader(dataset, SampleOrder(999, 2, false), {}); });
  expect_error(ExitCode::kInternal, {"out of range"},
               [&] { Loader loader(dataset, SampleOrder(1000, 2, false), {.data_rank = 1}); });
}

}  // namespace
}  // namespace recollect
