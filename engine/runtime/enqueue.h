// Basic operations that every backend has. With a null `stream` they run at once on the CPU; otherwise they
// are enqueued on that device stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/core/tensor.h"

namespace recollect {

// Each pointer is device memory or host memory that the device can reach.
void copy_bytes(void* to, const void* from, std::size_t bytes, void* stream);
void clear_bytes(void* to, std::size_t bytes, void* stream);

// Converts each element to the dtype of `to`, with rounding. Both dtypes are floating point, and either one
// of them is bf16 or both are f32 or wider.
void convert(const Tensor& from, const Tensor& to, void* stream);

// Adds `from` to `to`, element by element. Both are f64 or both are f32.
void accumulate(const Tensor& from, const Tensor& to, void* stream);

// Writes a hash of all bytes to `*hash`. A change within a single 8-byte word always changes it. Each backend
// has its own hash function, so hashes of different backends cannot be compared.
void hash_bytes(const void* data, std::size_t bytes, int64_t* hash, void* stream);

// Calls `function` on the host once all earlier work on the stream is done. The stream continues when it
// returns. The function must not throw and must not call the device.
void call_on_host(void (*function)(void*), void* argument, void* stream);

// A few zeroed bytes of host memory that work on the stream's device can write.
using HostCell = std::shared_ptr<void>;
HostCell make_host_cell(std::size_t bytes, void* stream);

}  // namespace recollect
