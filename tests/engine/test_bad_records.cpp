// Records that nothing can be trained on, in every format that has records: which are passed over by which choice, what is
// said of them, and that the samples are those of a file without them.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/data/dataset.h"
#include "engine/data/prepare.h"
#include "engine/data/prepare_texts.h"
#include "engine/data/tasks.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/temporary_folder.h"
#include "tests/engine/tokenizer_goldens.h"

namespace recollect {
namespace {

using Samples = std::vector<Fields>;

struct Read {
  Samples samples;
  std::vector<std::string> remarks;
};

Read all_of(const Dataset& dataset, std::vector<std::string> remarks) {
  Read read{{}, std::move(remarks)};
  for (int64_t i = 0; i < dataset.size(); ++i) {
    dataset.read(i, read.samples.emplace_back());
    EXPECT_EQ(read.samples.back().longest(), dataset.length(i));
  }
  return read;
}

enum class Reader { kIds, kCsv, kJsonl, kLines, kConll, kWords, kSquad };

// A file of `good` alone, and one with another part in it.
struct Case {
  const char* what;
  Reader reader;
  std::string first, bad, last;
  bool blank;
  std::string mentioned;  // in the error, and in the remark
};

class BadRecordsTest : public ::testing::Test {
 protected:
  Read read(const Case& c, const std::string& text, OnBadRecord choice) {
    const std::string path = folder_.write("file", text);
    if (c.reader == Reader::kIds) {
      const TokenInputs inputs{.sequence_length = 6, .vocabulary_size = 30};
      const auto dataset = open_dataset({.format = DataFormat::kJsonl,
                                         .paths = {path},
                                         .sequence_length = 6,
                                         .vocabulary_size = 30,
                                         .on_bad_record = choice,
                                         .fields = causal_lm_data(inputs).fields});
      return all_of(*dataset, dataset->remarks());
    }
    if (c.reader == Reader::kLines) {
      const PreparedTexts texts = tokenize_lines(
          *gpt2_, {.paths = {path}, .sequence_length = 16, .vocabulary_size = 2000, .on_bad_record = choice},
          LineTokens::kWithEnd, Truncation::kNone, false);
      return all_of(*texts.dataset, texts.remarks);
    }
    PreparationSpec spec{.paths = {path},
                         .text = "text",
                         .label = "label",
                         .labels = {"no", "yes"},
                         .sequence_length = 16,
                         .stride = 2,
                         .vocabulary_size = 330,
                         .on_bad_record = choice,
                         .threads = 2};
    spec.format = c.reader == Reader::kCsv ? DataFormat::kCsv : DataFormat::kJsonl;
    if (c.reader == Reader::kConll || c.reader == Reader::kWords) {
      spec.format = c.reader == Reader::kConll ? DataFormat::kConll : DataFormat::kJsonl;
      spec.task = DataTask::kTokenClassification;
      spec.text = spec.label = "";
    } else if (c.reader == Reader::kSquad) {
      spec.format = DataFormat::kSquad;
      spec.task = DataTask::kQuestionAnswering;
    }
    const Prepared prepared = prepare(spec, *bert_);
    return all_of(*prepared.samples, prepared.remarks);
  }

