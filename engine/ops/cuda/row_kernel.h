// Registers kernels whose types follow from one input alone.
#pragma once

#include "engine/ops/cuda/kernels.h"
#include "engine/runtime/cuda/element.h"

namespace recollect::cuda {

// Makes K<A, N>, where the input of that number has the dtype A and rows of whole vectors of N elements.
template <template <typename, int> class K>
KernelPointer make_row_kernel(const OpView& view, const char* kind, int input = 0) {
  const Value& value = view.in(input);
  return with_row_vectors(value.dtype, value.shape[1], kind, [&]<typename A, int N>() -> KernelPointer {
    return std::make_unique<K<A, N>>(view);
  });
}

template <template <typename, int> class K>
void add_row_kernel(KernelTable& table, const char* kind, int input = 0) {
  table.add(kind, [kind, input](const OpView& view) { return make_row_kernel<K>(view, kind, input); });
}

// The same for K<A>.
template <template <typename> class K>
void add_kernel(KernelTable& table, const char* kind) {
  table.add(kind, [kind](const OpView& view) {
    return with_activation_type(view.in(0).dtype, kind,
                                [&]<typename A>() -> KernelPointer { return std::make_unique<K<A>>(view); });
  });
}

}  // namespace recollect::cuda
