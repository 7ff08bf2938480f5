// Copies a batch to the inputs of a program: every field of a micro-batch belongs to the model's input of the
// same name.
#pragma once

#include "engine/data/fields.h"
#include "engine/runtime/executor.h"
#include "parallel/model.h"

namespace recollect {

// Throws kInternal if the model has no such input, or one with another shape or type.
inline void write_inputs(const Executor& executor, const Model& model, const Fields& fields) {
  for (const Field& field : fields) {
    const ValueId input = model.input(field.name);
    const Tensor tensor = executor.tensor(input);
    require(tensor.elements() == static_cast<int64_t>(field.values.size()),
            "a batch of another shape than its program");
    require(tensor.dtype == field.dtype, "a batch of another type than its program");
    executor.write(input, field.values.data());
  }
}

}  // namespace recollect
