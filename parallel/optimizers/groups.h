// Groups of parameters, by their names: what is otherwise with those that match. Of several groups that match a
// parameter it is in the first. What becomes of each is written into the parameters, before the graph is differentiated.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "parallel/model.h"
#include "parallel/optimizers/rule.h"

namespace recollect {

// Whether `pattern` describes all of `name`: `*` stands for any characters, `?` for one.
bool matches(std::string_view pattern, std::string_view name);

// Error kConfiguration where a group has no parameter, or a part of one, or where all parameters are frozen. `graph`:
// that of the model's forward.
void assign_groups(const Graph& graph, Model& model, const OptimizerSettings& settings);

}  // namespace recollect
