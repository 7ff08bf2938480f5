// Loads and stores of activations in kernels. Activations are f32, bf16 or f16 in memory and float in
// registers. Memory is read and written up to 16 bytes at a time; a caller that moves N elements at once
// guarantees their alignment.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <bit>
#include <cstring>
#include <string>

#include "engine/core/dtype.h"
#include "engine/runtime/cuda/launch.h"

namespace recollect::cuda {

// The number of elements in one 16-byte access.
template <typename A>
inline constexpr int kVector = 16 / sizeof(A);

template <int N>
struct Floats {
  float at[N];
  __device__ float& operator[](int i) { return at[i]; }
  __device__ float operator[](int i) const { return at[i]; }
};

// std::bit_cast for CUDA's own types, which are not trivially copyable.
template <typename To, typename From>
__device__ To same_bits(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(static_cast<void*>(&to), &from, sizeof(to));
  return to;
}

// Converts a 32-bit word of memory to and from its elements, in order of address.
template <typename A>
struct Word;

template <>
struct Word<float> {
  static constexpr int kElements = 1;
  static __device__ void widen(uint32_t word, float* to) { to[0] = __uint_as_float(word); }
  static __device__ uint32_t narrow(const float* from) { return __float_as_uint(from[0]); }
};

template <>
struct Word<bf16> {
  static constexpr int kElements = 2;
  static __device__ void widen(uint32_t word, float* to) {
    to[0] = __uint_as_float(word << 16);
    to[1] = __uint_as_float(word & 0xffff0000u);
  }
  static __device__ uint32_t narrow(const float* from) {
    return same_bits<uint32_t>(__floats2bfloat162_rn(from[0], from[1]));
  }
};

template <>
struct Word<f16> {
  static constexpr int kElements = 2;
  static __device__ void widen(uint32_t word, float* to) {
    const float2 both = __half22float2(same_bits<__half2>(word));
    to[0] = both.x;
    to[1] = both.y;
  }
  static __device__ uint32_t narrow(const float* from) {
    return same_bits<uint32_t>(__floats2half2_rn(from[0], from[1]));
  }
};

template <typename A>
__device__ float load_one(const A* from) {
  RECOLLECT_READS(from, sizeof(A));
  float both[Word<A>::kElements];
  if constexpr (sizeof(A) == 4)
    Word<A>::widen(std::bit_cast<uint32_t>(*from), both);
  else
    Word<A>::widen(from->bits, both);
  return both[0];
}

template <typename A>
__device__ void store_one(A* to, float value) {
  RECOLLECT_WRITES(to, sizeof(A));
  const float both[2] = {value, 0.0f};
  const uint32_t word = Word<A>::narrow(both);
  if constexpr (sizeof(A) == 4)
    *to = std::bit_cast<A>(word);
  else
    to->bits = static_cast<uint16_t>(word);
}

// Moves whole words, 16 or 8 bytes at a time. A chunk is an integer, because a struct of four words is not
// always stored at once.
template <int kWords>
using Chunk = std::conditional_t<kWords % 4 == 0, unsigned __int128, uint64_t>;

template <int kWords>
__device__ void load_words(const void* from, uint32_t* words) {
  RECOLLECT_READS(from, 4 * kWords);
  constexpr int kEach = sizeof(Chunk<kWords>) / 4;
#pragma unroll
  for (int i = 0; i < kWords / kEach; ++i) {
    const Chunk<kWords> chunk = static_cast<const Chunk<kWords>*>(from)[i];
#pragma unroll
    for (int j = 0; j < kEach; ++j) words[i * kEach + j] = static_cast<uint32_t>(chunk >> (32 * j));
  }
}

template <int kWords>
__device__ void store_words(void* to, const uint32_t* words) {
  RECOLLECT_WRITES(to, 4 * kWords);
  constexpr int kEach = sizeof(Chunk<kWords>) / 4;
#pragma unroll
  for (int i = 0; i < kWords / kEach; ++i) {
    Chunk<kWords> chunk = 0;
#pragma unroll
    for (int j = 0; j < kEach; ++j) chunk |= static_cast<Chunk<kWords>>(words[i * kEach + j]) << (32 * j);
    static_cast<Chunk<kWords>*>(to)[i] = chunk;
  }
}

template <int N, typename A>
__device__ Floats<N> load(const A* from) {
  Floats<N> x;
  if constexpr (N == 1) {
    x[0] = load_one(from);
  } else {
    constexpr int kWords = N * sizeof(A) / 4, kEach = Word<A>::kElements;
    uint32_t words[kWords];
    load_words<kWords>(from, words);
#pragma unroll
    for (int i = 0; i < kWords; ++i) Word<A>::widen(words[i], x.at + kEach * i);
  }
  return x;
}

template <int N, typename A>
__device__ void store(A* to, const Floats<N>& x) {
  if constexpr (N == 1) {
    store_one(to, x[0]);
  } else {
    constexpr int kWords = N * sizeof(A) / 4, kEach = Word<A>::kElements;
    uint32_t words[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) words[i] = Word<A>::narrow(x.at + kEach * i);
    store_words<kWords>(to, words);
  }
}

// Returns x rounded as if it had been stored as A and loaded again.
template <typename A, int N>
__device__ Floats<N> as_stored(Floats<N> x) {
  constexpr int kEach = Word<A>::kElements;
#pragma unroll
  for (int i = 0; i < N; i += kEach) {
    float word[kEach] = {};
    for (int j = 0; j < kEach && i + j < N; ++j) word[j] = x[i + j];
    Word<A>::widen(Word<A>::narrow(word), word);
    for (int j = 0; j < kEach && i + j < N; ++j) x[i + j] = word[j];
  }
  return x;
}

// Calls f<float>(), f<bf16>() or f<f16>(). For any other dtype throws an Error that names the op kind.
template <typename F>
auto with_activation_type(DType dtype, const char* kind, F f) {
  if (dtype == DType::kF32) return f.template operator()<float>();
  if (dtype == DType::kBF16) return f.template operator()<bf16>();
  if (dtype == DType::kF16) return f.template operator()<f16>();
  throw Error(ExitCode::kConfiguration,
              std::string("the cuda backend has no ") + kind + " in " + std::string(name_of(dtype)) +
                  ", only in f32, bf16 and f16",
              "use another training.precision, or device.backend: reference");
}

// The same with f<A, N>(): N elements are 16 bytes if `width` is a multiple of that, else N is 1.
template <typename F>
auto with_row_vectors(DType dtype, int64_t width, const char* kind, F f) {
  return with_activation_type(dtype, kind, [&]<typename A>() {
    if (row_vector(dtype, width) == kVector<A>) return f.template operator()<A, kVector<A>>();
    return f.template operator()<A, 1>();
  });
}

}  // namespace recollect::cuda
