// Lines of JSON: as training data of a task, whose numbers are inside their bounds and whose batches are
// whole whatever the file holds, and as text to be tokenized. The first line may name the task.
#include <bit>

#include "engine/core/ignored_label.h"
#include "engine/data/corpus.h"
#include "engine/data/dataset.h"
#include "engine/data/loader.h"
#include "engine/data/tasks.h"
#include "tests/engine/temporary_folder.h"
#include "tests/fuzz/parse.h"

using namespace recollect;

namespace {

constexpr TokenInputs kInputs{.sequence_length = 8, .vocabulary_size = 100, .token_types = 2};

struct NamedTask {
  std::string_view name;
  TaskData data;
};

std::vector<NamedTask> make_tasks() {
  std::vector<NamedTask> tasks;
  const auto add = [&](std::string_view name, TaskData data) { tasks.push_back({name, std::move(data)}); };
  add("causal_lm", causal_lm_data(kInputs));
  add("masked_lm", masked_lm_data(kInputs, {.mask_id = 3, .special_ids = {0, 3}}));
  add("sequence_classification", sequence_classification_data(kInputs, 3, ProblemType::kSingleLabel));
  add("regression", sequence_classification_data(kInputs, 1, ProblemType::kRegression));
  add("multi_label", sequence_classification_data(kInputs, 2, ProblemType::kMultiLabel));
  add("multiple_choice", multiple_choice_data(kInputs, 2));
  add("question_answering", question_answering_data(kInputs));
  add("token_classification", token_classification_data(kInputs, 5));
  return tasks;
}

// Takes the name of one from the front of `text`, where it has one.
const TaskData& take_task(const std::vector<NamedTask>& tasks, std::string_view& text) {
  std::string_view rest = text;
  const std::string_view name = fuzz::take_until(rest, '\n');
  for (const NamedTask& task : tasks)
    if (task.name == name) {
      text = rest;
      return task.data;
    }
  return tasks.front().data;
}

void check_field(const FieldSpec& spec, const Field& field, const Field& ids) {
  const bool numbers = spec.shape == FieldSpec::Shape::kNumbers;
  if (field.values.empty() && !spec.required) return;
  fuzz::expect(field.dtype == spec.dtype, "a field of another type");
  fuzz::expect(numbers ? field.values.size() == static_cast<std::size_t>(spec.size) : field.ends == ids.ends,
               "a field of another size");
  for (std::size_t row = 0; row < ids.rows() && !numbers; ++row) {
    const auto values = field.row(row);
    fuzz::expect(values.size() == ids.row(row).size(), "lists of several lengths");
    fuzz::expect(!values.empty() && values.size() <= 8, "a sample that is too short or too long");
    if (spec.is_mask)
      fuzz::expect(values[0] == 1 && std::is_sorted(values.rbegin(), values.rend()), "a bad mask");
  }
  for (const int32_t word : field.values) {
    const double value = spec.dtype == DType::kF32 ? double{std::bit_cast<float>(word)} : double(word);
    fuzz::expect((value >= spec.low && value <= spec.high) || (spec.may_be_ignored && word == kIgnoredLabel),
                 "a number outside its bounds");
  }
}

void check_batch(const Dataset& dataset, const Collator& collator) {
  StepBatch batch;
  const int64_t samples = dataset.size() + 1;
  BatchReader(dataset, collator, SampleOrder(dataset.size(), 0, false),
              {.micro_batch_size = samples, .cycle = 1})
      .read(0, batch);
  Fields& fields = batch.micro_batches[0].fields;
  for (const Collator::BatchField& field : collator.fields())
    fuzz::expect(static_cast<int64_t>(fields[field.name].size()) == samples * collator.words(field, 8),
                 "a batch of another size");
  for (const int32_t length : fields["lengths"]) fuzz::expect(length >= 1 && length <= 8, "a wrong length");
  const auto targets = static_cast<int64_t>(fields["targets"].size());
  for (const int64_t valid : batch.valid_targets)
    fuzz::expect(valid >= 0 && valid <= targets, "a wrong number of targets");
}

}  // namespace

RECOLLECT_FUZZ(text) {
  static const test::TemporaryFolder folder;
  static const std::vector<NamedTask> tasks = make_tasks();
  const TaskData& task = take_task(tasks, text);
  const std::string path = folder.write("f.jsonl", text);
  fuzz::accepts([&] {
    const auto dataset = open_dataset({.format = DataFormat::kJsonl,
                                       .paths = {path},
                                       .sequence_length = 8,
                                       .vocabulary_size = 100,
                                       .fields = task.fields});
    Fields sample;
    for (int64_t i = 0; i < dataset->size(); ++i) {
      sample.clear();
      dataset->read(i, sample);
      for (const FieldSpec& spec : task.fields)
        check_field(spec, sample.field(spec.name), sample.field("ids"));
    }
    check_batch(*dataset, *task.collator);
  });
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = fuzz::take_until(rest, '\n');
    fuzz::accepts([&] { text_of_json(line, "text", path, 0); });
  }
}
