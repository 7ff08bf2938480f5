// Float8: encodes values as 8-bit codes with one scale per tensor, decodes them, and multiplies coded
// matrices with cuBLASLt. The scale comes from the largest magnitude, which is found in parts of fixed size;
// a maximum is the same in any order. bias_gelu_quantise, swiglu_quantise and swiglu_backward_quantise find
// it while they write their result, as norms do (layer_norm.cu), which saves one read of memory.
#include <cuda_fp8.h>

#include "engine/ops/cuda/codes.h"
#include "engine/ops/cuda/columns.h"
#include "engine/ops/cuda/gelu.h"
#include "engine/ops/cuda/gemm.h"
#include "engine/ops/cuda/linear_shapes.h"

namespace recollect::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kPart = kQuantisedPart;
constexpr int kTile = 64;  // a block writes the codes of kTile x kTile elements
constexpr int kEach = 4;   // a thread writes those of kEach x kEach
constexpr int kWords = kTile / kEach;

template <typename A>
__global__ void __launch_bounds__(kThreads) find_largest(const A* x, int64_t elements, uint32_t* parts) {
  constexpr int kN = kVector<A>;
  const int64_t begin = blockIdx.x * kPart, left = elements - begin, count = left < kPart ? left : kPart;
  uint32_t most = 0;
  for (int64_t i = threadIdx.x * kN; i + kN <= count; i += kThreads * kN)
    most = larger_bits(most, load<kN>(x + begin + i));
  const int64_t rest = count / kN * kN + threadIdx.x;
  if (rest < count) most = LargerBits::combine(most, magnitude_bits(load_one(x + begin + rest)));
  most = reduce_block<LargerBits>(most, uint32_t{0});
  if (threadIdx.x == 0) parts[blockIdx.x] = most;
}

// gelu(x + bias).
template <typename A, int N, typename Form>
struct Gelu {
  using Operands = Floats<N>;
  static constexpr int kParts = 1,
                       kAhead = 2;  // runs of `width` per row of the result; rows read ahead
  const A* x;
  const float* bias;
  int64_t width;

  Gelu(const KernelArgs& args, int64_t columns)
      : x(args.in[0].as<A>()), bias(args.in[1].as<float>()), width(columns) {}
  __device__ Floats<N> constants(int64_t column) const { return load<N>(bias + column); }
  __device__ Operands read(int64_t row, int64_t column) const { return load<N>(x + row * width + column); }
  __device__ void make(const Operands& in, const Floats<N>& shift, Floats<N>* out) const {
#pragma unroll
    for (int i = 0; i < N; ++i) out[0][i] = Form::value(in[i] + shift[i]);
  }
};

// SwiGLU: silu(gate) * up. A row of x is gate | up, each of `width` elements.
template <typename A, int N>
struct GateAndUp {
  struct Operands {
    Floats<N> gate, up;
  };
  static constexpr int kParts = 1, kAhead = 2;
  const A* x;
  int64_t width;

  GateAndUp(const KernelArgs& args, int64_t columns) : x(args.in[0].as<A>()), width(columns) {}
  __device__ int constants(int64_t) const { return 0; }
  __device__ Operands read(int64_t row, int64_t column) const {
    const A* from = x + 2 * row * width + column;
    return {load<N>(from), load<N>(from + width)};
  }
  __device__ void make(const Operands& in, int, Floats<N>* out) const {
#pragma unroll
    for (int i = 0; i < N; ++i) out[0][i] = in.gate[i] * sigmoid(in.gate[i]) * in.up[i];
  }
};

// The gradient of SwiGLU with respect to x; its rows have the same layout: dgate | dup.
template <typename A, int N>
struct GateAndUpBackward {
  struct Operands {
    Floats<N> dy, gate, up;
  };
  static constexpr int kParts = 2, kAhead = 1;
  const A *dy, *x;
  int64_t width;

  GateAndUpBackward(const KernelArgs& args, int64_t columns)
      : dy(args.in[0].as<A>()), x(args.in[1].as<A>()), width(columns) {}
  __device__ int constants(int64_t) const { return 0; }
  __device__ Operands read(int64_t row, int64_t column) const {
    const A* from = x + 2 * row * width + column;
    return {load<N>(dy + row * width + column), load<N>(from), load<N>(from + width)};
  }
  __device__ void make(const Operands& in, int, Floats<N>* out) const {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float s = sigmoid(in.gate[i]), silu = in.gate[i] * s;
      out[0][i] = in.dy[i] * in.up[i] * (s + silu * (1.0f - s));
      out[1][i] = in.dy[i] * silu;
    }
  }
};

