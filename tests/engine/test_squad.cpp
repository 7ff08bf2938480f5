// SQuAD's files, sound and broken, and what evaluation asks of the windows that are made of them.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "engine/data/prepare.h"
#include "engine/data/squad.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/temporary_folder.h"
#include "tests/engine/tokenizer_goldens.h"

namespace recollect {
namespace {

// A file of one article and one paragraph; `more` is of its first question.
std::string file_of(const std::string& context, const std::string& more) {
  return fmt::format(
      "{{\"version\": \"1.1\",\n\"data\": [{{\"title\": \"T\", \"paragraphs\": [\n"
      "{{\"qas\": [{{{}, \"question\": \"the?\"}}], \"context\": \"{}\"}}]}}]}}\n",
      more, context);
}

std::string answered(int begin, const std::string& text) {
  return fmt::format("\"id\": \"q1\", \"answers\": [{{\"answer_start\": {}, \"text\": \"{}\"}}]", begin,
                     text);
}

class Squad : public ::testing::Test {
 protected:
  QuestionAnsweringSet read(const std::string& content, bool labelled = true) {
    QuestionAnsweringSet set;
    BadRecords bad;
    read_squad(folder_.write("s.json", content), labelled, set, bad);
    return set;
  }
  void refuses(const std::string& content, const std::vector<std::string>& mentioned) {
    test::expect_error(ExitCode::kInput, mentioned, [&] { read(content); });
  }
  Prepared prepared(const std::vector<std::string>& contents, int64_t length, bool labelled = true) {
    PreparationSpec spec{.format = DataFormat::kSquad,
                         .task = DataTask::kQuestionAnswering,
                         .labelled = labelled,
                         .sequence_length = length,
                         .stride = 1,
                         .vocabulary_size = 330};
    for (const std::string& content : contents)
      spec.paths.push_back(folder_.write(fmt::format("s{}.json", spec.paths.size()), content));
    return prepare(spec, *tokenizer_);
  }

