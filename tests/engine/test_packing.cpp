// Documents that share samples: each is there once, in an order that nothing but lengths and seed decides, and batches
// say where one ends.
#include "engine/data/packing.h"

#include <gtest/gtest.h>

#include <array>
#include <map>

#include <fmt/format.h>

#include "engine/core/ignored_label.h"
#include "engine/core/philox.h"
#include "engine/data/loader.h"
#include "engine/data/tasks.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/temporary_folder.h"

namespace recollect::test::packing_test {
namespace {

using List = std::vector<int32_t>;

// Document i has 1 + i % 37 tokens, or what random numbers say; token j of it is i * 64 + j.
class Documents : public Dataset {
 public:
  Documents(int64_t size, int64_t most, bool random) : size_(size), most_(most), random_(random) {}
  int64_t size() const override { return size_; }
  int64_t sequence_length() const override { return 64; }
  int64_t length(int64_t i) const override {
    if (!random_) return 1 + i % most_;
    return 1 + static_cast<int64_t>(random_unit({.seed = 5}, static_cast<uint64_t>(i)) *
                                    static_cast<double>(most_));
  }
  void read(int64_t i, Fields& sample) const override {
    for (int64_t j = 0; j < length(i); ++j) sample["ids"].push_back(static_cast<int32_t>(i * 64 + j));
  }

