// OpBuilder makes ops by the names of their kinds. What the following ops have in common, such as layer and
// phase, is set once.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/graph/op_def.h"

namespace recollect {

class OpBuilder {
 public:
  // `common`: everything that the ops share, except kind, name, attributes, inputs and outputs.
  OpBuilder(Graph& graph, const OpRegistry& registry, Op common = {})
      : graph_(graph), registry_(registry), common_(std::move(common)) {}

  Op& common() { return common_; }
  const Op& common() const { return common_; }

  // Returns the op without appending it, for a pass that finds it a place (graph_edit.h).
  Op make(std::string name, std::string_view kind, Attributes attributes, std::vector<ValueId> inputs,
          std::vector<ValueId> outputs = {}) const;

  // Appends the op to the graph. The reference is valid until the next one is appended.
  const Op& append(std::string name, std::string_view kind, Attributes attributes,
                   std::vector<ValueId> inputs, std::vector<ValueId> outputs = {});

 private:
  Graph& graph_;
  const OpRegistry& registry_;
  Op common_;
};

}  // namespace recollect
