// Random data as large and as long as is asked for: epochs, lengths, labels; and what cannot be is named.
#include <gtest/gtest.h>

#include <map>

#include "engine/data/tasks.h"
#include "launch/train/open_data.h"
#include "tests/launch/config_test_support.h"

namespace recollect {
namespace {

const std::string kTiny =
    "model: {type: bert, vocab_size: 40, hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 1, "
    "intermediate_size: 8, max_position_embeddings: 64, num_labels: 5}\ntask: sequence_classification\n"
    "data: {format: random, sequence_length: 64}\n";

TEST(RandomData, HasSamplesOfTheLengthsAndLabelsThatAreAskedFor) {
  Config config = accepted(kTiny, {"data.samples=3000", "data.lengths=[8:3, 16-24]", "data.constant_label=3",
                                   "data.padding=longest"});
  const TokenInputs inputs{.sequence_length = 64, .vocabulary_size = 40, .token_types = 2};
  const TaskData classes = sequence_classification_data(inputs, 5, ProblemType::kSingleLabel);
  const OpenedData opened = open_training_data(config, classes);
  ASSERT_EQ(opened.dataset->size(), 3000);
  std::map<int64_t, int> lengths;
  for (int64_t i = 0; i < 3000; ++i) {
    Fields sample;
    opened.dataset->read(i, sample);
    ++lengths[opened.dataset->length(i)];
    EXPECT_EQ(sample.longest(), opened.dataset->length(i));
    EXPECT_EQ(sample["labels"], std::vector<int32_t>{3});
  }
  EXPECT_EQ(lengths.size(), 1u + 9);
  EXPECT_NEAR(lengths[8], 2250, 150);  // six standard deviations
  EXPECT_EQ(lengths.begin()->first, 8);
  EXPECT_EQ(lengths.rbegin()->first, 24);
}

TEST(RandomData, WhatCannotBeIsNamed) {
  const auto says = [](const std::vector<std::string>& words, const std::string& mentioned) {
    const std::string text = refusal(kTiny, words);
    EXPECT_NE(text.find(mentioned), std::string::npos) << text;
  };
  for (const char* lengths : {"[0]", "[65]", "[9-8]", "[8-]", "[8:0]", "[8:x]", "[x]", "[8.5]"})
    says({std::string("data.lengths=") + lengths},
         "is no LENGTH or LOW-HIGH, with :SHARE or without, from 1 to");
  says({"data.samples=2", "training.micro_batch_size=4"}, "data.samples 2 are fewer than a micro-batch of 4");
  says({"data.format=jsonl", "data.path=x", "data.samples=2"}, "only random data is made by them");
  says({"data.constant_label=1", "task=masked_lm", "data.format=tokens", "data.path=x"},
       "only random data is made");
  says({"data.on_bad_record=skip"}, "it has no records");
  EXPECT_EQ(refusal(kTiny, {"data.samples=20", "training.epochs=2", "evaluation.every_steps=5"}), "accepted");
}

// Sizes may be fractions, as people read them: the whole bytes in them.
TEST(ByteSizes, MayBeFractions) {
  const auto limit = [](const std::string& text) {
    return accepted(kLeast, {"device.memory_limit=" + text}).device.memory_limit;
  };
  EXPECT_EQ(limit("5.2GiB"), 5583457484);
  EXPECT_EQ(limit("0.5 MiB"), 1 << 19);
  EXPECT_EQ(limit("1.5e9"), 1500000000);
  EXPECT_EQ(limit("2GiB"), int64_t{2} << 30);
  for (const auto& [text, mentioned] :
       {std::pair("1.5", "1.5 is no whole number of bytes"),
        std::pair("1e30", "1e30 is more than 64 bits hold"), std::pair("9e9GiB", "more than 64 bits hold"),
        std::pair("-0.5GiB", "out of range"), std::pair("5.2GB", "found '5.2GB'; write ")})
    EXPECT_NE(refusal(kLeast, {std::string("device.memory_limit=") + text}).find(mentioned),
              std::string::npos)
        << refusal(kLeast, {std::string("device.memory_limit=") + text});
}

}  // namespace
}  // namespace recollect