 private:
  int64_t size_, most_;
  bool random_;
};

PackedDataset packed(Packing packing, bool shuffle, int64_t size = 300, int64_t most = 37,
                     bool random = true) {
  return {std::make_unique<Documents>(size, most, random), packing, SampleOrder(size, 7, shuffle)};
}

Fields sample_of(const Dataset& dataset, int64_t index) {
  Fields sample;
  dataset.read(index, sample);
  return sample;
}

TEST(Packing, WithinHasEachDocumentOnceAndWhole) {
  for (const bool shuffle : {true, false}) {
    const PackedDataset dataset = packed(Packing::kWithin, shuffle);
    std::map<int32_t, int> times;
    int64_t tokens = 0;
    for (int64_t index = 0; index < dataset.size(); ++index) {
      Fields sample = sample_of(dataset, index);
      const List &ids = sample["ids"], &positions = sample["positions"];
      ASSERT_EQ(static_cast<int64_t>(ids.size()), dataset.length(index));
      ASSERT_EQ(positions.size(), ids.size());
      ASSERT_LE(ids.size(), 64u);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        ASSERT_EQ(positions[i], ids[i] % 64);
        const bool last = i + 1 == ids.size() || positions[i + 1] == 0;
        ASSERT_EQ(last, positions[i] + 1 == Documents(300, 37, true).length(ids[i] / 64))
            << "a document is cut";
        times[ids[i] / 64] += last;
      }
      tokens += static_cast<int64_t>(ids.size());
    }
    EXPECT_EQ(times.size(), 300u);
    for (const auto& [document, count] : times) EXPECT_EQ(count, 1) << document;
    EXPECT_GT(tokens, dataset.size() * 64 * 92 / 100) << "more than 8 % of the samples are padding";
  }
}

TEST(Packing, AcrossIsOneStreamInTheRunsOrder) {
  const PackedDataset dataset = packed(Packing::kAcross, true);
  const Documents documents(300, 37, true);
  const SampleOrder order(300, 7, true);
  List stream, found;
  for (int64_t i = 0; i < 300; ++i)
    for (int64_t j = 0; j < documents.length(order.at(0, i)); ++j)
      stream.push_back(static_cast<int32_t>(order.at(0, i) * 64 + j));
  for (int64_t index = 0; index < dataset.size(); ++index) {
    Fields sample = sample_of(dataset, index);
    ASSERT_EQ(sample["ids"].size(), 64u);
    EXPECT_TRUE(sample["positions"].empty());
    found.insert(found.end(), sample["ids"].begin(), sample["ids"].end());
  }
  EXPECT_EQ(found.size(), stream.size() / 64 * 64);
  stream.resize(found.size());
  EXPECT_EQ(found, stream);
}

// The fullest sample that has room, in the order of the files.
TEST(Packing, WithinFillsWhatIsFullest) {
  class Given : public Documents {
   public:
    Given() : Documents(7, 0, false) {}
    int64_t length(int64_t i) const override { return std::array{40, 50, 20, 14, 24, 44, 64}.at(i); }
  };
  const PackedDataset dataset(std::make_unique<Given>(), Packing::kWithin, SampleOrder(7, 0, false));
  std::vector<List> documents;
  for (int64_t index = 0; index < dataset.size(); ++index) {
    Fields sample = sample_of(dataset, index);
    List& here = documents.emplace_back();
    for (const int32_t id : sample["ids"])
      if (id % 64 == 0) here.push_back(id / 64);
  }
  EXPECT_EQ(documents, (std::vector<List>{{0, 2}, {1, 3}, {4}, {5}, {6}}));
  EXPECT_EQ(dataset.description(), "7 documents in 5 samples of 64 tokens, 80.0 % of them filled");
}

TEST(Packing, EveryLayoutReadsTheSameSamples) {
  const PackedDataset dataset = packed(Packing::kWithin, true);
  const SampleOrder order(dataset.size(), 7, true);
  const TaskData task = causal_lm_data({.sequence_length = 64, .vocabulary_size = 300 * 64, .packed = true});
  const auto read = [&](int64_t ranks, int64_t steps) {
    std::map<int64_t, Fields> batches;  // by the number of the first sample
    for (int64_t rank = 0; rank < ranks; ++rank) {
      BatchReader reader(
          dataset, *task.collator, order,
          {.micro_batch_size = 2, .accumulation_steps = steps, .data_rank = rank, .data_size = ranks});
      for (int64_t step = 0; step < 30; ++step) {
        StepBatch batch;
        reader.read(step, batch);
        for (const MicroBatch& micro : batch.micro_batches) batches[micro.first_sample] = micro.fields;
      }
    }
    return batches;
  };
  const auto one = read(1, 6);
  EXPECT_EQ(one.size(), 180u);
  for (const int64_t ranks : {2, 3, 6}) EXPECT_EQ(read(ranks, 6 / ranks), one) << ranks;
}

// As another process opens the data: by what this one has found out.
TEST(PackedIndex, StandsForTheFiles) {
  const TemporaryFolder folder;
  std::string lines = "\n";
  for (int line = 0; line < 500; ++line) {
    lines += "{\"input_ids\": [1";
    for (int i = 0; i < line * 7 % 11; ++i) lines += fmt::format(", {}", (line + i) % 50);
    lines += line % 9 == 0 ? "]}\n\n" : "]}\n";
  }
  const std::string path = folder.write("a.jsonl", lines);
  const auto open = [&](Packing packing, IndexReader* index) {
    auto documents = open_dataset({.format = DataFormat::kJsonl,
                                   .paths = {path},
                                   .sequence_length = 12,
                                   .vocabulary_size = 50,
                                   .index = index});
    const SampleOrder order(documents->size(), 3, true);
    return std::make_unique<PackedDataset>(std::move(documents), packing, order, index);
  };
  for (const Packing packing : {Packing::kAcross, Packing::kWithin}) {
    const auto first = open(packing, nullptr);
    IndexWriter counted;
    first->write_index(counted);
    const std::shared_ptr<SharedMemory> memory = SharedMemory::make(counted.bytes());
    IndexWriter writer(memory->bytes());
    first->write_index(writer);
    IndexReader reader(memory), own(memory);
    const auto second = open(packing, &reader);
    first->read_index(own);
    const auto apart = open(packing, nullptr);
    ASSERT_EQ(second->size(), apart->size());
    EXPECT_EQ(second->description(), apart->description());
    for (int64_t i = 0; i < apart->size(); ++i) {
      Fields a, b, c;
      apart->read(i, a);
      first->read(i, b);
      second->read(i, c);
      ASSERT_EQ(b["ids"], a["ids"]);
      ASSERT_EQ(c["ids"], a["ids"]);
      ASSERT_EQ(second->length(i), apart->length(i));
    }
    lines += "{\"input_ids\": [1, 2]}\n";  // in the same file
    folder.write("a.jsonl", lines);
    IndexReader again(memory);
    EXPECT_THROW(open(packing, &again), OtherIndex);
  }
}

class PackedLines : public ::testing::Test {
 protected:
  std::map<std::string, List> batch(const TaskData& task, Packing packing, const std::string& lines) {
    auto documents = open_dataset({.format = DataFormat::kJsonl,
                                   .paths = {folder_.write("a.jsonl", lines)},
                                   .sequence_length = 6,
                                   .vocabulary_size = 50,
                                   .fields = task.fields});
    const SampleOrder order(documents->size(), 0, false);
    const PackedDataset dataset(std::move(documents), packing, order);
    StepBatch batch;
    BatchReader(dataset, *task.collator, SampleOrder(dataset.size(), 0, false),
                {.micro_batch_size = dataset.size(), .cycle = 1})
        .read(0, batch);
    std::map<std::string, List> found;
    for (const Field& field : batch.micro_batches[0].fields) found[field.name] = field.values;
    int64_t valid = 0;
    for (const int32_t target : found["targets"]) valid += target != kIgnoredLabel;
    EXPECT_EQ(total(batch.valid_targets), valid);
    return found;
  }

