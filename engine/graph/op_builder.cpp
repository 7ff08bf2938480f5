#include "engine/graph/op_builder.h"

namespace recollect {

Op OpBuilder::make(std::string name, std::string_view kind, Attributes attributes,
                   std::vector<ValueId> inputs, std::vector<ValueId> outputs) const {
  Op op = common_;
  op.def = registry_.find(kind);
  op.name = std::move(name);
  op.attributes = std::move(attributes);
  op.inputs = std::move(inputs);
  op.outputs = std::move(outputs);
  return op;
}

const Op& OpBuilder::append(std::string name, std::string_view kind, Attributes attributes,
                            std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
  return graph_.op(graph_.add_op(
      make(std::move(name), kind, std::move(attributes), std::move(inputs), std::move(outputs))));
}

}  // namespace recollect