  test::TemporaryFolder folder_;
  std::unique_ptr<Tokenizer> bert_ = load_tokenizer(test::tokenizer_golden_folder() + "/bert/vocab.txt"),
                             gpt2_ = load_tokenizer(test::tokenizer_golden_folder() + "/gpt2/vocab.json");
};

std::string question(const std::string& id, int at) {
  return fmt::format(
             R"({{"id": "{}", "question": "the?", "answers": [{{"text": "the", "answer_start": {}}}]}},)", id,
             at) +
         "\n";
}

const std::vector<Case>& cases() {
  const std::string ids = "{\"input_ids\": [1, 2]}\n", row = "{\"text\": \"the\", \"label\": \"yes\"}\n",
                    story = "{\"text\": \"whale\"}\n",
                    words = "{\"tokens\": [\"the\"], \"tags\": [\"yes\"]}\n", head = "text,label\n",
                    squad = "{\"data\": [{\"paragraphs\": [{\"context\": \"the the\", \"qas\": [\n",
                    tail = R"({"id": "z", "question": "", "is_impossible": true}]}]}]})";
  static const std::vector<Case> all = {
      {"an empty line of ids", Reader::kIds, ids, "\n", ids, true, "file:2: an empty line"},
      {"blanks and tabs", Reader::kIds, ids, " \t\r\n", ids, true, "file:2: an empty line"},
      {"no ids", Reader::kIds, ids, "{\"input_ids\": []}\n", ids, true, "file:2:15: \"input_ids\" is empty"},
      {"no labels of no ids", Reader::kIds, ids, "{\"labels\": [], \"input_ids\": []}\n", ids, true,
       "file:2:29: \"input_ids\" is empty"},
      {"no labels", Reader::kIds, ids, "{\"labels\": [], \"input_ids\": [1]}\n", ids, false,
       "file:2:12: \"labels\" is empty"},
      {"an empty last line", Reader::kIds, ids, "\n", "", true, "file:2: an empty line"},
      {"no JSON", Reader::kIds, ids, "{\"input_ids\": [1\n", ids, false, "file:2:17: expected ',' or ']'"},
      {"an id outside", Reader::kIds, ids, "{\"input_ids\": [99]}\n", ids, false, "id 99 is outside"},
      {"too long", Reader::kIds, ids, "{\"input_ids\": [1,1,1,1,1,1,1]}\n", ids, false, "more than 6 tokens"},
      {"an empty row", Reader::kCsv, head + "the,yes\n", "\n", "the,no\n", true, "file:3: an empty line"},
      {"an empty text without a label", Reader::kCsv, head + "the,yes\n", ",\n", "the,no\n", true,
       "file:3: neither a text nor a label"},
      {"too many columns", Reader::kCsv, head + "the,yes\n", "the,1,2\n", "the,no\n", false,
       "file:3: 3 fields in a table of 2 columns"},
      {"an unknown label", Reader::kCsv, head + "the,yes\n", "the,maybe\n", "the,no\n", false,
       "file:3: the label \"maybe\" is none of 2"},
      {"an empty line of texts", Reader::kJsonl, row, "\n", row, true, "file:2: an empty line"},
      {"a text of null", Reader::kJsonl, row, "{\"text\": null, \"label\": \"no\"}\n", row, true,
       "file:2: \"text\" is null"},
      {"a missing key", Reader::kJsonl, row, "{\"text\": \"the\"}\n", row, false,
       "file:2: there is no \"label\""},
      {"half a character", Reader::kJsonl, row, "{\"text\": \"\\ud83d\", \"label\": \"no\"}\n", row, false,
       "which is half of a character (a surrogate)"},
      {"a document without tokens", Reader::kLines, story, "{\"text\": \"\"}\n", story, true,
       "file:2: the text has not a single token"},
      {"a document that is a number", Reader::kLines, story, "{\"text\": 5}\n", story, false,
       "file:2: \"text\" is 5, and no text"},
      {"a word without a tag", Reader::kConll, "the yes\n\n", "the no\nthe\nthe yes\n\n", "the no\n", false,
       "file:4: the word \"the\" has no tag"},
      {"an empty line of words", Reader::kWords, words, "\n", words, true, "file:2: an empty line"},
      {"no words", Reader::kWords, words, "{\"tokens\": [], \"tags\": []}\n", words, true,
       "file:2: the sentence has no words"},
      {"more tags than words", Reader::kWords, words, "{\"tokens\": [\"the\"], \"tags\": [0, 1]}\n", words,
       false, "file:2: 1 words, and 2 under \"tags\""},
      {"an answer elsewhere", Reader::kSquad, squad + question("a", 0), question("b", 1), tail, false,
       "question \"b\": the answer \"the\" does not stand at 1"},
  };
  return all;
}

TEST_F(BadRecordsTest, ArePassedOverOrNamedAsIsChosen) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.what);
    const std::string good = c.first + c.last, bad = c.first + c.bad + c.last;
    const Read expected = read(c, good, OnBadRecord::kError);
    EXPECT_TRUE(expected.remarks.empty());
    for (const OnBadRecord choice : {OnBadRecord::kSkipBlank, OnBadRecord::kError, OnBadRecord::kSkip}) {
      if (choice == OnBadRecord::kError || (choice == OnBadRecord::kSkipBlank && !c.blank)) {
        test::expect_error(ExitCode::kInput, {c.mentioned}, [&] { read(c, bad, choice); });
        continue;
      }
      const Read some = read(c, bad, choice);
      EXPECT_EQ(some.samples, expected.samples);
      ASSERT_EQ(some.remarks.size(), 1u);
      EXPECT_NE(some.remarks[0].find(c.blank ? "1 record without text passed over, the first: "
                                             : "1 record passed over that is damaged, the first: "),
                std::string::npos)
          << some.remarks[0];
      EXPECT_NE(some.remarks[0].find(c.mentioned), std::string::npos) << some.remarks[0];
    }
  }
}

TEST_F(BadRecordsTest, AreCountedAndTheFirstIsShown) {
  const Case ids{"", Reader::kIds, "", "", "", true, ""};
  const Read some =
      read(ids, "\n{\"input_ids\": [1]}\n\n\nno\n{\"input_ids\": [2]}\nneither\n\n", OnBadRecord::kSkip);
  ASSERT_EQ(some.samples.size(), 2u);
  EXPECT_EQ(some.samples[1].at("ids").values, std::vector<int32_t>{2});
  ASSERT_EQ(some.remarks.size(), 2u);
  EXPECT_NE(some.remarks[0].find("4 records without text passed over, the first: "), std::string::npos);
  EXPECT_NE(some.remarks[1].find("2 records passed over that are damaged, the first: "), std::string::npos);
  EXPECT_NE(some.remarks[1].find("file:5:1: expected an object"), std::string::npos) << some.remarks[1];
  test::expect_error(ExitCode::kInput,
                     {"there is not a single record", "3 records passed over", "file:1:1: expected"},
                     [&] { read(ids, "no\nno\nno\n", OnBadRecord::kSkip); });
}

