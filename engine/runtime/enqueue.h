// Work that is the same on every backend: done at once where there is no stream, enqueued where there is one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/core/tensor.h"

namespace recollect {

// Between any two of host memory that the device reaches and its own.
void copy_bytes(void* to, const void* from, std::size_t bytes, void* stream);
void clear_bytes(void* to, std::size_t bytes, void* stream);

// Every element rounded to the dtype of `to`; both floating, one of them bf16 or both f32 or wider.
void convert(const Tensor& from, const Tensor& to, void* stream);

// Element by element, `from` added to `to`: both f64 or both f32.
void accumulate(const Tensor& from, const Tensor& to, void* stream);

// A hash of all bytes; any change within one 8-byte word changes it. Backends have their own functions.
void hash_bytes(const void* data, std::size_t bytes, int64_t* hash, void* stream);

// Calls `function` on the host when all earlier work of the stream is done; the stream goes on when it
// returns. It must not throw, nor ask anything of the device.
void call_on_host(void (*function)(void*), void* argument, void* stream);

// A few zeroed bytes of host memory that work on the stream's device can write.
using HostCell = std::shared_ptr<void>;
HostCell make_host_cell(std::size_t bytes, void* stream);

}  // namespace recollect
