// From files as people have them to the samples that a task trains on: the features of Transformers' example scripts
// (run_glue, run_classification, run_swag, run_qa, run_ner), whatever the number of threads.
//
// format                 task                     columns, where the caller names none      metrics
// cola ... rte           sequence_classification  GLUE's own                                GLUE's
// csv, tsv, jsonl        sequence_classification  text and label must be named              accuracy; of numbers
//                                                                                           pearson, spearman
// swag                   multiple_choice          sent1, sent2, label; ending0, ...         accuracy
// jsonl                  multiple_choice          prompt, endings, label                    accuracy
// squad                  question_answering       none                                      squad
// conll                  token_classification     none: the first and the last of a line    entities
// jsonl                  token_classification     tokens, tags                              entities
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/data_format.h"
#include "engine/data/packed_samples.h"
#include "engine/data/questions.h"
#include "engine/data/tasks.h"
#include "engine/data/tokenizer/tokenizer.h"

namespace recollect {

// What texts are prepared for.
enum class DataTask { kSequenceClassification, kMultipleChoice, kQuestionAnswering, kTokenClassification };
template <>
inline constexpr std::array<std::string_view, 4> kSpellings<DataTask> = {
    "sequence_classification", "multiple_choice", "question_answering", "token_classification"};

struct PreparationSpec {
  DataFormat format = DataFormat::kCsv;
  DataTask task = DataTask::kSequenceClassification;
  std::vector<std::string> paths = {};  // files, whose samples follow one another
  // Columns of csv and tsv, keys of jsonl; "": the format's own. Without a header columns are called 0, 1, ...
  std::string text = {}, pair = {}, label = {};
  bool has_header = true;  // of csv and tsv
  // Names of the classes in order; a file names a class by its name or its number. None: the format's own, or those
  // that are found in the files, sorted. Evaluation takes those of training.
  std::vector<std::string> labels = {};
  ProblemType problem =
      ProblemType::kSingleLabel;  // of csv, tsv and jsonl: kRegression has numbers for labels
  bool labelled = true;           // false: nothing is asked about labels, and samples have none
  int64_t sequence_length = 0;    // special tokens included
  int64_t stride = 128;           // of question answering: tokens that two windows one behind the other share
  // none: a longer sample is an error. Question answering has windows of the context, whatever is said here.
  Truncation truncation = Truncation::kLongestFirst;
  int64_t vocabulary_size = 0;  // of the model
  bool token_types = true;      // whether the model reads them
  OnBadRecord on_bad_record = OnBadRecord::kSkipBlank;
  int threads = 1;
};

// Where the row of a sample begins: the line of the file, the first of which is 1.
struct RowPlace {
  std::size_t file = 0;
  int64_t line = 0;
};

struct Prepared {
  std::unique_ptr<PackedSamples> samples = {};  // fields as tasks.h has them
  std::vector<std::string> labels = {};   // of the classes, or choices; none of numbers, and of questions
  std::vector<std::string> metrics = {};  // by which such data is judged
  std::vector<std::string> ids = {};      // of samples, where the file numbers them, as GLUE's do; or none
  std::vector<RowPlace> rows = {};  // of samples without labels, which are asked about; of csv, tsv and jsonl
  // A sentence for each of GLUE's files that has rows which are cut short; they are left out, as its own readers do. And
  // one on each kind of record that was passed over.
  std::vector<std::string> remarks = {};
  std::unique_ptr<QuestionAnsweringSet> questions = {};  // of question answering: what evaluation asks about
};

bool can_prepare(DataFormat format, DataTask task);

// Errors: kConfiguration for a spec that makes no sense, or that lacks columns; kInput, with file and line, for what is
// wrong in a file, and for a tokenizer that has more ids than the model.
Prepared prepare(const PreparationSpec& spec, const Tokenizer& tokenizer);

}  // namespace recollect
