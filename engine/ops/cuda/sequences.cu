// Positions that padding has no part in, and means over the tokens of a sequence: a warp per row. A rank may hold some tokens
// only: the sum of the ranks' parts is the mean.
#include "engine/ops/cuda/row_kernel.h"
#include "engine/ops/sequences.h"

namespace recollect::cuda {

namespace {

constexpr int kWarps = 8;  // of a block
constexpr int kThreads = 256;

__device__ int64_t warp_index() { return blockIdx.x * int64_t{kWarps} + threadIdx.y; }

__global__ void __launch_bounds__(kThreads)
    position_tokens(const int32_t* __restrict__ ids, const int32_t* __restrict__ places,
                    int32_t* __restrict__ out, int64_t tokens, int64_t length, int32_t padding_id) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (i < tokens) out[i] = padded_position(ids, i, places ? places[i] : i % length, padding_id);
}

class TokenPositions : public Kernel {
 public:
  explicit TokenPositions(const OpView& view)
      : tokens_(view.in(0).shape.elements()),
        length_(view.in(0).shape[1]),
        padding_id_(static_cast<int32_t>(view.attributes().integer("padding_id"))) {}

  void run(const KernelArgs& args) override {
    const int32_t* places = args.in.size() > 1 ? args.in[1].as<int32_t>() : nullptr;
    launch(position_tokens, grid_of(ceil_div(tokens_, int64_t{kThreads})), dim3(kThreads), 0, args.stream,
           args.in[0].as<int32_t>(), places, args.out[0].as<int32_t>(), tokens_, length_, padding_id_);
  }

 private:
  int64_t tokens_, length_;
  int32_t padding_id_;
};

template <typename A, int N>
__global__ void __launch_bounds__(kWarp* kWarps)
    average_rows(const Sequences sequences, const A* __restrict__ x, A* __restrict__ y, int64_t count,
                 int64_t rows, int64_t first_token, int64_t width) {
  const int64_t i = warp_index();
  if (i >= count) return;
  const int64_t tokens = sequences.count(i), begin = sequences.first(i) - first_token;
  const int64_t first = begin < 0 ? 0 : begin, last = begin + tokens < rows ? begin + tokens : rows;
  const float share = tokens > 0 ? 1.0f / static_cast<float>(tokens) : 0.0f;
  for (int64_t c = threadIdx.x * N; c < width; c += kWarp * N) {
    Floats<N> sum{};
    for (int64_t row = first; row < last; ++row) {
      const Floats<N> in = load<N>(x + row * width + c);
#pragma unroll
      for (int e = 0; e < N; ++e) sum[e] += in[e];
    }
#pragma unroll
    for (int e = 0; e < N; ++e) sum[e] *= share;
    store<N>(y + i * width + c, sum);
  }
}

template <typename A, int N>
__global__ void __launch_bounds__(kWarp* kWarps)
    spread_rows(const Sequences sequences, const A* __restrict__ dy, A* __restrict__ dx, int64_t count,
                int64_t rows, int64_t first_token, int64_t width) {
  const int64_t row = warp_index();
  if (row >= rows) return;
  const int64_t i = sequences.of_token(first_token + row, count);
  const float share = i < 0 ? 0.0f : 1.0f / static_cast<float>(sequences.count(i));
  for (int64_t c = threadIdx.x * N; c < width; c += kWarp * N) {
    Floats<N> out = i < 0 ? Floats<N>{} : load<N>(dy + i * width + c);
#pragma unroll
    for (int e = 0; e < N; ++e) out[e] *= share;
    store<N>(dx + row * width + c, out);
  }
}

class OfSequences : public Kernel {
 public:
  explicit OfSequences(const OpView& view)
      : samples_(view.attributes().integer("samples")),
        length_(view.attributes().integer("sequence_length")),
        first_token_(view.attributes().integer("first_token")) {}

 protected:
  Sequences sequences(const KernelArgs& args) const {
    const bool packed = args.in.size() > 2;
    const int32_t* listed = args.in[1].as<int32_t>();
    return {packed ? nullptr : listed, packed ? listed : nullptr, packed ? args.in[2].as<int32_t>() : nullptr,
            length_, samples_ * length_};
  }
  int64_t samples_, length_, first_token_;
};

template <typename A, int N>
class MeanTokens : public OfSequences {
 public:
  using OfSequences::OfSequences;
  void run(const KernelArgs& args) override {
    const int64_t count = args.out[0].shape[0];
    launch(average_rows<A, N>, grid_of(ceil_div(count, int64_t{kWarps})), dim3(kWarp, kWarps), 0, args.stream,
           this->sequences(args), args.in[0].as<A>(), args.out[0].as<A>(), count, args.in[0].shape[0],
           this->first_token_, args.out[0].shape[1]);
  }
};

template <typename A, int N>
class MeanTokensBackward : public OfSequences {
 public:
  using OfSequences::OfSequences;
  void run(const KernelArgs& args) override {
    const int64_t rows = args.out[0].shape[0];
    launch(spread_rows<A, N>, grid_of(ceil_div(rows, int64_t{kWarps})), dim3(kWarp, kWarps), 0, args.stream,
           this->sequences(args), args.in[0].as<A>(), args.out[0].as<A>(), args.in[0].shape[0], rows,
           this->first_token_, args.out[0].shape[1]);
  }
};

}  // namespace

void register_sequences(KernelTable& table) {
  table.add("token_positions",
            [](const OpView& view) -> KernelPointer { return std::make_unique<TokenPositions>(view); });
  add_row_kernel<MeanTokens>(table, "mean_tokens");
  add_row_kernel<MeanTokensBackward>(table, "mean_tokens_backward");
}

}  // namespace recollect::cuda
