// A Program is a training step, ready to run: the graph, the waits between its streams, a kernel for every
// op, and an address for every value. It is compiled once per model, batch shape and parallel layout and does
// not change afterwards.
#pragma once

#include <memory>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/runtime/kernel.h"
#include "engine/runtime/layout.h"
#include "engine/runtime/schedule.h"

namespace recollect {

struct Program {
  Graph graph;
  Schedule schedule;
  std::vector<std::unique_ptr<Kernel>> kernels;  // by op
  std::vector<uint64_t> workspaces;              // by op, bytes
  Layout layout;

  const MemoryLedger& predicted() const { return layout.ledger; }
};

// Reserves no memory for values; kernels may prepare themselves. `larger`: see make_layout().
Program compile(Graph graph, const KernelTable& kernels, const Layout* larger = nullptr);

// Returns the workspace bytes of each op's kernel. Only one kernel of each kind and shape is made to ask it.
std::vector<uint64_t> workspaces_of(const Graph& graph, const KernelTable& kernels);

// Compiles the same program without its kernels. It predicts memory and time but cannot run.
Program compile_without_kernels(Graph graph, const KernelTable& kernels, const Layout* larger = nullptr);

}  // namespace recollect
