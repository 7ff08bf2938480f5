// Lines of JSONL that a task refuses: every error names file, line and column, and what is wrong there.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/data/dataset.h"
#include "engine/data/tasks.h"
#include "tests/engine/expect_error.h"
#include "tests/engine/temporary_folder.h"

namespace recollect::test::data_fields_test {
namespace {

constexpr TokenInputs kInputs{.sequence_length = 4, .vocabulary_size = 50, .token_types = 2};

struct Refusal {
  std::string line;       // with ' for "
  std::string mentioned;  // the column first; with ` for "
};

void expect_refusals(const TaskData& task, const std::vector<Refusal>& refusals) {
  const TemporaryFolder folder;
  for (const auto& [written, mentioned] : refusals) {
    SCOPED_TRACE(written);
    std::string line = written, part = mentioned;
    std::replace(line.begin(), line.end(), '\'', '"');
    std::replace(part.begin(), part.end(), '`', '"');
    const std::string path = folder.write("bad.jsonl", line + "\n");
    expect_error(ExitCode::kInput, {path + ":1:" + part}, [&] {
      open_dataset({.format = DataFormat::kJsonl,
                    .paths = {path},
                    .sequence_length = 4,
                    .vocabulary_size = 50,
                    .fields = task.fields});
    });
  }
}

TEST(DataFields, LengthsTypesAndMasks) {
  expect_refusals(
      masked_lm_data(kInputs, {}),
      {{"{'input_ids': [1, 50]}", "19: id 50 is outside the vocabulary of 50"},
       {"{'input_ids': [1], 'labels': [50]}", "31: label 50 is outside the vocabulary of 50"},
       {"{'input_ids': [1], 'labels': []}", "30: `labels` is empty"},
       {"{'input_ids': [1], 'labels': 3}", "30: expected '['"},
       {"{'input_ids': [1, 2], 'labels': [1]}", "37: 1 labels for 2 input_ids"},
       {"{'token_type_ids': [0, 1], 'input_ids': [1]}", "45: 2 token_type_ids for 1 input_ids"},
       {"{'input_ids': [1], 'token_type_ids': [2]}", "39: token type 2 is outside the model's 2"},
       {"{'input_ids': [1], 'token_type_ids': [-100]}", "39: token type -100 is outside the model's 2"},
       {"{'input_ids': [1, 2], 'attention_mask': [1]}", "45: 1 attention_mask for 2 input_ids"},
       {"{'input_ids': [1], 'attention_mask': [2]}", "39: a mask's 2 is outside 0 and 1"},
       {"{'input_ids': [1], 'attention_mask': [null]}", "39: expected an integer"},
       {"{'input_ids': [1, 2], 'attention_mask': [0, 1]}",
        "45: `attention_mask` has a 1 after a 0 | a mask is "
        "ones and then zeros"},
       {"{'input_ids': [1, 2, 3], 'attention_mask': [1, 0, 1]}", "51: `attention_mask` has a 1 after a 0"},
       {"{'input_ids': [1, 2], 'attention_mask': [0, 0]}",
        "41: `attention_mask` is all zeros | a mask is ones"},
       {"{'input_ids': [1], 'attention_mask': []}", "38: `attention_mask` is empty"},
       {"{'input_ids': [1], 'attention_mask': [1, 1, 1, 1, 1]}", "51: more than 4 tokens | raise"},
       {"{'input_ids': [1], 'position_ids': [0]}",
        "21: unknown key `position_ids` | a line has `input_ids`, and may have `token_type_ids`, "
        "`attention_mask` and `labels`"},
       {"{'input_ids': [1], 'attention_mask': [1], 'attention_mask': [1]}",
        "60: the key `attention_mask` appears"},
       {"{'labels': [1]}", "16: there is no `input_ids`"}});
}

// A mask of bool as NumPy and PyTorch have it, and a column that only some rows have.
TEST(DataFields, FlagsInMasksAndNullForWhatIsNotThere) {
  const TemporaryFolder folder;
  const TaskData task = masked_lm_data(kInputs, {});
  const std::string plain =
                        R"({"input_ids": [1, 2, 3], "attention_mask": [1, 1, 0], "labels": [-100, 2, -100]})",
                    flags = R"({"input_ids": [1, 2, 3], "attention_mask": [true, true, false], "labels": )"
                            R"([-100, 2, -100], "token_type_ids": null})";
  const auto data = open_dataset({.format = DataFormat::kJsonl,
                                  .paths = {folder.write("a.jsonl", plain + "\n" + flags + "\n")},
                                  .sequence_length = 4,
                                  .vocabulary_size = 50,
                                  .fields = task.fields});
  Fields first, second;
  data->read(0, first), data->read(1, second);
  for (const FieldSpec& spec : task.fields)
    EXPECT_EQ(first.field(spec.name).values, second.field(spec.name).values) << spec.key;
  expect_refusals(sequence_classification_data(kInputs, 3, ProblemType::kSingleLabel),
                  {{"{'input_ids': [1], 'labels': null}", "30: expected an integer"}});
}

TEST(DataFields, ClassesOfASequence) {
  expect_refusals(sequence_classification_data(kInputs, 3, ProblemType::kSingleLabel),
                  {{"{'input_ids': [1]}",
                    "19: there is no `labels` | a line has `input_ids` and `labels`, and may have "
                    "`token_type_ids` and `attention_mask`"},
                   {"{'input_ids': [1], 'labels': 3}", "30: label 3 is outside the 3 classes"},
                   {"{'input_ids': [1], 'labels': -1}", "30: label -1 is outside the 3 classes"},
                   {"{'input_ids': [1], 'labels': 1.5}", "31: a number that is not written as an integer"},
                   {"{'input_ids': [1], 'labels': '1'}", "30: expected an integer"},
                   {"{'input_ids': [1], 'labels': []}", "30: `labels` is 0 numbers, and must be 1"},
                   {"{'input_ids': [1], 'labels': [0, 0]}", "30: `labels` is 2 numbers, and must be 1"},
                   {"{'input_ids': [1], 'labels': [0", "32: expected ',' or ']'"},
                   {"{'input_ids': [1], 'label': 0}", "21: unknown key `label`"}});
}

TEST(DataFields, NumbersOfASequence) {
  expect_refusals(
      sequence_classification_data(kInputs, 2, ProblemType::kRegression),
      {{"{'input_ids': [1], 'labels': 1}", "30: expected a list of 2 numbers"},
       {"{'input_ids': [1], 'labels': [1]}", "30: `labels` is 1 numbers, and must be 2"},
       {"{'input_ids': [1], 'labels': [1, 1, 1]}", "30: `labels` is 3 numbers, and must be 2"},
       {"{'input_ids': [1], 'labels': [1, NaN]}", "34: expected a digit"},
       {"{'input_ids': [1], 'labels': [1, -Infinity]}", "35: expected a digit"},
       {"{'input_ids': [1], 'labels': [1, .5]}", "34: expected a digit"},
       {"{'input_ids': [1], 'labels': [1, 5.]}", "36: expected a digit"},
       {"{'input_ids': [1], 'labels': [1, 5e]}", "36: expected a digit"},
       {"{'input_ids': [1], 'labels': [1, +5]}", "34: expected a digit"},
       {"{'input_ids': [1], 'labels': [1, 05]}", "36: a number with a leading zero"},
       {"{'input_ids': [1], 'labels': [1, 0x5]}", "35: expected ',' or ']'"},
       {"{'input_ids': [1], 'labels': [1, null]}", "34: expected a digit"},
       {"{'input_ids': [1], 'labels': [1e39, 0]}", "31: label 1e+39 is outside what 32 bits hold"},
       {"{'input_ids': [1], 'labels': [0, -1e39]}", "34: label -1e+39 is outside what 32 bits hold"},
       {"{'input_ids': [1], 'labels': [0, 1e999]}", "34: a number that fits no 64 bits"}});
  expect_refusals(sequence_classification_data(kInputs, 1, ProblemType::kMultiLabel),
                  {{"{'input_ids': [1], 'labels': 1.5}", "30: label 1.5 is outside 0 to 1"},
                   {"{'input_ids': [1], 'labels': [-100]}", "31: label -100 is outside 0 to 1"}});
}

TEST(DataFields, ListsOfLists) {
  expect_refusals(
      multiple_choice_data(kInputs, 2),
      {{"{'input_ids': [1, 2], 'labels': 0}", "16: expected '['"},
       {"{'input_ids': [[1]], 'labels': 0}", "15: `input_ids` is 1 lists, and must be 2"},
       {"{'input_ids': [[1], [2], [3]], 'labels': 0}", "15: `input_ids` has more than 2 lists"},
       {"{'input_ids': [], 'labels': 0}", "16: expected '['"},
       {"{'input_ids': [[1], []], 'labels': 0}", "21: `input_ids` is empty"},
       {"{'input_ids': [[1], [2, 3, 4, 5, 6]], 'labels': 0}", "34: more than 4 tokens"},
       {"{'input_ids': [[1], [2]], 'labels': 2}", "37: label 2 is outside the 2 choices"},
       {"{'input_ids': [[1], [2]], 'labels': [0, 1]}", "37: `labels` is 2 numbers, and must be 1"},
       {"{'input_ids': [[1], [2]], 'labels': 0, 'attention_mask': [1, 1]}", "59: expected '['"},
       {"{'input_ids': [[1], [2, 3]], 'labels': 0, 'attention_mask': [[1], [1]]}",
        "72: 1 attention_mask for 2 input_ids in list 2"},
       {"{'input_ids': [[1], [2, 3]], 'labels': 0, 'attention_mask': [[1], [0, 0]]}",
        "67: `attention_mask` is all zeros"},
       // What ends one list is not behind the next.
       {"{'input_ids': [[1, 2], [3, 4]], 'attention_mask': [[1, 0], [1, 0]], 'labels': 7}", "79: label 7"}});
}

TEST(DataFields, PositionsAndLabelsOfTokens) {
  expect_refusals(question_answering_data(kInputs),
                  {{"{'input_ids': [1], 'start_positions': 0}", "41: there is no `end_positions`"},
                   {"{'input_ids': [1], 'end_positions': 0}", "39: there is no `start_positions`"},
                   {"{'input_ids': [1], 'start_positions': 2147483648, 'end_positions': 0}",
                    "39: position 2147483648 is outside what 32 bits hold"},
                   {"{'input_ids': [1], 'labels': 0}", "21: unknown key `labels`"}});
  expect_refusals(token_classification_data(kInputs, 3),
                  {{"{'input_ids': [1, 2], 'labels': [0, 3]}", "37: label 3 is outside the 3 classes"},
                   {"{'input_ids': [1, 2], 'labels': 0}", "33: expected '['"},
                   {"{'input_ids': [1, 2], 'labels': [0]}", "37: 1 labels for 2 input_ids"}});
}

}  // namespace
}  // namespace recollect::test::data_fields_test
