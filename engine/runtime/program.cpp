#include "engine/runtime/program.h"

#include <bit>
#include <string>
#include <unordered_map>
#include <utility>

namespace recollect {

namespace {

template <typename T>
void append_bytes(std::string& text, const T& value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// A key that is equal for ops whose kernels are made from the same data: kind, stream, attributes, shapes,
// dtypes.
std::string signature(const OpView& view) {
  std::string text = view.op.def->name;
  append_bytes(text, view.op.stream);
  for (const auto& [name, value] : view.attributes().items()) {
    text += name;
    append_bytes(text, value.index());
    if (const auto* word = std::get_if<std::string>(&value))
      text += *word + '\0';
    else
      append_bytes(text, std::holds_alternative<double>(value)
                             ? std::bit_cast<int64_t>(std::get<double>(value))
                             : std::get<int64_t>(value));
  }
  for (const auto* list : {&view.op.inputs, &view.op.outputs}) {
    append_bytes(text, list->size());
    for (ValueId v : *list) {
      const Shape shape = v == kNone ? Shape{} : view.graph.value(v).shape;
      append_bytes(text, v == kNone ? -1 : shape.rank());
      for (int i = 0; i < shape.rank(); ++i) append_bytes(text, shape[i]);
      if (v != kNone) append_bytes(text, view.graph.value(v).dtype);
    }
  }
  return text;
}

}  // namespace

Program compile(Graph graph, const KernelTable& kernels, const Layout* larger) {
  Program program;
  program.graph = std::move(graph);
  program.schedule = make_schedule(program.graph);
  for (const Op& op : program.graph.ops()) {
    program.kernels.push_back(kernels.make(OpView{program.graph, op}));
    program.workspaces.push_back(program.kernels.back()->workspace_bytes());
  }
  program.layout = make_layout(program.graph, program.schedule, program.workspaces, larger);
  return program;
}

std::vector<uint64_t> workspaces_of(const Graph& graph, const KernelTable& kernels) {
  std::vector<uint64_t> workspaces;
  std::unordered_map<std::string, uint64_t> known;
  for (const Op& op : graph.ops()) {
    const OpView view{graph, op};
    const auto [workspace, unknown] = known.try_emplace(signature(view), 0);
    if (unknown) workspace->second = kernels.make(view)->workspace_bytes();
    workspaces.push_back(workspace->second);
  }
  return workspaces;
}

Program compile_without_kernels(Graph graph, const KernelTable& kernels, const Layout* larger) {
  Program program;
  program.graph = std::move(graph);
  program.schedule = make_schedule(program.graph);
  program.workspaces = workspaces_of(program.graph, kernels);
  program.layout = make_layout(program.graph, program.schedule, program.workspaces, larger);
  return program;
}

}  // namespace recollect
