// Linear layers: three matrix products, the bias gradient's column sums, and GELU and its derivative, each beside a product or by
// it. Nothing here is NVIDIA's.
#include <algorithm>

#include "engine/core/arena.h"
#include "engine/ops/cuda/gemm.h"
#include "engine/ops/cuda/gemm_gelu.h"
#include "engine/ops/cuda/gemm_sums.h"
#include "engine/ops/cuda/kernels.h"

namespace recollect::cuda {

namespace {

DType checked_type(const OpView& view) {
  const DType dtype = view.in(0).dtype;
  if (dtype != DType::kF32 && dtype != DType::kBF16 && dtype != DType::kF16)
    throw Error(ExitCode::kConfiguration,
                "the cuda backend has no linear for " + std::string(name_of(dtype)) + " activations",
                "take fp32, bf16 or fp16, or another backend");
  return dtype;
}

class Product : public Kernel {
 public:
  Product(const GemmShape& shape, Libraries* libraries) : gemm_(shape, libraries) {}
  std::size_t workspace_bytes() const override { return gemm_.workspace_bytes(); }

  bool overwrites_to_prepare() const override { return true; }
  void prepare(const KernelArgs& args) override {
    gemm_.prepare(args.in[0].data, args.in[1].data, args.out[0].data, args.workspace, args.stream);
  }

  void run(const KernelArgs& args) override {
    const void* bias = args.in.size() > 2 ? args.in[2].data : nullptr;
    gemm_.run(args.in[0].data, args.in[1].data, args.out[0].data, bias, false, args.workspace, args.stream);
  }

 private:
  Gemm gemm_;
};

// Blocks of rows of x, one after the other: one product's algorithm, tried on the first block.
class ProductOfRows : public Kernel {
 public:
  ProductOfRows(const GemmShape& shape, const Attributes& attributes, Libraries* libraries)
      : gemm_(shape, libraries),
        first_(attributes.integer("first_row")),
        blocks_(attributes.integer("blocks")),
        stride_(attributes.integer("stride")),
        row_in_(static_cast<std::size_t>(shape.k) * size_of(shape.in)),
        block_out_(static_cast<std::size_t>(shape.m * shape.n) * size_of(shape.out)) {}
  std::size_t workspace_bytes() const override { return gemm_.workspace_bytes(); }

  bool overwrites_to_prepare() const override { return true; }
  void prepare(const KernelArgs& args) override {
    gemm_.prepare(x_of(args, 0), args.in[1].data, args.out[0].data, args.workspace, args.stream);
  }

  void run(const KernelArgs& args) override {
    const void* bias = args.in.size() > 2 ? args.in[2].data : nullptr;
    for (int64_t b = 0; b < blocks_; ++b)
      gemm_.run(x_of(args, b), args.in[1].data,
                static_cast<std::byte*>(args.out[0].data) + static_cast<std::size_t>(b) * block_out_, bias,
                false, args.workspace, args.stream);
  }

 private:
  const void* x_of(const KernelArgs& args, int64_t block) const {
    return static_cast<const std::byte*>(args.in[0].data) +
           static_cast<std::size_t>(first_ + block * stride_) * row_in_;
  }

  Gemm gemm_;
  int64_t first_, blocks_, stride_;
  std::size_t row_in_, block_out_;  // bytes
};

// GELU of a product, or its derivative times one: by the product, or by a pass over what that makes.
class ProductAndGelu : public Kernel {
 public:
  ProductAndGelu(const GemmShape& shape, KernelPointer pass, Libraries* libraries)
      : product_(shape, libraries), both_(shape, libraries), pass_(std::move(pass)), forward_(shape.biased) {}

  std::size_t workspace_bytes() const override {
    return std::max({product_.workspace_bytes(), both_.workspace_bytes(), pass_->workspace_bytes()});
  }

  bool overwrites_to_prepare() const override { return true; }
  void prepare(const KernelArgs& args) override {
    product_.prepare(of_product(args));
    with_pass(args, [&](const KernelArgs& of_pass) { pass_->prepare(of_pass); });
    together_ = both_.prepare(args.in[0].data, args.in[1].data, args.out[0].data, pre(args).data,
                              args.workspace, args.stream, [&] { run_apart(args); });
  }

