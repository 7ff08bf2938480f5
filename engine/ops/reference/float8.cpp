// 8-bit codes with a scale, and products of such codes.
#include "engine/ops/float8.h"

#include <algorithm>

#include "engine/ops/reference/activation.h"

namespace recollect::reference {
namespace {

double number(const Tensor& codes, int64_t i) {
  if (codes.dtype == DType::kE4M3) return codes.as<e4m3>()[i];
  return codes.as<e5m2>()[i];
}

template <typename Code, typename T>
void quantise_to(const KernelArgs& args, const std::string& copies) {
  const T* x = args.in[0].as<T>();
  const int64_t columns = row_length(args.in[0].shape), rows = args.in[0].elements() / columns;
  uint32_t largest = 0;
  for (int64_t i = 0; i < rows * columns; ++i)
    largest = std::max(largest, magnitude_bits(static_cast<float>(x[i])));
  const Float8Scale scale = float8_scale(largest, Code::Format::kMost);
  Code* transposed = makes_columns(copies) ? args.out[0].template as<Code>() : nullptr;
  Code* plain = makes_rows(copies) ? args.out[transposed ? 1 : 0].template as<Code>() : nullptr;
  args.out.back().template as<T>()[0] = scale.scale;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const Code code(static_cast<float>(x[r * columns + c]) * scale.factor);
      if (plain) plain[r * columns + c] = code;
      if (transposed) transposed[c * rows + r] = code;
    }
  }
}

template <typename T>
void quantise(const KernelArgs& args, const Attributes& attributes) {
  const std::string& copies = attributes.text("copies");
  if (attributes.text("format") == "e4m3")
    quantise_to<e4m3, T>(args, copies);
  else
    quantise_to<e5m2, T>(args, copies);
}

template <typename T>
void dequantise(const KernelArgs& args, const Attributes&) {
  const Tensor &codes = args.in[0], &y = args.out[0];
  require(y.dtype == kDTypeOf<T>, "the reference backend has no numbers of 16 bits");
  const double scale = args.in[1].as<T>()[0];
  for (int64_t i = 0; i < codes.elements(); ++i) y.as<T>()[i] = static_cast<T>(number(codes, i) * scale);
}

// Computes a b^T times both scales, and calls put(i, sum) for each element i.
template <typename T, typename Put>
void multiply_codes(const KernelArgs& args, Put put) {
  const Tensor &a = args.in[0], &b = args.in[2];
  const double scale = double(args.in[1].as<T>()[0]) * double(args.in[3].as<T>()[0]);
  const int64_t rows = a.shape[0], columns = b.shape[0], depth = a.shape[1];
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (int64_t d = 0; d < depth; ++d) sum += number(a, i * depth + d) * number(b, j * depth + d);
      put(i * columns + j, j, sum * scale);
    }
  }
}

template <typename T>
void linear_fp8(const KernelArgs& args, const Attributes&) {
  const T* bias = present(args.in, 5) ? args.in[5].as<T>() : nullptr;
  T* y = args.out[0].as<T>();
  multiply_codes<T>(args, [&](int64_t at, int64_t column, double product) {
    y[at] = static_cast<T>(product + (bias ? double(bias[column]) : 0.0));
  });
}

template <typename T>
void linear_fp8_backward_weight(const KernelArgs& args, const Attributes&) {
  T* dw = args.out[0].as<T>();
  multiply_codes<T>(args,
                    [&](int64_t at, int64_t, double product) { store(dw[at], product, args.accumulate); });
}

}  // namespace

void quantise_output(const KernelArgs& args, const Attributes& attributes, std::size_t of) {
  KernelArgs codes = args;
  codes.in = args.out.subspan(of, 1);
  codes.out = args.out.last(code_outputs(attributes.text("copies")));
  codes.in[0].dtype == DType::kF64 ? quantise<double>(codes, attributes) : quantise<float>(codes, attributes);
}

void register_float8(KernelTable& table) {
  add_kernel(table, "quantise", quantise<double>, quantise<float>);
  add_kernel(table, "bias_gelu_quantise", make_with_codes<bias_gelu<double>>,
             make_with_codes<bias_gelu<float>>);
  add_kernel(table, "swiglu_quantise", make_with_codes<swiglu<double>>, make_with_codes<swiglu<float>>);
  add_kernel(table, "swiglu_backward_quantise", make_with_codes<swiglu_backward<double>>,
             make_with_codes<swiglu_backward<float>>);
  add_kernel(table, "dequantise", dequantise<double>, dequantise<float>);
  add_kernel(table, "linear_fp8", linear_fp8<double>, linear_fp8<float>);
  add_kernel(table, "linear_fp8_backward_input", linear_fp8<double>, linear_fp8<float>);
  add_kernel(table, "linear_fp8_backward_weight", linear_fp8_backward_weight<double>,
             linear_fp8_backward_weight<float>);
}

}  // namespace recollect::reference