  TemporaryFolder folder_;
};

constexpr TokenInputs kInputs{.sequence_length = 6, .vocabulary_size = 50, .token_types = 2, .padding_id = 9};
constexpr int32_t kNo = kIgnoredLabel;

TokenInputs within_inputs() {
  TokenInputs inputs = kInputs;
  inputs.packed = true;
  return inputs;
}

TEST_F(PackedLines, NothingIsPredictedAcrossABorder) {
  const std::string lines =
      "{\"input_ids\": [1, 2, 3]}\n{\"input_ids\": [4]}\n{\"input_ids\": [5, 6, 7, 8]}\n";
  const auto within = batch(causal_lm_data(within_inputs()), Packing::kWithin, lines);
  EXPECT_EQ(within.at("ids"), (List{1, 2, 3, 4, 0, 0, 5, 6, 7, 8, 0, 0}));
  EXPECT_EQ(within.at("positions"), (List{0, 1, 2, 0, -1, -1, 0, 1, 2, 3, -1, -1}));
  EXPECT_EQ(within.at("targets"), (List{2, 3, kNo, kNo, kNo, kNo, 6, 7, 8, kNo, kNo, kNo}));
  const auto across = batch(causal_lm_data(kInputs), Packing::kAcross, lines);
  EXPECT_EQ(across.at("ids"), (List{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(across.at("targets"), (List{2, 3, 4, 5, 6, kNo}));
  EXPECT_FALSE(across.contains("positions"));
}

TEST_F(PackedLines, MaskedLmKeepsLabelsAndTypes) {
  const auto found =
      batch(masked_lm_data(within_inputs(), {.mask_id = 3}), Packing::kWithin,
            "{\"input_ids\": [1, 3], \"labels\": [-100, 8]}\n"
            "{\"input_ids\": [4, 3, 5], \"labels\": [4, 7, -100], \"token_type_ids\": [0, 1, 1], "
            "\"attention_mask\": [1, 1, 1]}\n");
  EXPECT_EQ(found.at("ids"), (List{1, 3, 4, 3, 5, 9}));
  EXPECT_EQ(found.at("token_types"), (List{0, 0, 0, 1, 1, 0}));
  EXPECT_EQ(found.at("positions"), (List{0, 1, 0, 1, 2, -1}));
  EXPECT_EQ(found.at("targets"), (List{kNo, 8, 4, 7, kNo, kNo}));
  EXPECT_FALSE(found.contains("lengths"));
}

TEST_F(PackedLines, RefuseWhatCannotShareASample) {
  const TaskData task = masked_lm_data(within_inputs(), {.mask_id = 3});
  expect_error(ExitCode::kInput, {"document 2 (from 1", "has padding"}, [&] {
    batch(task, Packing::kWithin,
          "{\"input_ids\": [1, 3]}\n{\"input_ids\": [4, 5], \"attention_mask\": [1, 0]}\n");
  });
  expect_error(ExitCode::kInput, {"document 2 (from 1", "labels"}, [&] {
    batch(task, Packing::kWithin,
          "{\"input_ids\": [1, 3]}\n{\"input_ids\": [4, 5], \"labels\": [4, -100]}\n");
  });
  expect_error(ExitCode::kInput, {"1 documents fill not one sample of 6 tokens"},
               [&] { batch(causal_lm_data(kInputs), Packing::kAcross, "{\"input_ids\": [1, 3]}\n"); });
}

}  // namespace
}  // namespace recollect::test::packing_test