// Computes the activation `from`, stores it, and finds the largest magnitude of what is stored, one number
// per block. Walks as ColumnWalk says, with a one-dimensional block.
template <typename A, int N, typename From>
__global__ void __launch_bounds__(kThreads)
    activate(const From from, A* y, int64_t rows, int64_t units, uint32_t* parts) {
  constexpr int kParts = From::kParts, kAhead = From::kAhead;
  const int64_t unit = blockIdx.y * int64_t{kWarp} + threadIdx.x % kWarp, column = unit * N;
  const int64_t step = gridDim.x * int64_t{ColumnWalk::kRows};
  uint32_t most = 0;
  if (unit < units) {
    const auto constants = from.constants(column);
    const auto put = [&](int64_t row, const typename From::Operands& in) {
      Floats<N> made[kParts];
      from.make(in, constants, made);
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const Floats<N> stored = as_stored<A>(made[part]);
        store<N>(y + (row * kParts + part) * from.width + column, stored);
        most = larger_bits(most, stored);
      }
    };
    int64_t row = blockIdx.x * int64_t{ColumnWalk::kRows} + threadIdx.x / kWarp;
    for (; row + (kAhead - 1) * step < rows; row += kAhead * step) {
      typename From::Operands operands[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) operands[i] = from.read(row + i * step, column);
#pragma unroll
      for (int i = 0; i < kAhead; ++i) put(row + i * step, operands[i]);
    }
    for (; row < rows; row += step) put(row, from.read(row, column));
  }
  most = reduce_block<LargerBits>(most, uint32_t{0});
  if (threadIdx.x == 0) parts[blockIdx.y * int64_t{gridDim.x} + blockIdx.x] = most;
}

__global__ void __launch_bounds__(kThreads)
    make_scale(const uint32_t* parts, int64_t count, float most, float* factor, float* scale) {
  uint32_t largest = 0;
#pragma unroll 8
  for (int64_t i = threadIdx.x; i < count; i += kThreads) largest = LargerBits::combine(largest, parts[i]);
  largest = reduce_block<LargerBits>(largest, uint32_t{0});
  if (threadIdx.x > 0) return;
  const Float8Scale made = float8_scale(largest, most);
  *factor = made.factor;
  *scale = made.scale;
}

// Destinations of the codes; null if that copy is not wanted.
struct CodeCopies {
  uint8_t *plain, *transposed;
  bool e4m3;

  __device__ uint32_t code(float number) const {
    return __nv_cvt_float_to_fp8(number, __NV_SATFINITE, e4m3 ? __NV_E4M3 : __NV_E5M2);
  }
};

// Stores up to four neighbouring codes.
template <bool kWhole>
__device__ void store_codes(uint8_t* to, uint32_t codes, int64_t count) {
  if constexpr (kWhole) {
    RECOLLECT_WRITES(to, kEach);
    *reinterpret_cast<uint32_t*>(to) = codes;
  } else {
    for (int i = 0; i < kEach && i < count; ++i) {
      RECOLLECT_WRITES(to + i, 1);
      to[i] = static_cast<uint8_t>(codes >> (8 * i));
    }
  }
}

// A thread encodes four columns of four rows. The transposed copy goes through shared memory, so that both
// copies are written in rows. kWhole: the numbers of rows and columns are multiples of four.
template <typename A, bool kWhole>
__global__ void __launch_bounds__(kThreads)
    write_codes(const A* x, const float* factor, const CodeCopies to, int64_t rows, int64_t columns) {
  RECOLLECT_SHARED(words, uint32_t[kTile][kWords + 1]);  // per column: words of the codes of four rows
  const int across = threadIdx.x % kWords, down = threadIdx.x / kWords;
  const int64_t first_row = blockIdx.x * int64_t{kTile}, first_column = blockIdx.y * int64_t{kTile};
  const int64_t column = first_column + across * kEach, left = columns - column;
  const float times = *factor;
  uint32_t down_words[kEach] = {};
  for (int r = 0; r < kEach; ++r) {
    const int64_t row = first_row + down * kEach + r;
    if (row >= rows || left <= 0) break;
    const A* from = x + row * columns + column;
    uint32_t word = 0;
    Floats<kEach> numbers{};
    if constexpr (kWhole) {
      numbers = load<kEach>(from);
    } else {
#pragma unroll
      for (int c = 0; c < kEach; ++c)
        if (c < left) numbers[c] = load_one(from + c);
    }
#pragma unroll
    for (int c = 0; c < kEach; ++c) {
      const uint32_t code = to.code(numbers[c] * times);
      word |= code << (8 * c);
      down_words[c] |= code << (8 * r);
    }
    if (to.plain) store_codes<kWhole>(to.plain + row * columns + column, word, left);
  }
  if (!to.transposed) return;
#pragma unroll
  for (int c = 0; c < kEach; ++c) words[across * kEach + c][down] = down_words[c];
  __syncthreads();
  for (int turn = 0; turn < kEach; ++turn) {
    const int inside = turn * kWords + down;
    const int64_t of = first_column + inside, row = first_row + across * kEach;
    if (of < columns && row < rows)
      store_codes<kWhole>(to.transposed + of * rows + row, words[inside][across], rows - row);
  }
}

}  // namespace