// The numbers of samples, which predictions carry, are those of the file's rows.
TEST_F(BadRecordsTest, LeaveTheNumbersOfOtherRows) {
  PreparationSpec spec{.format = DataFormat::kCsv,
                       .paths = {folder_.write("rows", "text,label\nthe,0\nthe,7\n\n1,2,3\nthe,1\n")},
                       .text = "text",
                       .label = "label",
                       .labels = {"no", "yes"},
                       .sequence_length = 16,
                       .vocabulary_size = 330,
                       .on_bad_record = OnBadRecord::kSkip};
  EXPECT_EQ(prepare(spec, *bert_).ids, (std::vector<std::string>{"0", "3"}));
}

// As CoNLL-U has them; a word that begins so has as many columns as the others.
TEST_F(BadRecordsTest, CommentsOfConllArePassedOver) {
  const Case conll{"", Reader::kConll, "", "", "", true, ""};
  const Read plain = read(conll, "the yes\n# no\n\nthe no\n", OnBadRecord::kError),
             commented = read(
                 conll, "# newdoc\n# sent_id = 1\n# text = the #\nthe yes\n# no\n\n#\n# text = x\nthe no\n",
                 OnBadRecord::kError);
  EXPECT_EQ(plain.samples.size(), 2u);
  EXPECT_EQ(plain.samples, commented.samples);
}

// As pandas and datasets write classes: with gaps as 1.0, and as true.
TEST_F(BadRecordsTest, ClassesMayBeWrittenAsFlagsAndFractions) {
  const auto labels_of = [&](Reader reader, const std::string& text) {
    const Case c{"", reader, "", "", "", true, ""};
    std::vector<int32_t> labels;
    for (const Fields& sample : read(c, text, OnBadRecord::kError).samples)
      labels.push_back(sample.at("labels").values.at(reader == Reader::kWords ? 1 : 0));
    return labels;
  };
  const std::vector<int32_t> expected = {1, 0, 1, 0};
  EXPECT_EQ(labels_of(Reader::kCsv, "text,label\nthe,1.0\nthe,0.0\nthe,True\nthe,false\n"), expected);
  std::string rows, words;
  for (const char* label : {"1.0", "0.0", "true", "false"})
    rows += fmt::format("{{\"text\": \"the\", \"label\": {}}}\n", label);
  EXPECT_EQ(labels_of(Reader::kJsonl, rows), expected);
  for (const char* tag : {"1.0", "0.0", "1", "0"})
    words += fmt::format("{{\"tokens\": [\"the\"], \"tags\": [{}]}}\n", tag);
  EXPECT_EQ(labels_of(Reader::kWords, words), expected);
  std::string ids;
  for (const char* label : {"1.0", "0", "true", "false"})
    ids += fmt::format("{{\"input_ids\": [1], \"labels\": {}}}\n", label);
  const TokenInputs inputs{.sequence_length = 6, .vocabulary_size = 30};
  const auto dataset =
      open_dataset({.format = DataFormat::kJsonl,
                    .paths = {folder_.write("ids", ids)},
                    .sequence_length = 6,
                    .vocabulary_size = 30,
                    .fields = sequence_classification_data(inputs, 2, ProblemType::kSingleLabel).fields});
  std::vector<int32_t> labels;
  for (const Fields& sample : all_of(*dataset, {}).samples)
    labels.push_back(sample.at("labels").values.at(0));
  EXPECT_EQ(labels, expected);
}

// Tokens behind the ones are padding: they are neither learnt nor learnt from.
TEST_F(BadRecordsTest, CausalRecordsMayHaveAMask) {
  const TokenInputs inputs{.sequence_length = 6, .vocabulary_size = 30};
  const TaskData task = causal_lm_data(inputs);
  const auto targets_of = [&](const std::string& line) {
    const auto dataset = open_dataset({.format = DataFormat::kJsonl,
                                       .paths = {folder_.write("masked", line + "\n")},
                                       .sequence_length = 6,
                                       .vocabulary_size = 30,
                                       .fields = task.fields});
    Fields sample;
    dataset->read(0, sample);
    task.collator->prepare(sample, 0, 6);
    return sample["targets"];
  };
  using Ids = std::vector<int32_t>;
  const std::string ids = "{\"input_ids\": [4, 5, 6, 7]";
  EXPECT_EQ(targets_of(ids + ", \"attention_mask\": [1, 1, 1, 1]}"), (Ids{5, 6, 7, -100}));
  EXPECT_EQ(targets_of(ids + ", \"attention_mask\": [1, 1, 0, 0]}"), (Ids{5, -100, -100, -100}));
  EXPECT_EQ(targets_of(ids + ", \"attention_mask\": [1, 0, 0, 0]}"), (Ids{-100, -100, -100, -100}));
  // The label of the first padding is what the last token before it predicts, as in Transformers.
  EXPECT_EQ(targets_of(ids + ", \"attention_mask\": [1, 1, 0, 0], \"labels\": [-100, 5, 9, -100]}"),
            (Ids{5, 9, -100, -100}));
}

}  // namespace
}  // namespace recollect
