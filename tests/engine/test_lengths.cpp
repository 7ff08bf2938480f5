// Batches of changing lengths: padded to their own longest sample, and samples of like length together.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "engine/data/loader.h"
#include "engine/data/tasks.h"

namespace recollect::test::lengths_of_batches_test {
namespace {

// Sample i has 1 + 7 i % most tokens, all of them i.
class Uneven : public Dataset {
 public:
  Uneven(int64_t size, int64_t most) : size_(size), most_(most) {}
  int64_t size() const override { return size_; }
  int64_t sequence_length() const override { return most_; }
  int64_t length(int64_t index) const override { return 1 + 7 * index % most_; }
  void read(int64_t index, Fields& sample) const override {
    sample["ids"].assign(static_cast<std::size_t>(length(index)), static_cast<int32_t>(index));
  }

 private:
  int64_t size_, most_;
};

const std::unique_ptr<Collator> kCausal = causal_lm_data({.vocabulary_size = 1000}).collator;

TEST(PaddedLength, IsTheNextMultiple) {
  EXPECT_EQ(padded_length(5, 0, 24), 24);
  EXPECT_EQ(padded_length(5, 1, 24), 5);
  EXPECT_EQ(padded_length(8, 8, 24), 8);
  EXPECT_EQ(padded_length(9, 8, 24), 16);
  EXPECT_EQ(padded_length(23, 16, 24), 24) << "not beyond the longest";
  EXPECT_EQ(padded_length(0, 8, 24), 8) << "a batch that is all padding has a length too";
  EXPECT_EQ(padded_length(0, 32, 24), 24);
}

TEST(ChangingLengths, EveryMicroBatchHasItsOwn) {
  const Uneven dataset(40, 24);
  for (const int64_t multiple : {1, 5, 8}) {
    BatchReader reader(dataset, *kCausal, SampleOrder(40, 1, true),
                       {.micro_batch_size = 3, .accumulation_steps = 4, .pad_to_multiple_of = multiple});
    std::set<int64_t> lengths;
    StepBatch batch;
    for (int64_t step = 0; step < 6; ++step) {
      reader.read(step, batch);
      int64_t targets = 0;
      for (const MicroBatch& micro : batch.micro_batches) {
        lengths.insert(micro.length);
        int64_t longest = 0;
        Fields fields = micro.fields;
        ASSERT_EQ(fields["ids"].size(), static_cast<std::size_t>(3 * micro.length));
        for (int64_t place = 0; place < 3; ++place) {
          const int64_t index = fields["ids"][static_cast<std::size_t>(place * micro.length)],
                        own = dataset.length(index);
          longest = std::max(longest, own);
          targets += own - 1;
          for (int64_t p = 0; p < micro.length; ++p)
            EXPECT_EQ(fields["ids"][static_cast<std::size_t>(place * micro.length + p)], p < own ? index : 0);
        }
        EXPECT_EQ(micro.length, padded_length(longest, multiple, 24));
      }
      EXPECT_EQ(total(batch.valid_targets), targets);
    }
    EXPECT_GE(lengths.size(), 2u);
  }
}

// A batch of another length is filled in memory that it has.
TEST(ChangingLengths, TakeNoMemoryOnceRead) {
  const Uneven dataset(40, 24);
  BatchReader reader(dataset, *kCausal, SampleOrder(40, 1, true),
                     {.micro_batch_size = 3, .pad_to_multiple_of = 1});
  StepBatch batch;
  reader.read(0, batch);
  const int32_t* const place = batch.micro_batches[0].fields.begin()->values.data();
  for (int64_t step = 1; step < 30; ++step) {
    reader.read(step, batch);
    EXPECT_EQ(batch.micro_batches[0].fields.begin()->values.data(), place);
  }
}

TEST(GroupedOrder, SortsWindowsAndLosesNobody) {
  const Uneven dataset(50, 24);
  const SampleOrder order(50, 9, true);
  GroupedOrder grouped(order, dataset, 12);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<int64_t> seen;
    for (int64_t begin = 0; begin < 50; begin += 12) {
      std::set<int64_t> window, of_order;
      for (int64_t i = begin; i < std::min<int64_t>(50, begin + 12); ++i) {
        const int64_t index = grouped.at(50 * epoch + i);
        window.insert(index);
        of_order.insert(order.at(epoch, i));
        EXPECT_TRUE(i == begin || dataset.length(grouped.at(50 * epoch + i - 1)) >= dataset.length(index));
      }
      EXPECT_EQ(window, of_order);
      seen.insert(window.begin(), window.end());
    }
    EXPECT_EQ(seen.size(), 50u);
  }
  GroupedOrder other(order, dataset, 12);
  EXPECT_EQ(other.at(73), grouped.at(73)) << "wherever one begins";
}

TEST(GroupedOrder, WastesLessPadding) {
  const Uneven dataset(400, 24);
  const auto padding = [&](int64_t window) {
    BatchReader reader(dataset, *kCausal, SampleOrder(400, 9, true),
                       {.micro_batch_size = 4, .pad_to_multiple_of = 1, .group_window = window});
    StepBatch batch;
    int64_t tokens = 0;
    for (int64_t step = 0; step < 100; ++step) {
      reader.read(step, batch);
      tokens += 4 * batch.micro_batches[0].length;
    }
    return tokens;
  };
  int64_t real = 0;
  for (int64_t i = 0; i < 400; ++i) real += dataset.length(i);
  EXPECT_LT(padding(200), 1.03 * static_cast<double>(real));
  EXPECT_GT(padding(0), 1.3 * static_cast<double>(real));
}

}  // namespace
}  // namespace recollect::test::lengths_of_batches_test
