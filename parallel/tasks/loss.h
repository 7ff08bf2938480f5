// The loss of a head's logits, by task. (The language models' heads never have all of their logits at hand:
// LayerBuilder::vocabulary_loss is theirs.)
#pragma once

#include "parallel/layers.h"
#include "parallel/model.h"
#include "parallel/tasks/task.h"

namespace recollect {

// Adds the inputs that every task has, "ids" and "targets", the scale and the loss.
Model begin_model(LayerBuilder& layers, const TaskSettings& task);

// `logits`: of every row, whole on every rank, as task.h has them. They become the model's.
void add_label_loss(LayerBuilder& layers, const TaskSettings& task, ValueId logits, Model& model);

}  // namespace recollect