  void run(const KernelArgs& args) override {
    if (!together_) return run_apart(args);
    both_.run(args.in[0].data, args.in[1].data, args.out[0].data, forward_ ? args.in[2].as<float>() : nullptr,
              pre(args).data, args.workspace, args.stream);
  }

 private:
  const Tensor& pre(const KernelArgs& args) const { return forward_ ? args.out[1] : args.in[2]; }

  KernelArgs of_product(const KernelArgs& args) const {
    KernelArgs product = args;
    if (forward_)
      product.out = args.out.subspan(1);
    else
      product.in = args.in.first(2);
    return product;
  }

  template <typename F>
  void with_pass(const KernelArgs& args, F f) const {
    const Tensor gradient[] = {args.out[0], args.in[2]};
    KernelArgs pass = args;
    pass.in = gradient;
    if (forward_) pass.in = args.out.subspan(1);
    pass.out = args.out.first(1);
    f(pass);
  }

  void run_apart(const KernelArgs& args) {
    product_.run(of_product(args));
    with_pass(args, [&](const KernelArgs& of_pass) { pass_->run(of_pass); });
  }

  Product product_;
  GemmWithGelu both_;
  KernelPointer pass_;
  bool forward_;
  bool together_ = false;
};

// dw = dy^T x.
class WeightGradient : public Kernel {
 public:
  WeightGradient(const GemmShape& shape, Libraries* libraries) : gemm_(shape, libraries) {}
  std::size_t workspace_bytes() const override { return gemm_.workspace_bytes(); }

  bool overwrites_to_prepare() const override { return true; }
  void prepare(const KernelArgs& args) override {
    gemm_.prepare(args.in[1].data, args.in[0].data, args.out[0].data, args.workspace, args.stream);
  }

  void run(const KernelArgs& args) override {
    gemm_.run(args.in[1].data, args.in[0].data, args.out[0].data, nullptr, args.accumulate, args.workspace,
              args.stream);
  }

 private:
  Gemm gemm_;
};

// dbias too, the column sums of dy: by the product, or as the op column_sum makes them.
class WeightAndBiasGradient : public Kernel {
 public:
  WeightAndBiasGradient(const GemmShape& shape, KernelPointer sum, Libraries* libraries)
      : weight_(shape, libraries), both_(shape, libraries), sum_(std::move(sum)), width_(shape.m) {}

  std::size_t workspace_bytes() const override {
    return std::max({weight_.workspace_bytes(), sum_->workspace_bytes(), sums_at() + sizeof(float) * width_});
  }

  bool overwrites_to_prepare() const override { return true; }
  void prepare(const KernelArgs& args) override {
    weight_.prepare(args);
    sum_->prepare(of_sum(args));
    together_ = both_.prepare(args.in[1].data, args.in[0].data, args.out[0].data, args.out[1].as<float>(),
                              args.workspace, args.stream, [&] { run_apart(args); });
  }

  void run(const KernelArgs& args) override {
    if (!together_) return run_apart(args);
    float *dbias = args.out[1].as<float>(),
          *sums = args.accumulate ? reinterpret_cast<float*>(args.workspace + sums_at()) : dbias;
    both_.run(args.in[1].data, args.in[0].data, args.out[0].data, sums, args.accumulate, args.workspace,
              args.stream);
    if (args.accumulate) finish_sums(sums, 1, width_, dbias, true, args.stream);
  }

 private:
  std::size_t sums_at() const { return aligned(both_.workspace_bytes()); }

  static KernelArgs of_sum(const KernelArgs& args) {
    KernelArgs sum = args;
    sum.in = args.in.subspan(1, 1);
    sum.out = args.out.subspan(1, 1);
    return sum;
  }

  void run_apart(const KernelArgs& args) {
    weight_.run(args);
    sum_->run(of_sum(args));
  }

