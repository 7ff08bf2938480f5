#include "engine/runtime/enqueue.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include <omp.h>

#include "engine/core/hash.h"
#include "engine/runtime/cuda/enqueue.h"

namespace recollect {

namespace {

template <typename From, typename To>
void convert_elements(const Tensor& from, const Tensor& to) {
  const From* in = from.as<From>();
  To* out = to.as<To>();
  const int64_t count = from.elements();
  const auto convert = [in, out](int64_t i) {
    if constexpr (sizeof(From) == 2 || sizeof(To) == 2)
      out[i] = static_cast<To>(static_cast<float>(in[i]));
    else
      out[i] = static_cast<To>(in[i]);
  };
  if (omp_get_max_threads() == 1) {  // because OpenMP would allocate a team even for one thread
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) convert(i);
    return;
  }
#pragma omp parallel for simd
  for (int64_t i = 0; i < count; ++i) convert(i);
}

template <typename From>
void convert_from(const Tensor& from, const Tensor& to) {
  switch (to.dtype) {
    case DType::kF64:
      return convert_elements<From, double>(from, to);
    case DType::kF32:
      return convert_elements<From, float>(from, to);
    case DType::kBF16:
      return convert_elements<From, bf16>(from, to);
    default:
      throw Error(ExitCode::kInternal, "no conversion to " + std::string(name_of(to.dtype)));
  }
}

template <typename T>
void add_elements(const Tensor& from, const Tensor& to) {
  const T* in = from.as<T>();
  T* out = to.as<T>();
#pragma omp simd
  for (int64_t i = 0; i < from.elements(); ++i) out[i] += in[i];
}

}  // namespace

void copy_bytes(void* to, const void* from, std::size_t bytes, void* stream) {
  if (bytes == 0) return;
  if (stream) return cuda::copy_bytes(to, from, bytes, stream);
  std::memcpy(to, from, bytes);
}

void clear_bytes(void* to, std::size_t bytes, void* stream) {
  if (bytes == 0) return;
  if (stream) return cuda::clear_bytes(to, bytes, stream);
  std::memset(to, 0, bytes);
}

void convert(const Tensor& from, const Tensor& to, void* stream) {
  require(from.shape == to.shape, "a conversion keeps the shape");
  if (stream) return cuda::convert(from, to, stream);
  switch (from.dtype) {
    case DType::kF64:
      return convert_from<double>(from, to);
    case DType::kF32:
      return convert_from<float>(from, to);
    case DType::kBF16:
      return convert_from<bf16>(from, to);
    default:
      throw Error(ExitCode::kInternal, "no conversion from " + std::string(name_of(from.dtype)));
  }
}

void accumulate(const Tensor& from, const Tensor& to, void* stream) {
  require(from.shape == to.shape && from.dtype == to.dtype &&
              (from.dtype == DType::kF64 || from.dtype == DType::kF32),
          "what is added has the shape and the dtype, f64 or f32, of what it is added to");
  if (stream) return cuda::accumulate(from, to, stream);
  from.dtype == DType::kF64 ? add_elements<double>(from, to) : add_elements<float>(from, to);
}

void hash_bytes(const void* data, std::size_t bytes, int64_t* hash, void* stream) {
  if (stream) return cuda::hash_bytes(data, bytes, hash, stream);
  *hash = static_cast<int64_t>(hash_bytes(data, bytes));
}

void call_on_host(void (*function)(void*), void* argument, void* stream) {
  if (stream) return cuda::call_on_host(function, argument, stream);
  function(argument);
}

HostCell make_host_cell(std::size_t bytes, void* stream) {
  if (stream) return cuda::make_host_cell(bytes);
  void* memory = std::calloc(1, bytes);
  if (!memory) throw std::bad_alloc();
  return {memory, std::free};
}

}  // namespace recollect
