// Rows as samples: what Transformers' run_glue makes of them, whatever the number of threads.
#include <gtest/gtest.h>

#include <bit>

#include <fmt/format.h>

#include "engine/data/prepare_classification.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/temporary_folder.h"
#include "tests/engine/tokenizer_goldens.h"

namespace recollect {
namespace {

class PrepareClassification : public ::testing::Test {
 protected:
  PackedSamples prepare(const std::string& text, const ClassificationSpec& spec) {
    const TextTable table(folder_.write("table.csv", text), {});
    BadRecords bad;
    return prepare_classification(table, *tokenizer_, spec, bad);
  }
  static std::vector<int32_t> read(const Dataset& dataset, int64_t index, const char* name) {
    Fields sample;
    dataset.read(index, sample);
    return sample[name];
  }

  test::TemporaryFolder folder_;
  std::unique_ptr<Tokenizer> tokenizer_ = load_tokenizer(test::tokenizer_golden_folder() + "/bert/vocab.txt");
  ClassificationSpec spec_{.text = "a",
                           .pair = "b",
                           .label = "label",
                           .labels = {"no", "yes"},
                           .sequence = {.sequence_length = 9, .vocabulary_size = 330}};
};

TEST_F(PrepareClassification, SpecialTokensTypesAndTheLongerTextIsCut) {
  const PackedSamples samples =
      prepare("a,b,label\nthe,\"the the the the the the the\",yes\nthe,,0\n", spec_);
  ASSERT_EQ(samples.size(), 2);
  EXPECT_EQ(read(samples, 0, "ids"), (std::vector<int32_t>{2, 158, 3, 158, 158, 158, 158, 158, 3}));
  EXPECT_EQ(read(samples, 0, "token_types"), (std::vector<int32_t>{0, 0, 0, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(read(samples, 0, "labels"), std::vector<int32_t>{1});
  EXPECT_EQ(read(samples, 1, "ids"), (std::vector<int32_t>{2, 158, 3, 3}));
  EXPECT_EQ(samples.bytes(), (9u + 4) * (2 + 1) + 2 * 4 + 6 * 4);
}

TEST_F(PrepareClassification, NumbersAndOneText) {
  spec_.pair.clear();
  spec_.labels.clear();
  spec_.sequence.token_types = false;
  const PackedSamples samples = prepare("a,label\nthe,3.75\n", spec_);
  Fields sample;
  samples.read(0, sample);
  EXPECT_EQ(sample["ids"], (std::vector<int32_t>{2, 158, 3}));
  EXPECT_EQ(sample.field("labels").dtype, DType::kF32);
  EXPECT_EQ(std::bit_cast<float>(sample["labels"].front()), 3.75f);
  EXPECT_TRUE(sample["token_types"].empty());
}

TEST_F(PrepareClassification, WithoutLabelsAndWithoutTruncation) {
  spec_.label.clear();
  spec_.sequence.truncation = Truncation::kNone;
  const PackedSamples samples = prepare("a,b\nthe,the the\nthe,\n", spec_);
  EXPECT_EQ(samples.length(0), 6);
  EXPECT_EQ(samples.length(1), 4);
  EXPECT_TRUE(read(samples, 0, "labels").empty());
  test::expect_error(ExitCode::kInput, {"table.csv:3: 10 tokens, where a sequence has at most 9"},
                     [&] { prepare("a,b\nthe,\nthe,the the the the the the\n", spec_); });
}

TEST_F(PrepareClassification, ThreadsDoNotMatter) {
  std::string rows = "a,b,label\n";
  for (int i = 0; i < 2000; ++i) rows += fmt::format("the whale {0},it's {0} {0},{1}\n", i, i % 2);
  std::vector<PackedSamples> prepared;
  for (const int threads : {1, 2, 5}) {
    spec_.threads = threads;
    prepared.push_back(prepare(rows, spec_));
    ASSERT_EQ(prepared.back().size(), 2000);
    EXPECT_EQ(prepared.back().bytes(), prepared.front().bytes());
    for (int64_t i = 0; i < 2000; ++i)
      for (const char* name : {"ids", "token_types", "labels"})
        ASSERT_EQ(read(prepared.back(), i, name), read(prepared.front(), i, name));
  }
  rows += "x,y,2\n";
  for (int i = 0; i < 600; ++i) rows += "x,y,3\n";
  for (const int threads : {1, 4}) {
    spec_.threads = threads;
    test::expect_error(ExitCode::kInput, {"table.csv:2002: the label \"2\" is none of 2"},
                       [&] { prepare(rows, spec_); });
  }
}

TEST_F(PrepareClassification, WhatIsWrongHasItsLine) {
  spec_.sequence.sequence_length = 2;
  test::expect_error(ExitCode::kInput, {"table.csv:2: 3 special tokens in a sequence of 2"},
                     [&] { prepare("a,b,label\nthe,the,1\n", spec_); });
  spec_.sequence.vocabulary_size = 100;
  test::expect_error(ExitCode::kInput, {"a vocabulary of 100"},
                     [&] { prepare("a,b,label\nthe,the,1\n", spec_); });
}

}  // namespace
}  // namespace recollect
