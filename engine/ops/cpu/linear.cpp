// Linear layers: three matrix products, that of a single row by itself, and the bias gradient's column sums.
#include <omp.h>

#include <optional>

#include "engine/ops/cpu/activation.h"
#include "engine/ops/cpu/column_sums.h"
#include "engine/ops/cpu/gemm.h"
#include "engine/ops/cpu/kernels.h"
#include "engine/ops/cpu/row_product.h"

namespace recollect::cpu {

namespace {

class Product : public Kernel {
 public:
  explicit Product(const GemmSpec& spec) : gemm_(spec) {}
  std::size_t workspace_bytes() const override { return gemm_.workspace_bytes(); }
  void run(const KernelArgs& args) override {
    const bool bias = args.in.size() > 2 && args.in[2].defined();
    gemm_.run(args.in[0].data, args.in[1].data, args.out[0].data, bias ? args.in[2].as<float>() : nullptr,
              false, args.workspace);
  }

 private:
  Gemm gemm_;
};

// Blocks of rows of x, one after the other.
class ProductOfRows : public Kernel {
 public:
  ProductOfRows(const GemmSpec& spec, const Attributes& attributes)
      : gemm_(spec),
        first_(attributes.integer("first_row")),
        blocks_(attributes.integer("blocks")),
        stride_(attributes.integer("stride")),
        row_in_(static_cast<std::size_t>(spec.k) * size_of(spec.in)),
        block_out_(static_cast<std::size_t>(spec.m * spec.n) * size_of(spec.out)) {}
  std::size_t workspace_bytes() const override { return gemm_.workspace_bytes(); }
  void run(const KernelArgs& args) override {
    const bool bias = args.in.size() > 2 && args.in[2].defined();
    const auto* x = static_cast<const std::byte*>(args.in[0].data);
    auto* y = static_cast<std::byte*>(args.out[0].data);
    for (int64_t b = 0; b < blocks_; ++b)
      gemm_.run(x + static_cast<std::size_t>(first_ + b * stride_) * row_in_, args.in[1].data,
                y + static_cast<std::size_t>(b) * block_out_, bias ? args.in[2].as<float>() : nullptr, false,
                args.workspace);
  }

 private:
  Gemm gemm_;
  int64_t first_, blocks_, stride_;
  std::size_t row_in_, block_out_;  // bytes
};

// GELU of a product is a pass behind it.
template <typename A>
class ProductAndGelu : public Kernel {
 public:
  ProductAndGelu(const GemmSpec& spec, const OpView& of_product) : gemm_(spec), gelu_(of_product) {}
  std::size_t workspace_bytes() const override { return gemm_.workspace_bytes(); }
  void run(const KernelArgs& args) override {
    gemm_.run(args.in[0].data, args.in[1].data, args.out[1].data, args.in[2].as<float>(), false,
              args.workspace);
    KernelArgs of_product = args;
    of_product.in = args.out.subspan(1);
    gelu_.run(of_product);
  }

 private:
  Gemm gemm_;
  Gelu<A> gelu_;
};

// And so is its derivative, in place.
template <typename A>
class ProductAndGeluGradient : public Kernel {
 public:
  ProductAndGeluGradient(const GemmSpec& spec, const OpView& of_product) : gemm_(spec), gelu_(of_product) {}
  std::size_t workspace_bytes() const override { return gemm_.workspace_bytes(); }
  void run(const KernelArgs& args) override {
    gemm_.run(args.in[0].data, args.in[1].data, args.out[0].data, nullptr, false, args.workspace);
    const Tensor in[] = {args.out[0], args.in[2]};
    KernelArgs of_product = args;
    of_product.in = in;
    gelu_.run(of_product);
  }

 private:
  Gemm gemm_;
  GeluBackward<A> gelu_;
};

// Of one token: nothing is used twice, so that nothing is worth packing.
template <typename A>
class LinearOfRow : public Kernel {
 public:
  explicit LinearOfRow(const OpView& view)
      : product_(omp_get_max_threads(), view.in(1).shape[0], view.in(1).shape[1]) {}

  void run(const KernelArgs& args) override {
    const bool bias = args.in.size() > 2 && args.in[2].defined();
    product_.run(args.in[0].as<A>(), args.in[1].as<A>(), bias ? args.in[2].as<float>() : nullptr,
                 args.out[0].as<A>());
  }

 private:
  RowProduct product_;
};

template <typename A>
class LinearBackwardWeight : public Kernel {
 public:
  LinearBackwardWeight(const GemmSpec& spec, bool bias)
      : columns_(spec.m), bias_(bias), gemm_(spec), sums_(omp_get_max_threads(), spec.k, spec.m) {}

  std::size_t workspace_bytes() const override {
    return std::max(gemm_.workspace_bytes(), bias_ ? sums_.workspace_bytes() : 0);
  }