template <typename A>
void CodeWriter<A>::write(const KernelArgs& args, const A* x) const {
  auto* factor = reinterpret_cast<float*>(args.workspace);
  launch(make_scale, dim3(1), dim3(kThreads), 0, args.stream, parts(args), parts_,
         e4m3_ ? float8::E4M3::kMost : float8::E5M2::kMost, factor, args.out.back().template as<float>());
  const auto codes = args.out.last(outputs_);
  const auto bytes_of = [&](std::size_t output) { return static_cast<uint8_t*>(codes[output].data); };
  const CodeCopies to{.plain = plain_ ? bytes_of(transposed_ ? 1 : 0) : nullptr,
                      .transposed = transposed_ ? bytes_of(0) : nullptr,
                      .e4m3 = e4m3_};
  const dim3 grid = grid_of(ceil_div(rows_, kTile), ceil_div(columns_, kTile));
  const bool whole = rows_ % kEach == 0 && columns_ % kEach == 0;
  launch(whole ? write_codes<A, true> : write_codes<A, false>, grid, dim3(kThreads), 0, args.stream, x,
         factor, to, rows_, columns_);
}

template void CodeWriter<float>::write(const KernelArgs&, const float*) const;
template void CodeWriter<bf16>::write(const KernelArgs&, const bf16*) const;
template void CodeWriter<f16>::write(const KernelArgs&, const f16*) const;

namespace {

template <typename A>
class Quantise : public CodeWriter<A> {
 public:
  explicit Quantise(const OpView& view) : CodeWriter<A>(view, view.in(0).shape, parts_of_value(view)) {}

  void run(const KernelArgs& args) override {
    const A* x = args.in[0].as<A>();
    launch(find_largest<A>, grid_of(this->parts_), dim3(kThreads), 0, args.stream, x,
           this->rows_ * this->columns_, this->parts(args));
    this->write(args, x);
  }
};

template <typename A, int N, typename From>
class ActivateAndQuantise : public CodeWriter<A> {
 public:
  explicit ActivateAndQuantise(const OpView& view)
      : ActivateAndQuantise(view, walk_of_activation(view, From::kParts)) {}

  void run(const KernelArgs& args) override {
    A* y = args.out[0].as<A>();
    launch(activate<A, N, From>, grid_of(walk_), dim3(kThreads), 0, args.stream, From(args, walk_.width), y,
           this->rows_, walk_.units, this->parts(args));
    this->write(args, y);
  }

 private:
  ActivateAndQuantise(const OpView& view, const ColumnWalk& walk)
      : CodeWriter<A>(view, view.out(0).shape, parts_of(walk)), walk_(walk) {}

  ColumnWalk walk_;
};

KernelPointer make_gelu_quantise(const OpView& view) {
  return with_row_vectors(view.in(0).dtype, view.out(0).shape[1], "bias_gelu_quantise",
                          [&]<typename A, int N>() -> KernelPointer {
                            if (view.attributes().text("form") == "erf")
                              return std::make_unique<ActivateAndQuantise<A, N, Gelu<A, N, GeluErf>>>(view);
                            return std::make_unique<ActivateAndQuantise<A, N, Gelu<A, N, GeluTanh>>>(view);
                          });
}

// `width` is the width of the gate, half of a row that contains gate | up.
template <template <typename, int> class From>
KernelPointer make_swiglu_quantise(const OpView& view, int64_t width) {
  return with_row_vectors(view.in(0).dtype, width, "swiglu_quantise",
                          [&]<typename A, int N>() -> KernelPointer {
                            return std::make_unique<ActivateAndQuantise<A, N, From<A, N>>>(view);
                          });
}

// y = code * scale. A thread decodes as many codes as fit in one vector store.
template <typename A>
__global__ void __launch_bounds__(kThreads)
    widen_codes(const uint8_t* codes, const float* scale, A* y, int64_t elements, bool e4m3) {
  constexpr int kN = kVector<A>;
  const int64_t begin = (blockIdx.x * int64_t{kThreads} + threadIdx.x) * kN, left = elements - begin;
  if (left <= 0) return;
  const __nv_fp8_interpretation_t format = e4m3 ? __NV_E4M3 : __NV_E5M2;
  const auto widen = [&](uint32_t two, float* to) {
    Word<f16>::widen(same_bits<uint32_t>(__nv_cvt_fp8x2_to_halfraw2(static_cast<uint16_t>(two), format)), to);
  };
  const float times = *scale;
  Floats<kN> numbers;
  if (left >= kN) {
#pragma unroll
    for (int word = 0; word < kN / 4; ++word) {
      RECOLLECT_READS(codes + begin + 4 * word, 4);
      const uint32_t four = reinterpret_cast<const uint32_t*>(codes + begin)[word];
      widen(four, numbers.at + 4 * word);
      widen(four >> 16, numbers.at + 4 * word + 2);
    }
#pragma unroll
    for (int i = 0; i < kN; ++i) numbers[i] *= times;
    store<kN>(y + begin, numbers);
    return;
  }
  for (int i = 0; i < left; ++i) {
    RECOLLECT_READS(codes + begin + i, 1);
    float both[2];
    widen(codes[begin + i], both);
    store_one(y + begin + i, both[0] * times);
  }
}

template <typename A>
class Dequantise : public Kernel {
 public:
  void run(const KernelArgs& args) override {
    const Tensor& codes = args.in[0];
    const int64_t threads = ceil_div(codes.elements(), int64_t{kVector<A>});
    launch(widen_codes<A>, grid_of(ceil_div(threads, kThreads)), dim3(kThreads), 0, args.stream,
           static_cast<const uint8_t*>(codes.data), args.in[1].as<float>(), args.out[0].as<A>(),
           codes.elements(), codes.dtype == DType::kE4M3);
  }
};

__global__ void __launch_bounds__(kThreads)
    add_bias(const float* bias, float* y, int64_t elements, int64_t columns) {
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (i < elements) store_one(y + i, load_one(y + i) + load_one(bias + i % columns));
}

// cuBLASLt cannot add an f32 bias here, so a separate kernel adds it after the product.
class Float8Product : public Kernel {
 public:
  Float8Product(const GemmShape& shape, bool adds_bias, Libraries* libraries)
      : shape_(shape), adds_bias_(adds_bias), gemm_(shape, libraries) {}