  WeightGradient weight_;
  GemmWithSums both_;
  KernelPointer sum_;
  int64_t width_;
  bool together_ = false;
};

// A piece of a product, or one that passes have marked.
bool beside_collectives(const OpView& view) {
  return view.attributes().has("whole_rows") || view.attributes().has("beside_collectives");
}

GemmShape shape_of_linear(const OpView& view) {
  const DType dtype = checked_type(view);
  const Shape x = view.in(0).shape, w = view.in(1).shape;
  return {.m = x[0],
          .n = w[0],
          .k = w[1],
          .transpose_b = true,
          .in = dtype,
          .out = dtype,
          .biased = view.has_input(2),
          .beside_collectives = beside_collectives(view)};
}

GemmShape shape_of_linear_backward_input(const OpView& view) {
  const DType dtype = checked_type(view);
  const Shape dy = view.in(0).shape, w = view.in(1).shape;
  return {.m = dy[0],
          .n = w[1],
          .k = w[0],
          .in = dtype,
          .out = dtype,
          .beside_collectives = beside_collectives(view)};
}

KernelPointer make_linear(const OpView& view, Libraries* libraries) {
  return std::make_unique<Product>(shape_of_linear(view), libraries);
}

KernelPointer make_linear_gelu(const OpView& view, Libraries* libraries) {
  Op pass = view.op;
  pass.inputs = {view.op.outputs[1]};
  return std::make_unique<ProductAndGelu>(shape_of_linear(view), make_pass_of_gelu({view.graph, pass}),
                                          libraries);
}

KernelPointer make_linear_rows(const OpView& view, Libraries* libraries) {
  const DType dtype = checked_type(view);
  const Shape w = view.in(1).shape;
  const GemmShape shape{.m = view.attributes().integer("rows"),
                        .n = w[0],
                        .k = w[1],
                        .transpose_b = true,
                        .in = dtype,
                        .out = dtype,
                        .biased = view.has_input(2),
                        .beside_collectives = beside_collectives(view)};
  return std::make_unique<ProductOfRows>(shape, view.attributes(), libraries);
}

KernelPointer make_linear_backward_input(const OpView& view, Libraries* libraries) {
  return std::make_unique<Product>(shape_of_linear_backward_input(view), libraries);
}

KernelPointer make_linear_backward_input_gelu(const OpView& view, Libraries* libraries) {
  Op pass = view.op;
  pass.inputs = {view.op.outputs[0], view.op.inputs[2]};
  return std::make_unique<ProductAndGelu>(shape_of_linear_backward_input(view),
                                          make_pass_of_gelu_gradient({view.graph, pass}), libraries);
}

KernelPointer make_linear_backward_weight(const OpView& view, Libraries* libraries) {
  const DType dtype = checked_type(view);
  const Shape x = view.in(0).shape, dy = view.in(1).shape;
  const GemmShape shape{.m = dy[1],
                        .n = x[1],
                        .k = x[0],
                        .transpose_a = true,
                        .in = dtype,
                        .accumulates = true,
                        .beside_collectives = beside_collectives(view)};
  if (view.attributes().integer("bias") == 0) return std::make_unique<WeightGradient>(shape, libraries);
  Op of_dy = view.op;
  of_dy.inputs = {view.op.inputs[1]};
  of_dy.outputs = {view.op.outputs[1]};
  return std::make_unique<WeightAndBiasGradient>(shape, make_column_sum({view.graph, of_dy}), libraries);
}

}  // namespace

void register_linear(KernelTable& table, Libraries* libraries) {
  table.add("linear", [=](const OpView& view) { return make_linear(view, libraries); });
  table.add("linear_gelu", [=](const OpView& view) { return make_linear_gelu(view, libraries); });
  table.add("linear_rows", [=](const OpView& view) { return make_linear_rows(view, libraries); });
  table.add("linear_backward_input",
            [=](const OpView& view) { return make_linear_backward_input(view, libraries); });
  table.add("linear_backward_input_gelu",
            [=](const OpView& view) { return make_linear_backward_input_gelu(view, libraries); });
  table.add("linear_backward_weight",
            [=](const OpView& view) { return make_linear_backward_weight(view, libraries); });
}

}  // namespace recollect::cuda
