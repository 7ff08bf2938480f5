#include "parallel/tasks/loss.h"

#include "engine/core/error.h"

namespace recollect {

namespace {

Shape target_shape(const LayerBuilder& layers, const TaskSettings& task) {
  const int64_t samples = layers.sequences(), tokens = layers.sequence_length();
  switch (task.task) {
    case Task::kSequenceClassification:
      return task.targets_are_numbers() ? Shape{samples, task.labels} : Shape{samples};
    case Task::kMultipleChoice:
      require(samples % task.choices == 0, "choices do not divide into questions");
      return {samples / task.choices};
    case Task::kQuestionAnswering:
      return {layers.samples(), 2};
    default:
      return {layers.samples(), tokens};
  }
}

// Among which a target is one.
int64_t classes(const LayerBuilder& layers, const TaskSettings& task) {
  if (task.task == Task::kMultipleChoice) return task.choices;
  if (task.task == Task::kQuestionAnswering) return layers.sequence_length();
  return task.labels;
}

}  // namespace

Model begin_model(LayerBuilder& layers, const TaskSettings& task, FileNames files) {
  layers.adapt(task.lora, files);
  layers.multiply_in_fp8(task.fp8);
  layers.make_gelu_in_products(task.gelu_in_products);
  if (layers.continues())
    return {.inputs = {{"ids", layers.token_input("ids")},
                       {"positions", layers.positions()},
                       {"filled", layers.filled()}},
            .files = std::move(files)};
  const DType dtype = task.targets_are_numbers() ? DType::kF32 : DType::kI32;
  Model model{.inputs = {{"ids", layers.token_input("ids")},
                         {"targets", layers.input("targets", target_shape(layers, task), dtype)}},
              .scale = layers.loss_scale_input(task.columns()),
              .loss = layers.loss_accumulator(),
              .files = std::move(files)};
  if (task.packed) model.inputs["positions"] = layers.token_input("positions");
  return model;
}

ValueId positions_of(const Model& model, const TaskSettings& task) {
  return task.packed ? model.input("positions") : kNone;
}

void add_label_loss(LayerBuilder& layers, const TaskSettings& task, ValueId logits, Model& model) {
  model.logits = logits;
  if (task.targets_are_numbers()) {
    const bool regression = task.problem == ProblemType::kRegression;
    layers.label_loss("final/loss", "elementwise_loss",
                      {{"form", std::string(regression ? "squared" : "sigmoid")}},
                      {logits, model.input("targets"), model.scale}, model.loss);
  } else {
    layers.label_loss("final/loss", "cross_entropy_loss",
                      {{"classes", classes(layers, task)}, {"columns", task.columns()}},
                      {logits, model.input("targets"), model.scale}, model.loss);
  }
}

}  // namespace recollect