  test::TemporaryFolder folder_;
  std::unique_ptr<Tokenizer> tokenizer_ = load_tokenizer(test::tokenizer_golden_folder() + "/bert/vocab.txt");
};

// What nobody asks for may have any name and any form; a context may stand behind its questions.
TEST_F(Squad, IsReadAsItIs) {
  const QuestionAnsweringSet set = read(
      "\ufeff{\"more\": [{\"data\": {\"x\": [1, null]}}], \"data\": [{\"title\": null, \"paragraphs\": [\n"
      "{\"qas\": [{\"id\": \"q1\", \"question\": \" Why?\", \"is_impossible\": false, \"answers\":\n"
      "[{\"text\": \"\\ud83d\\ude42 b\", \"answer_start\": 2, \"by\": {\"text\": 1}},\n"
      "{\"text\": \"b\", \"answer_start\": 4}]},\n"
      "{\"plausible_answers\": [{\"text\": 1, \"answer_start\": 99}], \"answers\": [], \"id\": \"q2\",\n"
      "\"question\": \"\", \"is_impossible\": true}], \"context\": \"\u00e9 \U0001f642 b\"},\n"
      "{\"context\": \"\", \"qas\": []}]}]}");
  EXPECT_EQ(set.contexts, (std::deque<std::string>{"\u00e9 \U0001f642 b", ""}));
  ASSERT_EQ(set.examples.size(), 2u);
  EXPECT_EQ(set.examples[0].id, "q1");
  EXPECT_EQ(set.examples[0].question, " Why?");
  EXPECT_EQ(set.examples[0].line, 2);
  ASSERT_EQ(set.examples[0].answers.size(), 2u);
  EXPECT_EQ(set.examples[0].answers[0].text, "\U0001f642 b");
  EXPECT_EQ(set.examples[0].answers[1].begin, 4u);
  EXPECT_FALSE(set.examples[0].is_impossible);
  EXPECT_TRUE(set.examples[1].is_impossible);
  EXPECT_EQ(set.context_of(set.examples[1]), set.contexts[0]);
}

TEST_F(Squad, WhatIsWrongHasItsPlace) {
  const std::string at = "s.json:3: article 1, paragraph 1, question \"q1\": ";
  refuses(file_of("\u00e9 the whale", answered(3, "the")),
          {at + "the answer \"the\" does not stand at 3, where the context has \"he \"", "code points"});
  refuses(file_of("the", answered(9, "the")), {at + "the answer \"the\" does not stand at 9"});
  refuses(file_of("the", answered(0, "the whale")), {at + "the answer \"the whale\" does not stand at 0"});
  refuses(file_of("the", answered(0, "")), {at + "an answer without text"});
  refuses(file_of("the", answered(-1, "the")), {at + "answer_start is -1"});
  refuses(file_of("the", "\"id\": \"q1\", \"answers\": []"), {at + "there is no answer", "is_impossible"});
  refuses(file_of("the", "\"id\": \"q1\""), {at + "there is no answer"});
  refuses(file_of("the", "\"is_impossible\": true, " + answered(0, "the")), {at + "is_impossible is true"});
  refuses(file_of("the", "\"id\": \"q1\", \"id\": \"q1\""), {at + "\"id\" is there twice"});
  refuses(file_of("the", "\"id\": \"q1\", \"answers\": [{\"text\": \"the\"}]"),
          {at + "there is no \"answer_start\""});
  refuses(file_of("the", "\"id\": \"q1\", \"answers\": [{\"text\": \"the\", \"answer_start\": 0.5}]"),
          {at + "\"answer_start\" is no whole number"});
  refuses(file_of("the", "\"id\": \"q1\", \"answers\": {}"), {at + "\"answers\" is no list"});
  refuses(file_of("the", "\"id\": \"q1\", \"answers\": [1]"), {at + "an element of a list is no object"});
  refuses(file_of("the", "\"answers\": []"), {"s.json:3: article 1, paragraph 1, question 1: there is no"});
  refuses(file_of("th\xff", answered(0, "th")), {"s.json:3: not valid JSON, or not UTF-8"});
  refuses(file_of("the", answered(0, "the")).substr(0, 80), {"s.json:3: not valid JSON"});
  refuses("{\"data\": [\n{}]}", {"s.json:2: article 1: there is no \"paragraphs\""});
  refuses("{\"data\": []}", {"there is not a single question"});
  refuses("{\"date\": []}", {"s.json:1: there is no \"data\""});
  refuses("[]", {"s.json:1: the whole is no object"});
  refuses("", {"s.json:1: not valid JSON"});
  refuses(file_of("the", answered(0, "the")) + std::string(1, '\0'), {"s.json: a zero byte at offset"});
  test::expect_error(ExitCode::kInput, {"s1.json:3: an earlier question has the id \"q1\" too"}, [&] {
    prepared({file_of("the", answered(0, "the")), file_of("the", answered(0, "the"))}, 16);
  });
}

TEST_F(Squad, WindowsKnowTheirPlaces) {
  // [CLS] the ? [SEP], of the context's six tokens three at a time, [SEP].
  const std::string context = "the \u00e9 the the the the";
  const std::string second = "\"id\": \"q2\", \"is_impossible\": true";
  const Prepared all = prepared({file_of(context, answered(10, "the")), file_of(context, second)}, 4 + 3 + 1);
  const QuestionAnsweringSet& set = *all.questions;
  ASSERT_EQ(set.windows.size(), static_cast<std::size_t>(all.samples->size()));
  EXPECT_EQ(set.example_of(0).id, "q1");
  EXPECT_EQ(set.example_of(set.windows.size() - 1).id, "q2");
  using Place = QuestionAnsweringSet::Place;
  Fields sample;
  all.samples->read(0, sample);
  ASSERT_EQ(sample["ids"].size(), 8u);
  EXPECT_EQ(set.place(0, 3), std::nullopt);
  EXPECT_EQ(set.place(0, 4), (Place{0, 3}));
  EXPECT_EQ(set.place(0, 5), (Place{4, 6}));  // two bytes
  EXPECT_EQ(set.place(0, 7), std::nullopt);
  EXPECT_EQ(set.text(0, 4, 6), "the \u00e9 the");
  EXPECT_EQ(sample["start"], std::vector<int32_t>{0});  // not in this window
  sample.clear();
  all.samples->read(1, sample);
  EXPECT_EQ(set.text(1, 4, 4), "the");
  EXPECT_EQ(set.place(1, 4), (Place{7, 10}));
  EXPECT_EQ(sample["start"], std::vector<int32_t>{5});
  EXPECT_EQ(sample["end"], std::vector<int32_t>{5});
  EXPECT_EQ(set.text(1, 5, 5), "the");
  sample.clear();
  all.samples->read(all.samples->size() - 1, sample);
  EXPECT_EQ(sample["start"], std::vector<int32_t>{0});
  EXPECT_EQ(sample["end"], std::vector<int32_t>{0});
}

TEST_F(Squad, WithoutLabels) {
  const Prepared all = prepared({file_of("the", "\"id\": \"q1\"")}, 16, false);
  Fields sample;
  all.samples->read(0, sample);
  EXPECT_EQ(sample["ids"].size(), 6u);
  EXPECT_TRUE(sample["start"].empty());
  const TaskData task = question_answering_data({.sequence_length = 16, .vocabulary_size = 330});
  EXPECT_EQ(total(task.collator->prepare(sample, 0, 8)), 0);
}

TEST_F(Squad, WhatLeavesNoRoomHasItsPlace) {
  const std::string file = file_of("the the the the", answered(0, "the"));
  test::expect_error(ExitCode::kInput, {"s0.json:3: question \"q1\": ", "stride of 1"},
                     [&] { prepared({file}, 6); });
  test::expect_error(ExitCode::kInput, {"s0.json:3: question \"q1\": the first text alone"},
                     [&] { prepared({file}, 5); });
  test::expect_error(ExitCode::kInput, {"s0.json:3: question \"q1\": 3 special tokens"},
                     [&] { prepared({file}, 2); });
  test::expect_error(ExitCode::kInput, {"question \"q1\": the context has not a single token"},
                     [&] { prepared({file_of("\u200e", answered(0, "\u200e"))}, 16); });
}

}  // namespace
}  // namespace recollect
