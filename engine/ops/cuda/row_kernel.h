// Registers kernels whose template types follow from one input.
#pragma once

#include "engine/ops/cuda/kernels.h"
#include "engine/runtime/cuda/element.h"

namespace recollect::cuda {

// Makes K<A, N>: A is the dtype of input number `input`, and N the vector length that divides its rows.
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

// Registers K<A>, where A is the dtype of the first input.
template <template <typename> class K>
void add_kernel(KernelTable& table, const char* kind) {
  table.add(kind, [kind](const OpView& view) {
    return with_activation_type(view.in(0).dtype, kind,
                                [&]<typename A>() -> KernelPointer { return std::make_unique<K<A>>(view); });
  });
}

}  // namespace recollect::cuda
