#include "parallel/models/encoder_labels.h"

namespace recollect {

void add_label_keys(std::vector<ModelKey>& keys) {
  keys.push_back(model_size("num_labels", 2, 1, 1 << 20, "classes, or numbers of a regression"));
  keys.push_back(
      {.name = "problem_type",
       .otherwise = std::string("auto"),
       .choices = {"auto", "regression", "single_label_classification", "multi_label_classification"},
       .help = "of sequence_classification; auto: regression where num_labels is 1, else "
               "single_label_classification"});
}

void translate_labels(nlohmann::json& document) {
  const auto names = document.find("id2label");
  if (names != document.end() && names->is_object() && !document.contains("num_labels"))
    document["num_labels"] = names->size();
}

ProblemType problem_of(const ModelValues& m) {
  const std::string& text = m.text("problem_type");
  if (text == "auto")
    return m.integer("num_labels") == 1 ? ProblemType::kRegression : ProblemType::kSingleLabel;
  return text == "regression"                   ? ProblemType::kRegression
         : text == "multi_label_classification" ? ProblemType::kMultiLabel
                                                : ProblemType::kSingleLabel;
}

void complete_problem(ModelValues& m, std::vector<CompletedValue>& completed) {
  if (m.text("problem_type") != "auto") return;
  m.set("problem_type", std::string(name_of(problem_of(m))));
  completed.push_back({"problem_type", "model.num_labels"});
}

void write_labels(const ModelValues& m, Task task, nlohmann::ordered_json& document) {
  if (task == Task::kSequenceClassification || task == Task::kTokenClassification) {
    nlohmann::ordered_json names, numbers;
    for (int64_t label = 0; label < m.integer("num_labels"); ++label) {
      const std::string name = fmt::format("LABEL_{}", label);
      names[std::to_string(label)] = name;
      numbers[name] = label;
    }
    document["id2label"] = names;
    document["label2id"] = numbers;
  }
  if (task == Task::kSequenceClassification) document["problem_type"] = m.text("problem_type");
}

const char* class_of_task(Task task) {
  switch (task) {
    case Task::kSequenceClassification:
      return "ForSequenceClassification";
    case Task::kMultipleChoice:
      return "ForMultipleChoice";
    case Task::kQuestionAnswering:
      return "ForQuestionAnswering";
    case Task::kTokenClassification:
      return "ForTokenClassification";
    default:
      return "ForMaskedLM";
  }
}

int64_t logits_of(const TaskSettings& task) {
  if (task.task == Task::kQuestionAnswering) return 2;
  return task.task == Task::kMultipleChoice ? 1 : task.labels;
}

void add_encoder_inputs(LayerBuilder& layers, const TaskSettings& task, const BatchShape& batch,
                        Model& model) {
  if (!task.packed) model.inputs["lengths"] = layers.input("lengths", {batch.samples}, DType::kI32);
  if (batch.packed_sequences > 0)
    model.inputs["first_tokens"] = layers.input("first_tokens", {batch.packed_sequences}, DType::kI32);
}

}  // namespace recollect
