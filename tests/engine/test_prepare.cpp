// Files of every format, sound and broken: what the one front makes of them, and the file and line of what is wrong.
#include <gtest/gtest.h>

#include <bit>

#include <fmt/format.h>

#include "engine/data/loader.h"
#include "engine/data/prepare.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/temporary_folder.h"
#include "tests/engine/tokenizer_goldens.h"

namespace recollect {
namespace {

class Preparations : public ::testing::Test {
 protected:
  PreparationSpec spec(DataFormat format, DataTask task) const {
    return {.format = format, .task = task, .sequence_length = 16, .stride = 2, .vocabulary_size = 330};
  }
  Prepared from(PreparationSpec spec, const std::vector<std::string>& contents) {
    for (const std::string& content : contents)
      spec.paths.push_back(folder_.write(fmt::format("file{}", spec.paths.size()), content));
    return prepare(spec, *tokenizer_);
  }
  void refuses(const PreparationSpec& spec, const std::string& content,
               const std::vector<std::string>& mentioned, ExitCode code = ExitCode::kInput) {
    test::expect_error(code, mentioned, [&] { from(spec, {content}); });
  }
  // By sample, one field.
  static std::vector<std::vector<int32_t>> all(const Prepared& prepared, const char* name) {
    std::vector<std::vector<int32_t>> values;
    for (int64_t i = 0; i < prepared.samples->size(); ++i) {
      Fields sample;
      prepared.samples->read(i, sample);
      values.push_back(sample[name]);
    }
    return values;
  }

