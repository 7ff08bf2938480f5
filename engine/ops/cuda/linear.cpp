// Linear layers: three matrix products, the bias gradient's column sums, and GELU and its derivative, each beside a product or by
// it. Nothing here is NVIDIA's.
#include <algorithm>

#include "engine/core/arena.h"
#include "engine/ops/cuda/bias_of_rows.h"
#include "engine/ops/cuda/gemm.h"
#include "engine/ops/cuda/gemm_gelu.h"
#include "engine/ops/cuda/gemm_sums.h"
#include "engine/ops/cuda/kernels.h"
#include "engine/ops/cuda/linear_shapes.h"
#include "engine/ops/cuda/workspaces.h"

namespace recollect::cuda {

namespace {

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

// Where adds_bias_after().
class ProductThenBias : public Kernel {
 public:
  ProductThenBias(const GemmShape& shape, Libraries* libraries)
      : shape_(shape), gemm_(shape_before_bias(shape), libraries) {}

  std::size_t workspace_bytes() const override { return workspace_bytes_with_bias_after(shape_); }

  bool overwrites_to_prepare() const override { return true; }
  void prepare(const KernelArgs& args) override {
    gemm_.prepare(args.in[0].data, args.in[1].data, product(args), args.workspace, args.stream);
  }

  void run(const KernelArgs& args) override {
    gemm_.run(args.in[0].data, args.in[1].data, product(args), nullptr, false, args.workspace, args.stream);
    add_bias_of_rows(product(args), args.in[2].as<float>(), shape_.n, args.out[0], args.stream);
  }

 private:
  float* product(const KernelArgs& args) const {
    return reinterpret_cast<float*>(args.workspace + product_before_bias_at(shape_));
  }

  GemmShape shape_;
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
      : shape_(shape), weight_(shape, libraries), both_(shape, libraries), sum_(std::move(sum)) {}

  std::size_t workspace_bytes() const override {
    return weight_and_bias_bytes(shape_, sum_->workspace_bytes());
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
          *sums = args.accumulate ? reinterpret_cast<float*>(args.workspace + bias_sums_at()) : dbias;
    both_.run(args.in[1].data, args.in[0].data, args.out[0].data, sums, args.accumulate, args.workspace,
              args.stream);
    if (args.accumulate) finish_sums(sums, 1, shape_.m, dbias, true, args.stream);
  }

 private:
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

  GemmShape shape_;
  WeightGradient weight_;
  GemmWithSums both_;
  KernelPointer sum_;
  bool together_ = false;
};

KernelPointer make_linear(const OpView& view, Libraries* libraries) {
  const GemmShape shape = shape_of_linear(view);
  if (adds_bias_after(shape)) return std::make_unique<ProductThenBias>(shape, libraries);
  return std::make_unique<Product>(shape, libraries);
}

KernelPointer make_linear_gelu(const OpView& view, Libraries* libraries) {
  Op pass = view.op;
  pass.inputs = {view.op.outputs[1]};
  return std::make_unique<ProductAndGelu>(shape_of_linear(view), make_pass_of_gelu({view.graph, pass}),
                                          libraries);
}

KernelPointer make_linear_rows(const OpView& view, Libraries* libraries) {
  return std::make_unique<ProductOfRows>(shape_of_linear_rows(view), view.attributes(), libraries);
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
  const GemmShape shape = shape_of_linear_backward_weight(view);
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
