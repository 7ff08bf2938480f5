// FP8 on processors without FP8 instructions: codes are widened to bf16, which represents all of them
// exactly, and multiplied as bf16. Codes and scales are the same as in the other backends, bit for bit;
// products are summed in float.
#include "engine/ops/float8.h"

#include <omp.h>

#include <array>

#include "engine/ops/cpu/activation.h"
#include "engine/ops/cpu/gemm.h"

namespace recollect::cpu {

namespace {

template <typename Format>
constexpr std::array<uint16_t, 256> widened_codes() {
  std::array<uint16_t, 256> bits{};
  for (int code = 0; code < 256; ++code)
    bits[code] = static_cast<uint16_t>(
        std::bit_cast<uint32_t>(float8::widen<Format>(static_cast<uint8_t>(code))) >> 16);
  return bits;
}
constexpr std::array<uint16_t, 256> kWideE4M3 = widened_codes<float8::E4M3>(),
                                    kWideE5M2 = widened_codes<float8::E5M2>();

// Quantises x to 8-bit codes in two passes: find the largest magnitude, then write the codes tile by tile, as
// x lies and transposed. A is the dtype of x.
template <typename A>
class Quantise : public Kernel {
 public:
  explicit Quantise(const OpView& view) : Quantise(view, view.in(0).shape) {}
  // Quantises a value of this shape.
  Quantise(const OpView& view, const Shape& shape)
      : threads_(omp_get_max_threads()),
        rows_(shape.elements() / row_length(shape)),
        columns_(row_length(shape)),
        e4m3_(view.attributes().text("format") == "e4m3"),
        plain_(makes_rows(view.attributes().text("copies"))),
        transposed_(makes_columns(view.attributes().text("copies"))) {}

  std::size_t workspace_bytes() const override { return kLine * static_cast<std::size_t>(threads_); }

  void run(const KernelArgs& args) override { e4m3_ ? run_as<e4m3>(args) : run_as<e5m2>(args); }

 private:
  static constexpr std::size_t kLine = 64;  // a cache line for each thread, so that threads do not share one
  static constexpr int64_t kTile = 64;      // rows and columns

  uint32_t largest(const A* x, std::byte* workspace) const {
    const auto of_part = [&](int part) { return reinterpret_cast<uint32_t*>(workspace + kLine * part); };
    for (int part = 0; part < threads_; ++part) *of_part(part) = 0;
    parallel_ranges(threads_, rows_ * columns_, [&](int64_t first, int64_t last, int part) {
      uint32_t most = 0;
#pragma omp simd reduction(max : most)
      for (int64_t i = first; i < last; ++i) most = std::max(most, magnitude_bits(load(x[i])));
      *of_part(part) = most;
    });
    uint32_t most = 0;
    for (int part = 0; part < threads_; ++part) most = std::max(most, *of_part(part));
    return most;
  }

  template <typename Code>
  void run_as(const KernelArgs& args) const {
    const A* x = args.in[0].as<A>();
    const Float8Scale scale = float8_scale(largest(x, args.workspace), Code::Format::kMost);
    Code* transposed = transposed_ ? args.out[0].as<Code>() : nullptr;
    Code* plain = plain_ ? args.out[transposed_ ? 1 : 0].as<Code>() : nullptr;
    args.out.back().template as<float>()[0] = scale.scale;
    parallel_grains(threads_, rows_, kTile, [&](int64_t first, int64_t last, int) {
      for (int64_t row = first; row < last; row += kTile)
        for (int64_t column = 0; column < columns_; column += kTile)
          write_tile(x, scale.factor, row, std::min(row + kTile, last), column, plain, transposed);
    });
  }

