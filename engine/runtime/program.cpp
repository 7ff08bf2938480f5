#include "engine/runtime/program.h"

namespace recollect {

Program compile(Graph graph, const KernelTable& kernels) {
  Program program;
  program.graph = std::move(graph);
  program.schedule = make_schedule(program.graph);
  for (const Op& op : program.graph.ops()) {
    program.kernels.push_back(kernels.make(OpView{program.graph, op}));
    program.workspaces.push_back(program.kernels.back()->workspace_bytes());
  }
  program.layout = make_layout(program.graph, program.schedule, program.workspaces);
  return program;
}

}  // namespace recollect
