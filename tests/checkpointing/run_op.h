// One kernel on the CPU, its operands in vectors.
#pragma once

#include <cstring>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/runtime/kernel.h"

namespace recollect::test {

template <typename T>
Tensor tensor_of(std::vector<T>& data, Shape shape, DType dtype) {
  return {data.data(), shape, dtype};
}

inline void run_op(const KernelTable& kernels, const Graph& graph, const Op& op, std::vector<Tensor> in,
                   std::vector<Tensor> out) {
  const std::unique_ptr<Kernel> kernel = kernels.make(OpView{graph, op});
  std::vector<std::byte> workspace(kernel->workspace_bytes() + 64);
  void* start = workspace.data();
  std::size_t room = workspace.size();
  std::align(64, kernel->workspace_bytes(), start, room);
  const RunState state;
  const KernelArgs args{.in = in, .out = out, .workspace = static_cast<std::byte*>(start), .state = &state};
  kernel->prepare(args);
  kernel->run(args);
}

}  // namespace recollect::test
