// From a batch to the inputs of a program: every field of a micro-batch is the model's input of that name.
#pragma once

#include "engine/data/fields.h"
#include "engine/runtime/executor.h"
#include "parallel/model.h"

namespace recollect {

// Error kInternal where the model lacks an input, or its shape is another one.
inline void write_inputs(const Executor& executor, const Model& model, const Fields& fields) {
  for (const auto& [name, values] : fields) {
    const ValueId input = model.input(name);
    require(executor.tensor(input).elements() == static_cast<int64_t>(values.size()),
            "a batch of another shape than its program");
    executor.write(input, values.data());
  }
}

}  // namespace recollect
