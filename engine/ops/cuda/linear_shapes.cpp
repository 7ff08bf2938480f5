#include "engine/ops/cuda/linear_shapes.h"

#include "engine/core/error.h"

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

// A piece of a product, or one that passes have marked.
bool beside_collectives(const OpView& view) {
  return view.attributes().has("whole_rows") || view.attributes().has("beside_collectives");
}

GemmShape shape_of_codes(const OpView& view, DType out) {
  constexpr int64_t kMultiple = 16;
  const Value &a = view.in(0), &b = view.in(2);
  for (const int64_t size : {a.shape[0], a.shape[1], b.shape[0]})
    if (size % kMultiple != 0)
      throw Error(ExitCode::kConfiguration,
                  view.op.name + ": a device multiplies FP8 in multiples of 16, and this is " +
                      a.shape.to_string() + " by " + b.shape.to_string() + " transposed",
                  "take sizes of the model, and tokens of a micro-batch, that are multiples of 16 on every "
                  "rank, or training.fp8: false");
  return {.m = a.shape[0],
          .n = b.shape[0],
          .k = a.shape[1],
          .transpose_b = true,
          .in = a.dtype,
          .out = out,
          .second = b.dtype};
}

}  // namespace

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

GemmShape shape_of_linear_rows(const OpView& view) {
  GemmShape shape = shape_of_linear(view);
  shape.m = view.attributes().integer("rows");
  return shape;
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

GemmShape shape_of_linear_backward_weight(const OpView& view) {
  const DType dtype = checked_type(view);
  const Shape x = view.in(0).shape, dy = view.in(1).shape;
  return {.m = dy[1],
          .n = x[1],
          .k = x[0],
          .transpose_a = true,
          .in = dtype,
          .accumulates = true,
          .beside_collectives = beside_collectives(view)};
}

GemmShape shape_of_linear_fp8(const OpView& view) {
  const DType out = view.in(4).dtype;
  GemmShape shape = shape_of_codes(view, out);
  shape.biased = view.has_input(5) && out != DType::kF32;
  return shape;
}

GemmShape shape_of_linear_fp8_backward_weight(const OpView& view) {
  require(view.in(1).dtype == DType::kF32, "gradients of weights are f32");
  GemmShape shape = shape_of_codes(view, DType::kF32);
  shape.accumulates = true;
  return shape;
}

HeadShapes shapes_of_head(int64_t rows, int64_t vocabulary, int64_t width, DType dtype, bool bias) {
  return {
      .logits = {.m = rows,
                 .n = vocabulary,
                 .k = width,
                 .transpose_b = true,
                 .in = dtype,
                 .out = dtype,
                 .biased = bias},
      .dx = {.m = rows, .n = width, .k = vocabulary, .in = dtype, .out = dtype},
      .dw = {.m = vocabulary, .n = width, .k = rows, .transpose_a = true, .in = dtype, .accumulates = true}};
}

}  // namespace recollect::cuda
