// The loss of a head's logits, by task. (The language models' heads never have all of their logits at hand:
// LayerBuilder::vocabulary_head is theirs.)
#pragma once

#include "parallel/layers.h"
#include "parallel/model.h"
#include "parallel/tasks/task.h"

namespace recollect {

// Adds the inputs that every task has, "ids" and "targets", those of packed samples, the scale and the loss; where a
// sequence is continued, "ids", "positions" and "filled".
// `files`: of the model's family, by whose names adapters are matched.
Model begin_model(LayerBuilder& layers, const TaskSettings& task, FileNames files);

// kNone where samples are not packed.
ValueId positions_of(const Model& model, const TaskSettings& task);

// `logits`: of every row, whole on every rank, as task.h has them. They become the model's.
void add_label_loss(LayerBuilder& layers, const TaskSettings& task, ValueId logits, Model& model);

}  // namespace recollect