  test::TemporaryFolder folder_;
  std::unique_ptr<Tokenizer> tokenizer_ = load_tokenizer(test::tokenizer_golden_folder() + "/bert/vocab.txt");
};

using Lists = std::vector<std::vector<int32_t>>;
using Names = std::vector<std::string>;

TEST_F(Preparations, LabelsAreFoundInAllFilesOrGiven) {
  PreparationSpec wanted = spec(DataFormat::kTsv, DataTask::kSequenceClassification);
  wanted.has_header = false;
  wanted.text = "1";
  wanted.label = "0";
  const Prepared found = from(wanted, {"b\tthe\nc\tthe the\n", "a\tthe\n"});
  EXPECT_EQ(found.labels, (Names{"a", "b", "c"}));
  EXPECT_EQ(all(found, "labels"), (Lists{{1}, {2}, {0}}));
  EXPECT_EQ(found.metrics, Names{"accuracy"});
  refuses(wanted, "b\tthe\n\tthe\n", {"file0:2: \"0\" is empty"});
  wanted.labels = {"c", "b"};
  EXPECT_EQ(all(from(wanted, {"b\tthe\n0\tthe\n"}), "labels"), (Lists{{1}, {0}}));
  refuses(wanted, "b\tthe\na\tthe\n", {"file0:2: the label \"a\" is none of 2", "c, b, or 0 to 1"});
  wanted.labels = {"c", "c"};
  refuses(wanted, "b\tthe\n", {"two labels are called c"}, ExitCode::kConfiguration);
  wanted.labels = {};
  wanted.problem = ProblemType::kRegression;
  const Prepared numbers = from(wanted, {"2.5\tthe\n"});
  EXPECT_TRUE(numbers.labels.empty());
  EXPECT_EQ(all(numbers, "labels"), (Lists{{std::bit_cast<int32_t>(2.5f)}}));
  wanted.text = "2";
  refuses(wanted, "b\tthe\n", {"file0:1: there is no column \"2\""});
  wanted.text = "";
  refuses(wanted, "b\tthe\n", {"data.columns.text"}, ExitCode::kConfiguration);
}

// A number in GLUE's files is that of the task's own names, whatever order others have.
TEST_F(Preparations, NumbersOfGlueKeepTheirNames) {
  PreparationSpec wanted = spec(DataFormat::kCola, DataTask::kSequenceClassification);
  const std::string rows = "gj04\t1\t\tthe\ngj04\t0\t\tthe\n";
  EXPECT_EQ(all(from(wanted, {rows}), "labels"), (Lists{{1}, {0}}));
  for (const Names& turned : {Names{"acceptable", "unacceptable"}, Names{"ACCEPTABLE", "UNACCEPTABLE"}}) {
    wanted.labels = turned;
    const Prepared prepared = from(wanted, {rows});
    EXPECT_EQ(all(prepared, "labels"), (Lists{{0}, {1}}));
    EXPECT_EQ(prepared.labels, turned);
  }
  wanted.labels = {"yes", "no"};  // other names: of the numbers 0 and 1
  EXPECT_EQ(all(from(wanted, {rows}), "labels"), (Lists{{1}, {0}}));
}

TEST_F(Preparations, TextsOfJsonl) {
  PreparationSpec wanted = spec(DataFormat::kJsonl, DataTask::kSequenceClassification);
  wanted.text = "a";
  wanted.label = "l";
  const Prepared prepared = from(wanted, {"{\"l\": 7, \"a\": \"the\"}\n{\"a\": \"\", \"l\": 10}\n"});
  EXPECT_EQ(prepared.labels, (Names{"7", "10"}));  // as numbers
  EXPECT_EQ(all(prepared, "ids"), (Lists{{2, 158, 3}, {2, 3}}));
  refuses(wanted, "{\"l\": 7, \"a\": \"the\"}\n{\"a\": \"\"}\n", {"file0:2: there is no \"l\""});
  wanted.labelled = false;
  wanted.token_types = false;
  const Prepared unlabelled = from(wanted, {"{\"a\": \"the\"}\n"});
  EXPECT_EQ(all(unlabelled, "labels"), Lists{{}});
  EXPECT_EQ(all(unlabelled, "token_types"), Lists{{}});
}

// GLUE's headers, with labels and without.
TEST_F(Preparations, GlueTrainsAndIsTested) {
  const struct {
    DataFormat format;
    std::string train, test;
    std::size_t classes, ids;
  } tasks[] = {
      {DataFormat::kCola, "gj04\t1\t\tthe\n", "index\tsentence\n5\tthe\n", 2, 0},
      {DataFormat::kSst2, "sentence\tlabel\nthe\t1\n", "index\tsentence\n5\tthe\n", 2, 0},
      {DataFormat::kMrpc, "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tthe\tthe\n",
       "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n5\t7\t8\tthe\tthe\n", 2, 0},
      {DataFormat::kQqp, "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n5\t1\t2\tthe\tthe\t1\n",
       "id\tquestion1\tquestion2\n5\tthe\tthe\n", 2, 1},
      {DataFormat::kStsb, "index\tgenre\tsentence1\tsentence2\tscore\n5\tx\tthe\tthe\t1\n",
       "index\tgenre\tsentence1\tsentence2\n5\tx\tthe\tthe\n", 0, 1},
      {DataFormat::kMnli,
       "index\tpairID\tsentence1\tsentence2\tlabel1\tgold_label\n5\tx\tthe\tthe\tneutral\tneutral\n",
       "index\tpairID\tsentence1\tsentence2\n5\tx\tthe\tthe\n", 3, 1},
      {DataFormat::kQnli, "index\tquestion\tsentence\tlabel\n5\tthe\tthe\tnot_entailment\n",
       "index\tquestion\tsentence\n5\tthe\tthe\n", 2, 1},
      {DataFormat::kRte, "index\tsentence1\tsentence2\tlabel\n5\tthe\tthe\tnot_entailment\n",
       "index\tsentence1\tsentence2\n5\tthe\tthe\n", 2, 1}};
  for (const auto& task : tasks) {
    SCOPED_TRACE(name_of(task.format));
    PreparationSpec wanted = spec(task.format, DataTask::kSequenceClassification);
    const Prepared train = from(wanted, {task.train});
    const int32_t one = task.classes == 0 ? std::bit_cast<int32_t>(1.0f) : 1;
    EXPECT_EQ(all(train, "labels"), Lists{{one}});
    EXPECT_EQ(train.labels.size(), task.classes);
    EXPECT_EQ(train.ids, Names(task.ids, "5"));
    refuses(wanted, task.test, {"file0:1: there is no column"});
    wanted.labelled = false;
    const Prepared test = from(wanted, {task.test});
    EXPECT_EQ(test.ids, Names{"5"});
    EXPECT_EQ(all(test, "ids"), all(train, "ids"));
    EXPECT_EQ(all(test, "labels"), Lists{{}});
    EXPECT_EQ(all(from(wanted, {task.train}), "ids"), all(train, "ids"));
  }
  const Prepared cut =
      from(spec(DataFormat::kSst2, DataTask::kSequenceClassification), {"sentence\tlabel\nthe\nthe\t0\n"});
  ASSERT_EQ(cut.remarks.size(), 1u);
  EXPECT_TRUE(cut.remarks[0].ends_with(": 1 of 2 rows are cut short and left out, the first in line 2"))
      << cut.remarks[0];
  EXPECT_EQ(cut.ids, Names{"1"});
  EXPECT_EQ(cut.samples->size(), 1);
}

TEST_F(Preparations, ChoicesAreListsOfLists) {
  const PreparationSpec wanted = spec(DataFormat::kSwag, DataTask::kMultipleChoice);
  const std::string header = "sent1,sent2,ending0,ending1,label\n";
  const Prepared prepared = from(wanted, {header + "the,the,the,,1\n", header + ",the,,the,0\n"});
  EXPECT_EQ(prepared.labels, (Names{"0", "1"}));
  ASSERT_EQ(prepared.samples->size(), 2);
  EXPECT_EQ(prepared.samples->length(0), 6);
  EXPECT_EQ(prepared.samples->length(1), 5);
  Fields sample;
  prepared.samples->read(1, sample);
  sample.clear();
  prepared.samples->read(0, sample);
  EXPECT_EQ(sample["ids"], (std::vector<int32_t>{2, 158, 3, 158, 158, 3, 2, 158, 3, 158, 3}));
  EXPECT_EQ(sample["token_types"], (std::vector<int32_t>{0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1}));
  EXPECT_EQ(sample.field("ids").ends, (std::vector<std::size_t>{6, 11}));
  EXPECT_EQ(sample.field("token_types").ends, sample.field("ids").ends);
  EXPECT_EQ(sample["labels"], std::vector<int32_t>{1});
  EXPECT_EQ(prepared.samples->bytes(), (11u + 9) * (2 + 1) + 2 * 4 + 2 * 5 * 4);

  refuses(wanted, header + "the,the,the,the,2\n", {"file0:2: the label \"2\" is none of 2"});
  refuses(wanted, "sent1,sent2,ending0,label\nthe,the,the,0\n", {"file0:1: there is one ending"});
  refuses(wanted, "sent1,ending0,ending1,label\nthe,the,the,0\n", {"file0:1: there is no column \"sent2\""});
  refuses(wanted, header + "\n", {"file0:2: an empty line"});
  test::expect_error(ExitCode::kInput, {"file1: 3 endings, and 2 in"}, [&] {
    from(wanted, {header + "the,the,the,,1\n", "sent1,sent2,ending0,ending1,ending2,label\na,b,c,d,e,0\n"});
  });
  PreparationSpec lines = spec(DataFormat::kJsonl, DataTask::kMultipleChoice);
  refuses(lines, "{\"prompt\": \"the\", \"endings\": [\"the\", \"2\"]}\n",
          {"file0:1: there is no \"label\""});
  // SWAG's columns as keys give the same samples; JSON is no table.
  const std::string record =
      R"({"id": 7, "sent1": "the", "sent2": "the", "ending0": "the", "ending1": "", "label": 1})"
      "\n";
  const Prepared records = from(lines, {record});
  EXPECT_EQ(all(records, "ids"), all(from(wanted, {header + "the,the,the,,1\n"}), "ids"));
  EXPECT_EQ(all(records, "labels"), (Lists{{1}}));
  refuses(wanted, record, {"file0: it holds JSON", "data.format jsonl"});
  lines.text = "q";
  lines.pair = "choices";
  EXPECT_EQ(from(lines, {R"({"q": "the", "choices": ["the", "2"], "label": 0})"
                         "\n"})
                .labels.size(),
            2u);
  lines.text = lines.pair = "";
  lines.labelled = false;
  EXPECT_EQ(from(lines, {"{\"prompt\": \"the\", \"endings\": [\"the\", \"2\"]}\n"}).labels.size(), 2u);
}

TEST_F(Preparations, TheFirstTokenOfAWordHasItsLabel) {
  PreparationSpec wanted = spec(DataFormat::kConll, DataTask::kTokenClassification);
  const Prepared found = from(wanted, {"the X O\nqthe X B\n\u200e X O\nthe X O\n\n-DOCSTART- x\n\nthe X B"});
  EXPECT_EQ(found.labels, (Names{"B", "O"}));
  ASSERT_EQ(found.samples->size(), 2);
  const auto labels = all(found, "labels");
  EXPECT_EQ(labels[1], (std::vector<int32_t>{-100, 0, -100}));
  EXPECT_EQ(labels[0].size(), all(found, "ids")[0].size());
  EXPECT_EQ(std::count(labels[0].begin(), labels[0].end(), 1), 2);  // the word that is dropped has no token
  EXPECT_EQ(std::count(labels[0].begin(), labels[0].end(), 0), 1);

  refuses(wanted, "the X O\nthe\n", {"file0:2: the word \"the\" has no tag"});
  refuses(wanted, "the X O\n\nthe O\n", {"file0:3: 2 columns, and 3 in the lines before"});
  refuses(wanted, "the X O\nth\xff X O\n", {"file0:2:3: not UTF-8"});
  refuses(wanted, "\n\n", {"there is not a single word"});
  wanted.labels = {"O", "B"};
  refuses(wanted, "the X O\nthe X C\n", {"file0:2: the label \"C\" is none of 2"});
  EXPECT_EQ(all(from(wanted, {"the 1\n"}), "labels"), (Lists{{-100, 1, -100}}));
  wanted.labelled = false;
  EXPECT_EQ(all(from(wanted, {"the\nthe\n"}), "labels"), Lists{{}});

  PreparationSpec lines = spec(DataFormat::kJsonl, DataTask::kTokenClassification);
  EXPECT_EQ(from(lines, {"{\"tokens\": [\"a\", \"b\"], \"tags\": [10, 9]}\n"}).labels, (Names{"9", "10"}));
  EXPECT_EQ(from(lines, {"{\"id\": 1, \"words\": [\"a\", \"b\"], \"ner_tags\": [10, 9]}\n"}).labels,
            (Names{"9", "10"}));
  refuses(wanted, "{\"tokens\": [\"a\"], \"ner_tags\": [1]}\n",
          {"file0: it holds JSON", "data.format jsonl"});
  EXPECT_EQ(from(lines, {"{\"tokens\": [\"a\", \"b\"], \"tags\": [10, \"9\"]}\n"}).labels,
            (Names{"9", "10"}));
  EXPECT_EQ(from(lines, {"{\"tokens\": [\"a\", \"b\"], \"tags\": [10, \"x9\"]}\n"}).labels,
            (Names{"10", "x9"}));
  refuses(lines, "{\"tokens\": [\"a\"], \"tags\": [1, 2]}\n", {"file0:1: 1 words, and 2 under \"tags\""});
  refuses(lines, "{\"tokens\": [\"a\"]}\n", {"file0:1: there is no \"tags\""});
  refuses(lines, "{\"tokens\": \"a\", \"tags\": []}\n", {"file0:1: \"tokens\" is no list"});
  refuses(lines, "{\"tokens\": [1], \"tags\": [1]}\n", {"file0:1: \"tokens\" has something that is no text"});
  refuses(lines, "{\"tokens\": [\"a\"], \"tags\": [1.5]}\n", {"file0:1: \"tags\" has 1.5, which is neither"});
  refuses(lines, "{\"tokens\": [], \"tags\": []}\n", {"there is not a single tag"});
  refuses(lines, "{\"tokens\": [\"a\"], \"tags\": [-100]}\n",
          {"file0:1: \"tags\" has -100, which is the tag of no word"});
}

// As the loader reads them: padded to the longest of two, with targets, or, unlabelled, with none that counts.
TEST_F(Preparations, SamplesFitTheirTasks) {
  const TokenInputs inputs{.sequence_length = 16, .vocabulary_size = 330, .token_types = 2};
  const PreparationSpec numbers = spec(DataFormat::kStsb, DataTask::kSequenceClassification);
  const PreparationSpec swag = spec(DataFormat::kSwag, DataTask::kMultipleChoice);
  const PreparationSpec squad = spec(DataFormat::kSquad, DataTask::kQuestionAnswering);
  const PreparationSpec conll = spec(DataFormat::kConll, DataTask::kTokenClassification);
  const struct {
    const PreparationSpec& spec;
    const char* content;
    TaskData task;
    int64_t length, rows, counting;
  } cases[] = {
      {numbers, "sentence1\tsentence2\tscore\nthe\tthe the\t1\nthe\tthe\t2\n",
       sequence_classification_data(inputs, 1, ProblemType::kRegression), 6, 2, 2},
      {swag, "sent1,sent2,ending0,ending1,label\nthe,the,,the,1\nthe,the,the the,,0\n",
       multiple_choice_data(inputs, 2), 7, 4, 2},
      {squad,
       "{\"data\": [{\"paragraphs\": [{\"context\": \"the the\", \"qas\": [{\"id\": \"1\", \"question\": "
       "\"the\","
       "\"answers\": [{\"text\": \"the\", \"answer_start\": 0}]}, {\"id\": \"2\", \"question\": \"\","
       "\"is_impossible\": true}]}]}]}",
       question_answering_data(inputs), 6, 2, 4},
      {conll, "the O\nthe O\n\nthe O\n", token_classification_data(inputs, 1), 4, 2, 3}};
  for (const auto& one : cases)
    for (const bool labelled : {true, false}) {
      SCOPED_TRACE(std::string(name_of(one.spec.format)) + (labelled ? "" : ", unlabelled"));
      PreparationSpec wanted = one.spec;
      wanted.labelled = labelled;
      const Prepared prepared = from(wanted, {one.content});
      ASSERT_EQ(prepared.samples->size(), 2);
      BatchReader reader(*prepared.samples, *one.task.collator, SampleOrder(2, 0, false),
                         {.micro_batch_size = 2, .pad_to_multiple_of = 1});
      StepBatch batch;
      reader.read(0, batch);
      EXPECT_EQ(batch.micro_batches[0].length, one.length);
      EXPECT_EQ(batch.micro_batches[0].fields["ids"].size(), static_cast<std::size_t>(one.rows * one.length));
      EXPECT_EQ(total(batch.valid_targets), labelled ? one.counting : 0);
    }
}

TEST_F(Preparations, EachFormatHasItsTasks) {
  for (int format = 0; format < static_cast<int>(kSpellings<DataFormat>.size()); ++format)
    for (int task = 0; task < 4; ++task) {
      PreparationSpec wanted = spec(static_cast<DataFormat>(format), static_cast<DataTask>(task));
      if (!can_prepare(wanted.format, wanted.task)) {
        refuses(wanted, "", {"data is not for"}, ExitCode::kConfiguration);
      } else {
        EXPECT_TRUE(holds_texts(wanted.format) || wanted.format == DataFormat::kJsonl);
      }
    }
  PreparationSpec wanted = spec(DataFormat::kConll, DataTask::kTokenClassification);
  test::expect_error(ExitCode::kConfiguration, {"data.path is missing"}, [&] { from(wanted, {}); });
  wanted.vocabulary_size = 100;
  refuses(wanted, "the O\n", {"a vocabulary of 100"});
}

}  // namespace
}  // namespace recollect
