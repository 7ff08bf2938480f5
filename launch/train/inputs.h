// From a batch to the inputs of a program: every field of a micro-batch is the model's input of that name.
#pragma once

#include "engine/data/fields.h"
#include "engine/runtime/executor.h"
#include "parallel/model.h"

namespace recollect {

// Error kInternal where the model lacks an input, or its shape or type is another one.
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
