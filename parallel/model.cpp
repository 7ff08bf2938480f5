#include "parallel/model.h"

#include "engine/core/error.h"

namespace recollect {

ValueId Model::input(std::string_view name) const {
  const auto found = inputs.find(name);
  if (found == inputs.end())
    throw Error(ExitCode::kInternal, "the model has no input '" + std::string(name) + "'");
  return found->second;
}

}  // namespace recollect