  std::size_t workspace_bytes() const override { return gemm_.workspace_bytes(); }
  bool overwrites_to_prepare() const override { return true; }
  void prepare(const KernelArgs& args) override {
    gemm_.prepare(args.in[0].data, args.in[2].data, args.out[0].data, args.workspace, args.stream);
  }

  void run(const KernelArgs& args) override {
    const float* bias = args.in.size() > 5 && args.in[5].defined() ? args.in[5].as<float>() : nullptr;
    gemm_.run(args.in[0].data, args.in[2].data, args.out[0].data, adds_bias_ ? nullptr : bias,
              args.accumulate, args.workspace, args.stream,
              {.a = args.in[1].as<float>(), .b = args.in[3].as<float>()});
    if (!adds_bias_) return;
    const int64_t elements = shape_.m * shape_.n;
    launch(add_bias, grid_of(ceil_div(elements, kThreads)), dim3(kThreads), 0, args.stream, bias,
           args.out[0].as<float>(), elements, shape_.n);
  }

 private:
  GemmShape shape_;
  bool adds_bias_;
  Gemm gemm_;
};

KernelPointer make_linear_fp8(const OpView& view, Libraries* libraries) {
  return with_activation_type(view.in(4).dtype, "linear_fp8", [&]<typename A>() -> KernelPointer {
    const GemmShape shape = shape_of_linear_fp8(view);
    return std::make_unique<Float8Product>(shape, view.has_input(5) && !shape.biased, libraries);
  });
}

KernelPointer make_weight_gradient_fp8(const OpView& view, Libraries* libraries) {
  return std::make_unique<Float8Product>(shape_of_linear_fp8_backward_weight(view), false, libraries);
}

}  // namespace

void register_float8(KernelTable& table, Libraries* libraries) {
  table.add("quantise", [](const OpView& view) {
    return with_activation_type(view.in(0).dtype, "quantise", [&]<typename A>() -> KernelPointer {
      return std::make_unique<Quantise<A>>(view);
    });
  });
  table.add("bias_gelu_quantise", make_gelu_quantise);
  table.add("swiglu_quantise",
            [](const OpView& view) { return make_swiglu_quantise<GateAndUp>(view, view.out(0).shape[1]); });
  table.add("swiglu_backward_quantise", [](const OpView& view) {
    return make_swiglu_quantise<GateAndUpBackward>(view, view.in(0).shape[1]);
  });
  table.add("dequantise", [](const OpView& view) {
    return with_activation_type(view.out(0).dtype, "dequantise", [&]<typename A>() -> KernelPointer {
      return std::make_unique<Dequantise<A>>();
    });
  });
  for (const char* kind : {"linear_fp8", "linear_fp8_backward_input"})
    table.add(kind, [=](const OpView& view) { return make_linear_fp8(view, libraries); });
  table.add("linear_fp8_backward_weight",
            [=](const OpView& view) { return make_weight_gradient_fp8(view, libraries); });
}

}  // namespace recollect::cuda
