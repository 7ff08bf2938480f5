// What the encoders' families share that classify: keys of labels and of the problem, and what config.json says of them.
#pragma once

#include "parallel/models/keys.h"

namespace recollect {

inline const std::vector<Task> kEncoderTasks = {Task::kMaskedLm, Task::kSequenceClassification,
                                                Task::kMultipleChoice, Task::kQuestionAnswering,
                                                Task::kTokenClassification};

// num_labels and problem_type.
void add_label_keys(std::vector<ModelKey>& keys);
// Labels are counted by their names.
void translate_labels(nlohmann::json& document);
void complete_problem(ModelValues& m, std::vector<CompletedValue>& completed);
ProblemType problem_of(const ModelValues& m);
void write_labels(const ModelValues& m, Task task, nlohmann::ordered_json& document);

// "ForMaskedLM" and the like: the end of the class's name in Transformers.
const char* class_of_task(Task task);

// A pooler's or a classifier's task, whose rows are samples.
inline bool is_of_samples(Task task) {
  return task == Task::kSequenceClassification || task == Task::kMultipleChoice;
}
// Of a row: start and end, a choice's score, or the classes'.
int64_t logits_of(const TaskSettings& task);

// "lengths", or "first_tokens" of packed samples.
void add_encoder_inputs(LayerBuilder& layers, const TaskSettings& task, const BatchShape& batch,
                        Model& model);

}  // namespace recollect
