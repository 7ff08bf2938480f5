// Texts for language models, tokenized in memory: the tokens of a token file, and lines as documents.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/data/dataset.h"
#include "engine/data/prepare_texts.h"
#include "engine/data/tokenize_corpus.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/temporary_folder.h"
#include "tests/engine/tokenizer_goldens.h"

namespace recollect {
namespace {

using test::expect_error;
using test::TemporaryFolder;

class PrepareTexts : public ::testing::Test {
 protected:
  TextsSpec spec(std::vector<std::string> paths, int64_t length) const {
    return {.paths = std::move(paths),
            .sequence_length = length,
            .vocabulary_size = static_cast<int64_t>(gpt2_->vocabulary_size()),
            .threads = 2};
  }
  static std::vector<std::vector<int32_t>> samples(const Dataset& dataset) {
    std::vector<std::vector<int32_t>> all;
    Fields sample;
    for (int64_t i = 0; i < dataset.size(); ++i) {
      sample.clear();
      dataset.read(i, sample);
      EXPECT_EQ(dataset.length(i), std::ssize(sample["ids"])) << i;
      all.push_back(sample["ids"]);
    }
    return all;
  }
  std::vector<int32_t> encode(std::string_view text) const {
    EncodingMemory memory;
    std::vector<uint32_t> ids;
    gpt2_->encode(text, memory, ids);
    return {ids.begin(), ids.end()};
  }

  TemporaryFolder folder_;
  std::unique_ptr<Tokenizer> gpt2_ = load_tokenizer(test::tokenizer_golden_folder() + "/gpt2/vocab.json");
  std::unique_ptr<Tokenizer> bert_ = load_tokenizer(test::tokenizer_golden_folder() + "/bert/tokenizer.json");
};

TEST_F(PrepareTexts, AStreamIsTheTokenFileOfItsTexts) {
  std::string long_text;
  for (int i = 0; i < 20000; ++i) long_text += "The whale's \u6f22\u5b57 number " + std::to_string(i) + "\n";
  const std::string first = folder_.write("a.txt", long_text), second = folder_.write("b.txt", "and so on");
  TokenWriter writer({folder_.file("file.bin"), "llm.c", gpt2_->vocabulary_size(), {}});
  tokenize_corpus(*gpt2_,
                  {.inputs = {first, second}, .end_of_document = usual_end_of_document(*gpt2_), .threads = 1},
                  writer, [](uint64_t, uint64_t) {});
  writer.finish();
  const auto file = open_dataset({.format = DataFormat::kTokens,
                                  .paths = {writer.path()},
                                  .sequence_length = 64,
                                  .vocabulary_size = static_cast<int64_t>(gpt2_->vocabulary_size())});
  const auto stream = tokenize_stream(*gpt2_, spec({first, second}, 64));
  ASSERT_GT(stream->size(), 1000);
  EXPECT_EQ(samples(*stream), samples(*file));
  expect_error(ExitCode::kInput, {"b.txt holds", "fewer than one sequence of 64"},
               [&] { tokenize_stream(*gpt2_, spec({second}, 64)); });
}

TEST_F(PrepareTexts, ALineIsADocumentWithItsEnd) {
  const std::string path = folder_.write(
      "lines.jsonl",
      "{\"text\": \"say no\", \"id\": 7}\n{\"text\": \"a rather longer line than the first\"}\n");
  const auto end = static_cast<int32_t>(*usual_end_of_document(*gpt2_));
  std::vector<int32_t> one = encode("say no"), two = encode("a rather longer line than the first");
  one.push_back(end);
  two.push_back(end);
  const auto lines = [&](int64_t length, Truncation truncation, bool whole) {
    return samples(
        *tokenize_lines(*gpt2_, spec({path}, length), LineTokens::kWithEnd, truncation, whole).dataset);
  };
  using Samples = std::vector<std::vector<int32_t>>;
  EXPECT_EQ(lines(64, Truncation::kNone, false), (Samples{one, two}));
  const auto most = std::ssize(two) - 2;
  ASSERT_GT(most, std::ssize(one));
  EXPECT_EQ(lines(most, Truncation::kLongestFirst, false), (Samples{one, {two.begin(), two.end() - 2}}));
  EXPECT_EQ(lines(most, Truncation::kNone, true), (Samples{one, two})) << "a stream is cut later";
  expect_error(ExitCode::kInput, {"lines.jsonl:2: ", "tokens, where a sequence has at most"},
               [&] { lines(most, Truncation::kNone, false); });
}

// As BertTokenizer has them when it is called.
TEST_F(PrepareTexts, OrWithSpecialTokensAroundIt) {
  const std::string path = folder_.write("lines.jsonl", "{\"story\": \"the whale\"}\n");
  TextsSpec of_bert = spec({path}, 16);
  of_bert.key = "story";
  of_bert.vocabulary_size = static_cast<int64_t>(bert_->vocabulary_size());
  const auto lines =
      tokenize_lines(*bert_, of_bert, LineTokens::kWithSpecial, Truncation::kLongestFirst, false).dataset;
  const std::vector<int32_t> ids = samples(*lines).at(0);
  EXPECT_EQ(ids.front(), static_cast<int32_t>(*bert_->find("[CLS]")));
  EXPECT_EQ(ids.back(), static_cast<int32_t>(*bert_->find("[SEP]")));
  EXPECT_EQ(std::count(ids.begin(), ids.end(), ids.back()), 1);
}

TEST_F(PrepareTexts, WhatIsWrongHasItsPlace) {
  const auto refuses = [&](const std::string& text, const std::vector<std::string>& mentioned) {
    const std::string path = folder_.write("wrong.jsonl", text);
    expect_error(ExitCode::kInput, mentioned, [&] {
      tokenize_lines(*gpt2_, spec({path}, 16), LineTokens::kWithEnd, Truncation::kLongestFirst, false);
    });
  };
  refuses("{\"text\": \"a\"}\n{\"texts\": \"b\"}\n", {"wrong.jsonl:2: ", "text"});
  refuses("{\"text\": \"\"}\n",
          {"wrong.jsonl: there is not a single record", "1: the text has not a single token"});
  TextsSpec small = spec({folder_.write("a.txt", "some text")}, 2);
  small.vocabulary_size = 100;
  expect_error(ExitCode::kInput, {"the tokenizer has", "and the model a vocabulary of 100"},
               [&] { tokenize_stream(*gpt2_, small); });
  small.vocabulary_size = spec({}, 2).vocabulary_size;
  small.paths = {folder_.write("b.txt", "no \xff UTF-8")};
  expect_error(ExitCode::kInput, {"b.txt: byte 3: not UTF-8"}, [&] { tokenize_stream(*gpt2_, small); });
}

}  // namespace
}  // namespace recollect
