// A fake CUDA of its own for each test, and that everything was given back to it.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "engine/runtime/cuda/event.h"
#include "engine/runtime/executor.h"
#include "tests/gpu/fake_cuda/world.h"

namespace recollect::fake_cuda {

// A model that trains in milliseconds.
inline constexpr const char* kTinyOnCuda = R"(
model: {type: gpt2, vocab_size: 37, n_positions: 9, n_embd: 16, n_layer: 3, n_head: 2, n_inner: 24,
        initializer_range: 0.2, resid_pdrop: 0.1, embd_pdrop: 0.1, attn_pdrop: 0.1}
device: {backend: cuda, threads: 1}
training: {micro_batch_size: 1, max_steps: 2, seed: 3, precision: fp32}
optimizer: {name: adamw, learning_rate: 1e-2, weight_decay: 0.1}
data: {format: random, sequence_length: 5}
)";

// Groups of query heads share keys and values.
inline constexpr const char* kTinyLlamaOnCuda = R"(
model: {type: llama, vocab_size: 37, hidden_size: 16, num_hidden_layers: 3, num_attention_heads: 4,
        num_key_value_heads: 2, head_dim: 8, intermediate_size: 24, max_position_embeddings: 9,
        attention_dropout: 0.1, initializer_range: 0.2}
device: {backend: cuda, threads: 1}
training: {micro_batch_size: 2, max_steps: 3, seed: 3}
optimizer: {name: adamw, learning_rate: 1e-2, weight_decay: 0.1}
data: {format: random, sequence_length: 7}
)";

// Asks in the middle of a run for what no capture allows.
class Impatient final : public ExecutorProbe {
 public:
  void after_op(const Executor&, OpId id) override {
    if (id == 3) cudaDeviceSynchronize();
  }
};

inline constexpr RunOrder kOrders[] = {RunOrder::kLate, RunOrder::kEarly, RunOrder::kRandom};

class FakeCuda : public ::testing::Test {
 protected:
  void SetUp() override { restart({}); }
  void TearDown() override {
    cudaGetLastError();
    EXPECT_EQ(world().what_is_left(), "");
    restart({});
  }
};

// Memory of a device, or pinned, as numbers. Its owner synchronises what uses it.
template <typename T>
class Numbers {
 public:
  explicit Numbers(std::size_t count, Place place = Place::kDevice) : count_(count), place_(place) {
    void* memory = nullptr;
    cuda::check(place == Place::kDevice ? cudaMalloc(&memory, count * sizeof(T))
                                        : cudaHostAlloc(&memory, count * sizeof(T), cudaHostAllocDefault),
                "a test's memory");
    data_ = static_cast<T*>(memory);
  }
  ~Numbers() { (void)(place_ == Place::kDevice ? cudaFree(data_) : cudaFreeHost(data_)); }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

  T* data() const { return data_; }
  std::size_t bytes() const { return count_ * sizeof(T); }
  // When all that is on `stream` is done.
  std::vector<T> read(const cuda::Stream& stream) const {
    std::vector<T> values(count_);
    cuda::check(cudaMemcpyAsync(values.data(), data_, bytes(), cudaMemcpyDefault, stream.get()), "reading");
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
  Place place_;
};

// On a stream: every number becomes `value`.
template <typename T>
void fill(const Numbers<T>& numbers, T value, const cuda::Stream& stream) {
  cuda::check(enqueue(stream.get(),
                      [data = numbers.data(), count = numbers.bytes() / sizeof(T), value] {
                        for (std::size_t i = 0; i < count; ++i) data[i] = value;
                      }),
              "filling");
}

inline void copy(const Numbers<int>& to, const Numbers<int>& from, const cuda::Stream& stream) {
  cuda::check(cudaMemcpyAsync(to.data(), from.data(), from.bytes(), cudaMemcpyDefault, stream.get()),
              "copying");
}

}  // namespace recollect::fake_cuda