  template <typename Code>
  void write_tile(const A* x, float factor, int64_t first, int64_t last, int64_t column, Code* plain,
                  Code* transposed) const {
    const int64_t end = std::min(column + kTile, columns_);
    for (int64_t r = first; r < last; ++r) {
      for (int64_t c = column; c < end; ++c) {
        const Code code(load(x[r * columns_ + c]) * factor);
        if (plain) plain[r * columns_ + c] = code;
        if (transposed) transposed[c * rows_ + r] = code;
      }
    }
  }

  int threads_;
  int64_t rows_, columns_;
  bool e4m3_, plain_, transposed_;
};

// Runs `first`, which needs no workspace and makes all outputs except the codes, and then quantises output
// number `of`.
template <typename A>
class WithCodes : public Quantise<A> {
 public:
  WithCodes(const OpView& view, int of, KernelPointer first)
      : Quantise<A>(view, view.out(of).shape),
        of_(static_cast<std::size_t>(of)),
        codes_(code_outputs(view.attributes().text("copies"))),
        first_(std::move(first)) {}

  void run(const KernelArgs& args) override {
    first_->run(args);
    KernelArgs codes = args;
    codes.in = args.out.subspan(of_, 1);
    codes.out = args.out.last(codes_);
    Quantise<A>::run(codes);
  }

 private:
  std::size_t of_, codes_;
  KernelPointer first_;
};

template <typename A>
using BiasGeluTanh = BiasGelu<A, GeluTanh>;
template <typename A>
using BiasGeluErf = BiasGelu<A, GeluErf>;

// Multiplies codes by their scale. There are only 256 codes, so the products are looked up in a table. A is
// the dtype of y.
template <typename A>
class Dequantise : public Kernel {
 public:
  Dequantise() : threads_(omp_get_max_threads()) {}

  void run(const KernelArgs& args) override {
    const auto& wide = args.in[0].dtype == DType::kE4M3 ? kWideE4M3 : kWideE5M2;
    const float scale = args.in[1].as<float>()[0];
    std::array<A, 256> numbers;
    for (std::size_t code = 0; code < numbers.size(); ++code)
      store(&numbers[code], std::bit_cast<float>(uint32_t{wide[code]} << 16) * scale);
    const auto* codes = static_cast<const uint8_t*>(args.in[0].data);
    A* y = args.out[0].as<A>();
    parallel_ranges(threads_, args.in[0].elements(), [&](int64_t first, int64_t last, int) {
      for (int64_t i = first; i < last; ++i) y[i] = numbers[codes[i]];
    });
  }

 private:
  int threads_;
};

// Computes a b^T of codes [m,k] and [n,k] in float; the scales are applied at the end.
class CodeProduct {
 public:
  explicit CodeProduct(const OpView& view)
      : threads_(omp_get_max_threads()),
        m_(view.in(0).shape[0]),
        n_(view.in(2).shape[0]),
        k_(view.in(0).shape[1]),
        gemm_({.m = m_, .n = n_, .k = k_, .transpose_b = true, .in = DType::kBF16}) {}

  std::size_t workspace_bytes() const {
    return wide_bytes(m_) + wide_bytes(n_) + out_bytes() + gemm_.workspace_bytes();
  }

  // Calls finish(i, column, product) for every element i.
  template <typename Finish>
  void run(const KernelArgs& args, Finish finish) const {
    std::byte *a = args.workspace, *b = a + wide_bytes(m_), *out = b + wide_bytes(n_);
    widen(args.in[0], reinterpret_cast<uint16_t*>(a));
    widen(args.in[2], reinterpret_cast<uint16_t*>(b));
    gemm_.run(a, b, out, nullptr, false, out + out_bytes());
    const float* sums = reinterpret_cast<const float*>(out);
    const double scale = double{args.in[1].as<float>()[0]} * double{args.in[3].as<float>()[0]};
    parallel_ranges(threads_, m_, [&](int64_t first, int64_t last, int) {
      for (int64_t r = first; r < last; ++r)
        for (int64_t c = 0; c < n_; ++c)
          finish(r * n_ + c, c, static_cast<float>(static_cast<double>(sums[r * n_ + c]) * scale));
    });
  }

