// Which matrix products ops are made of. Of an op alone: asked by the kernels, and where programs are planned without them.
#pragma once

#include "engine/graph/op_def.h"
#include "engine/ops/cuda/gemm.h"

namespace recollect::cuda {

// Error kConfiguration, naming what it is, for dtypes that the backend has no products of.
GemmShape shape_of_linear(const OpView& view);
GemmShape shape_of_linear_rows(const OpView& view);
GemmShape shape_of_linear_backward_input(const OpView& view);
GemmShape shape_of_linear_backward_weight(const OpView& view);

// Error kConfiguration, naming the op, where sizes are not the device's multiples.
GemmShape shape_of_linear_fp8(
    const OpView& view);  // unbiased where the output is f32: such a bias is added apart
GemmShape shape_of_linear_fp8_backward_weight(const OpView& view);

// Of so many rows of the head and its loss.
struct HeadShapes {
  GemmShape logits, dx, dw;
};
HeadShapes shapes_of_head(int64_t rows, int64_t vocabulary, int64_t width, DType dtype, bool bias);

}  // namespace recollect::cuda