  void run(const KernelArgs& args) override {
    gemm_.run(args.in[1].data, args.in[0].data, args.out[0].data, nullptr, args.accumulate, args.workspace);
    if (!bias_) return;
    const A* dy = args.in[1].as<A>();
    sums_.run(args.workspace, args.out[1].as<float>(), args.accumulate, [&](int64_t r, float* sum) {
      const A* row = dy + r * columns_;
#pragma omp simd
      for (int64_t c = 0; c < columns_; ++c) sum[c] += load(row[c]);
    });
  }

 private:
  int64_t columns_;
  bool bias_;
  Gemm gemm_;
  ColumnSums sums_;
};

DType checked_type(const OpView& view) {
  const DType dtype = view.in(0).dtype;
  with_activation_type(dtype, view.op.def ? view.op.def->name : "linear", []<typename A>() {});
  return dtype;
}

KernelPointer make_linear(const OpView& view) {
  const DType dtype = checked_type(view);
  const Shape x = view.in(0).shape, w = view.in(1).shape;
  if (x[0] == 1)
    return with_activation_type(dtype, "linear", [&]<typename A>() -> KernelPointer {
      return std::make_unique<LinearOfRow<A>>(view);
    });
  return std::make_unique<Product>(GemmSpec{.m = x[0],
                                            .n = w[0],
                                            .k = w[1],
                                            .transpose_b = true,
                                            .in = dtype,
                                            .out = dtype,
                                            .bias = view.has_input(2)});
}

// The pass over what a product makes.
Op pass_over(const OpView& view, ValueId product) {
  Op op = view.op;
  op.inputs = {product};
  return op;
}

KernelPointer make_linear_gelu(const OpView& view) {
  const DType dtype = checked_type(view);
  const Shape x = view.in(0).shape, w = view.in(1).shape;
  const GemmSpec spec{
      .m = x[0], .n = w[0], .k = w[1], .transpose_b = true, .in = dtype, .out = dtype, .bias = true};
  const Op gelu = pass_over(view, view.op.outputs[1]);
  return with_activation_type(dtype, "linear_gelu", [&]<typename A>() -> KernelPointer {
    return std::make_unique<ProductAndGelu<A>>(spec, OpView{view.graph, gelu});
  });
}

KernelPointer make_linear_backward_input_gelu(const OpView& view) {
  const DType dtype = checked_type(view);
  const Shape dy = view.in(0).shape, w = view.in(1).shape;
  const GemmSpec spec{.m = dy[0], .n = w[1], .k = w[0], .in = dtype, .out = dtype};
  const Op gelu = pass_over(view, view.op.outputs[0]);
  return with_activation_type(dtype, "linear_backward_input_gelu", [&]<typename A>() -> KernelPointer {
    return std::make_unique<ProductAndGeluGradient<A>>(spec, OpView{view.graph, gelu});
  });
}

KernelPointer make_linear_rows(const OpView& view) {
  const DType dtype = checked_type(view);
  const Shape w = view.in(1).shape;
  const GemmSpec spec{.m = view.attributes().integer("rows"),
                      .n = w[0],
                      .k = w[1],
                      .transpose_b = true,
                      .in = dtype,
                      .out = dtype,
                      .bias = view.has_input(2),
                      .whole_m = view.attributes().integer("whole_rows")};
  return std::make_unique<ProductOfRows>(spec, view.attributes());
}

KernelPointer make_linear_backward_input(const OpView& view) {
  const DType dtype = checked_type(view);
  const Shape dy = view.in(0).shape, w = view.in(1).shape;
  const bool piece = view.attributes().has("whole_rows");
  return std::make_unique<Product>(GemmSpec{.m = dy[0],
                                            .n = w[1],
                                            .k = w[0],
                                            .in = dtype,
                                            .out = dtype,
                                            .whole_m = piece ? view.attributes().integer("whole_rows") : 0});
}

KernelPointer make_linear_backward_weight(const OpView& view) {
  const DType dtype = checked_type(view);
  const Shape x = view.in(0).shape, dy = view.in(1).shape;
  const GemmSpec spec{
      .m = dy[1], .n = x[1], .k = x[0], .transpose_a = true, .in = dtype, .accumulates = true};
  const bool bias = view.attributes().integer("bias") != 0;
  return with_activation_type(dtype, "linear_backward_weight", [&]<typename A>() -> KernelPointer {
    return std::make_unique<LinearBackwardWeight<A>>(spec, bias);
  });
}

}  // namespace

void register_linear(KernelTable& table) {
  table.add("linear", make_linear);
  table.add("linear_gelu", make_linear_gelu);
  table.add("linear_rows", make_linear_rows);
  table.add("linear_backward_input", make_linear_backward_input);
  table.add("linear_backward_input_gelu", make_linear_backward_input_gelu);
  table.add("linear_backward_weight", make_linear_backward_weight);
}

}  // namespace recollect::cpu