 private:
  static std::size_t lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
  std::size_t wide_bytes(int64_t rows) const {
    return lines(static_cast<std::size_t>(rows * k_) * sizeof(uint16_t));
  }
  std::size_t out_bytes() const { return lines(static_cast<std::size_t>(m_ * n_) * sizeof(float)); }

  void widen(const Tensor& codes, uint16_t* to) const {
    const auto& table = codes.dtype == DType::kE4M3 ? kWideE4M3 : kWideE5M2;
    const auto* from = static_cast<const uint8_t*>(codes.data);
    parallel_ranges(threads_, codes.elements(), [&](int64_t first, int64_t last, int) {
      for (int64_t i = first; i < last; ++i) to[i] = table[from[i]];
    });
  }

  int threads_;
  int64_t m_, n_, k_;
  Gemm gemm_;
};

// y = a b^T + bias. A is the dtype of y.
template <typename A>
class Float8Linear : public Kernel {
 public:
  explicit Float8Linear(const OpView& view) : product_(view) {}
  std::size_t workspace_bytes() const override { return product_.workspace_bytes(); }
  void run(const KernelArgs& args) override {
    const float* bias = args.in.size() > 5 && args.in[5].defined() ? args.in[5].as<float>() : nullptr;
    A* y = args.out[0].as<A>();
    product_.run(args, [&](int64_t at, int64_t column, float product) {
      store(y + at, bias ? product + bias[column] : product);
    });
  }

 private:
  CodeProduct product_;
};

class Float8WeightGradient : public Kernel {
 public:
  explicit Float8WeightGradient(const OpView& view) : product_(view) {}
  std::size_t workspace_bytes() const override { return product_.workspace_bytes(); }
  void run(const KernelArgs& args) override {
    float* dw = args.out[0].as<float>();
    product_.run(args, [&](int64_t at, int64_t, float product) {
      dw[at] = args.accumulate ? dw[at] + product : product;
    });
  }

 private:
  CodeProduct product_;
};

}  // namespace

KernelPointer with_codes(const OpView& view, KernelPointer first) {
  const int of = view.op.def->joined_from->joint.output;
  return with_activation_type(view.out(of).dtype, view.op.def->name, [&]<typename A>() -> KernelPointer {
    return std::make_unique<WithCodes<A>>(view, of, std::move(first));
  });
}

void register_float8(KernelTable& table) {
  add_kernel<Quantise>(table, "quantise");
  table.add("bias_gelu_quantise", [](const OpView& view) {
    const bool erf = view.attributes().text("form") == "erf";
    return with_codes(view, erf ? make_kernel<BiasGeluErf>(view) : make_kernel<BiasGeluTanh>(view));
  });
  table.add("swiglu_quantise",
            [](const OpView& view) { return with_codes(view, make_kernel<Swiglu>(view)); });
  table.add("swiglu_backward_quantise",
            [](const OpView& view) { return with_codes(view, make_kernel<SwigluBackward>(view)); });
  table.add("dequantise", [](const OpView& view) {
    return with_activation_type(view.out(0).dtype, "dequantise", [&]<typename A>() -> KernelPointer {
      return std::make_unique<Dequantise<A>>();
    });
  });
  add_kernel<Float8Linear>(table, "linear_fp8", 4);
  add_kernel<Float8Linear>(table, "linear_fp8_backward_input", 4);
  table.add("linear_fp8_backward_weight", [](const OpView& view) -> KernelPointer {
    if (view.in(1).dtype != DType::kF32)
      throw Error(ExitCode::kConfiguration, "the cpu backend has linear_fp8_backward_weight in f32 only",
                  "use device.backend: reference, or another training.precision");
    return std::make_unique<Float8WeightGradient>(view);
  });
}

}  // namespace recollect::cpu
