// engine/runtime/enqueue.h on CUDA streams; `stream` is a cudaStream_t. absent.cpp replaces it in a build
// without the CUDA backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/core/tensor.h"

namespace recollect::cuda {

void copy_bytes(void* to, const void* from, std::size_t bytes, void* stream);
void clear_bytes(void* to, std::size_t bytes, void* stream);
void convert(const Tensor& from, const Tensor& to, void* stream);
void accumulate(const Tensor& from, const Tensor& to, void* stream);
void hash_bytes(const void* data, std::size_t bytes, int64_t* hash, void* stream);
void call_on_host(void (*function)(void*), void* argument, void* stream);
std::shared_ptr<void> make_host_cell(std::size_t bytes);

}  // namespace recollect::cuda
