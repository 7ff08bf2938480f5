// How kernels divide their work and how much workspace they need for it. Matrix products and attention have
// headers of their own. Each size depends on one op only. The kernels use them, and so does the planner in a
// build without kernels (planned_kernels.h).
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include "engine/core/arena.h"
#include "engine/core/error.h"
#include "engine/ops/adafactor.h"
#include "engine/ops/cuda/column_walk.h"
#include "engine/ops/cuda/gemm_workspace.h"
#include "engine/ops/cuda/linear_shapes.h"
#include "engine/ops/muon.h"
#include "engine/ops/norm.h"

namespace recollect::cuda {

// The gradients of a weight and its bias are made by one product, or by a product and a pass that needs
// `of_pass` bytes. The bias sums of a micro-batch follow the product's own workspace.
inline std::size_t bias_sums_at() { return aligned(workspace_bytes_with_sums()); }
inline std::size_t weight_and_bias_bytes(const GemmShape& shape, std::size_t of_pass) {
  return std::max({workspace_bytes_of(shape), of_pass, bias_sums_at() + sizeof(float) * shape.m});
}

// The workspace of lm_head_loss, in this order: the logits of a chunk of rows; statistics of these rows if
// the vocabulary is sharded; the losses of all rows; the scratch of a chunk's products and column sums.
struct HeadWorkspace {
  HeadWorkspace(const OpView& view, bool divided)
      : tokens(view.in(0).shape[0]),
        width(view.in(0).shape[1]),
        rows(view.in(1).shape[0]),
        chunk(std::min(view.attributes().integer("chunk_rows"), tokens)),
        dtype(view.in(0).dtype),
        divided(divided),
        bias(view.has_input(4)) {
    require(tokens < int64_t{1} << 31, "lm_head_loss numbers tokens in 32 bits");
    if (bias) sums = {chunk, rows, row_vector(dtype, rows)};
  }

  std::size_t logit_bytes() const { return aligned(size_of(dtype) * chunk * rows); }
  std::size_t statistics_bytes() const { return divided ? aligned(4 * sizeof(float) * chunk) : 0; }
  std::size_t loss_bytes() const { return aligned(sizeof(float) * tokens); }
  std::size_t scratch_at() const { return logit_bytes() + statistics_bytes() + loss_bytes(); }
  HeadShapes shapes(int64_t count) const { return shapes_of_head(count, rows, width, dtype, bias); }

  std::size_t bytes() const {
    std::size_t most = std::max(product_bytes(chunk), sums.partial_bytes(1));
    if (tokens % chunk) most = std::max(most, product_bytes(tokens % chunk));
    return scratch_at() + most;
  }

  int64_t tokens, width, rows, chunk;  // rows: of the head on this rank
  DType dtype;
  bool divided, bias;
  ColumnWalk sums;  // column sums of a chunk's logits, for the bias

 private:
  std::size_t product_bytes(int64_t count) const {
    const HeadShapes of = shapes(count);
    return std::max({workspace_bytes_of(of.logits), workspace_bytes_of(of.dx), workspace_bytes_of(of.dw)});
  }
};

// Class losses: one f32 per target. Numeric losses: one f32 per run of kLossRun elements, which a block adds
// up.
inline std::size_t class_loss_bytes(const OpView& view) {
  return sizeof(float) * view.in(1).shape.elements();
}
inline constexpr int64_t kLossRun = 1024;
inline int64_t loss_runs(const OpView& view) { return ceil_div(view.in(0).shape.elements(), kLossRun); }
inline std::size_t number_loss_bytes(const OpView& view) { return sizeof(float) * loss_runs(view); }

// A norm's gradient. Threads have so many vectors of a row; 0: any row, by two kernels.
struct NormBackwardWorkspace {
  static constexpr int kThreads = 512;               // of a block, at most
  static constexpr int64_t kOneVectorThreads = 256;  // a row of more vectors gives each thread two

  NormBackwardWorkspace(const OpView& view, bool centered) : parameters(centered ? 2 : 1) {
    const Value& x = view.in(1);
    const int vector = row_vector(x.dtype, x.shape[1]);
    walk = walk_of(x);
    if (vector == 1 || x.shape[1] > int64_t{vector} * 2 * kThreads) return;
    vectors = x.shape[1] <= kOneVectorThreads * vector ? 1 : 2;
    threads = static_cast<int>(ceil_div(ceil_div(x.shape[1], vector * vectors), kWarp) * kWarp);
    groups = kThreads / threads;
    blocks = std::min(ceil_div(x.shape[0], 4 * groups), 2 * kMultiprocessors);
  }

  std::size_t bytes() const {
    return vectors > 0 ? sizeof(float) * parameters * blocks * walk.width : walk.partial_bytes(parameters);
  }

  int parameters, vectors = 0;
  int threads = 0, groups = 0;  // a row's, and how many rows a block has at a time
  int64_t blocks = 0;
  ColumnWalk walk;
};

// Norms of heads. `lanes` threads compute a head, `vectors` vectors each; a block computes `groups` heads at a time.
struct HeadNormCut {
  static constexpr int kThreads = 256;  // of a block

  // `x`: the number of the input with the heads; their weights are the next inputs.
  HeadNormCut(const OpView& view, int x)
      : size(view.in(x + 1).shape[0]),
        first(view.attributes().integer("heads")),
        all(first + view.attributes().integer("second_heads")),
        kinds(all > first ? 2 : 1),
        epsilon(static_cast<float>(view.attributes().real("epsilon"))),
        offset(static_cast<float>(weight_offset(view.attributes()))) {
    const Value& value = view.in(x);
    vector = std::min(row_vector(value.dtype, size), row_vector(value.dtype, value.shape[1]));
    const auto whole = static_cast<uint32_t>(ceil_div(size, vector));
    lanes = static_cast<int>(std::min<uint32_t>(std::bit_ceil(whole), kWarp));
    vectors = ceil_div(whole, lanes);
    groups = kThreads / lanes;
    blocks = std::min(ceil_div(value.shape[0] * all, 4 * groups), 4 * kMultiprocessors);
  }
  // For partial sums of the weights' gradients.
  std::size_t bytes() const { return sizeof(float) * kinds * blocks * size; }

  int64_t size, first, all;  // size of a head; number of heads
  int kinds;
  float epsilon, offset;
  int vector = 1, lanes = 1, groups = 1;
  int64_t vectors = 1, blocks = 1;
};

// The gradient of a table. The sorted tokens are cut into chunks. The workspace holds two partial sums per
// chunk (for its first and its last row), then the sorted rows and tokens.
struct TableWorkspace {
  static constexpr int kChunk = 64;

  TableWorkspace(int64_t tokens, int64_t width)
      : tokens(tokens), width(width), chunks(ceil_div(tokens, kChunk)) {
    require(tokens < int64_t{1} << 31, "the gradient of a table numbers tokens in 32 bits");
  }
  std::size_t bytes() const {
    return sizeof(float) * 2 * chunks * width + sizeof(int32_t) * (2 * tokens + 1);
  }

  int64_t tokens, width, chunks;
};

inline TableWorkspace table_workspace(const OpView& view) {
  return {view.in(0).shape.elements(), view.out(0).shape[1]};
}

// A table of few rows is summed down the columns, two rows at a time (embedding_backward.cu).
inline bool is_small_table(const OpView& view) { return view.out(0).shape[0] <= 4; }
inline std::size_t add_embedding_backward_bytes(const OpView& view) {
  const ColumnWalk walk = walk_of(view.in(0));
  return is_small_table(view) ? walk.partial_bytes(2)
                              : TableWorkspace(view.in(0).shape[0], walk.width).bytes();
}

// Workspace of an encoding in 8-bit codes: the factor, then the largest magnitude of each of `parts` parts.
inline constexpr std::size_t kFactorBytes = 64;
constexpr std::size_t code_bytes(int64_t parts) { return kFactorBytes + sizeof(uint32_t) * parts; }

inline constexpr int64_t kQuantisedPart = 1 << 14;  // elements of a block that looks for the largest
inline int64_t parts_of_value(const OpView& view) {
  return ceil_div(view.in(0).shape.elements(), kQuantisedPart);
}

inline int64_t parts_of(const ColumnWalk& walk) { return walk.blocks * walk.tiles; }

// The walk of an activation kernel whose output rows consist of `runs` runs of `width`.
inline ColumnWalk walk_of_activation(const OpView& view, int runs) {
  const int64_t width = view.out(0).shape[1] / runs;
  return {view.out(0).shape[0], width, row_vector(view.in(0).dtype, width)};
}

// Norms, forward: narrow rows are a warp's, wide ones a block's.
struct NormRowsCut {
  static constexpr int kWarps = 8;              // of a block
  static constexpr int64_t kWarpVectors = 256;  // a row of more is a block's

  explicit NormRowsCut(const OpView& view)
      : rows(view.in(0).shape[0]),
        width(view.in(0).shape[1]),
        block_rows(width > kWarpVectors * row_vector(view.in(0).dtype, width)) {}
  int64_t blocks() const { return block_rows ? rows : ceil_div(rows, kWarps); }

  int64_t rows, width;
  bool block_rows;  // a row is a block's
};

// The number of blocks in an optimizer's pass over `elements` elements. Each block may make one partial sum.
inline constexpr int64_t kPassThreads = 256, kMostPassBlocks = 8 * kMultiprocessors;
inline int64_t pass_blocks(int64_t elements) {
  return std::min(ceil_div(elements, kPassThreads), kMostPassBlocks);
}

inline std::size_t muon_direction_bytes(const OpView& view) {
  return sizeof(double) * pass_blocks(MuonSettings(view.attributes()).rows * view.in(1).shape[1]);
}

// One matrix of a parameter. `gradient` is the index of the input with the gradient.
struct AdafactorCut {
  static constexpr int64_t kMostRowParts = 128;  // maximum number of parts for column sums

  AdafactorCut(const OpView& view, int gradient) {
    const AdafactorSettings settings(view.attributes());
    const Shape& shape = view.in(gradient).shape;
    factored = settings.factored;
    rows = settings.rows;
    columns = shape.rank() == 1 ? 1 : shape[1];
    blocks = pass_blocks(rows * columns);
    part_rows = ceil_div(rows, kMostRowParts);
    parts = ceil_div(rows, part_rows);
  }
  std::size_t sum_bytes() const { return sizeof(double) * std::max(blocks, factored ? parts * columns : 0); }
  std::size_t moment_bytes() const { return sizeof(double) * blocks; }

  bool factored;
  int64_t rows, columns, blocks, part_rows, parts;
};

// The norm of all gradients: each gradient is cut into parts, and each part has a partial sum.
struct SquaredNormCut {
  static constexpr int64_t kPart = 1 << 15;  // elements of a block

  explicit SquaredNormCut(const OpView& view) {
    for (std::size_t i = 0; i < view.op.inputs.size(); ++i) {
      elements.push_back(view.in(static_cast<int>(i)).shape.elements());
      blocks += ceil_div(elements.back(), kPart);
    }
  }
  std::size_t bytes() const { return sizeof(double) * std::max<int64_t>(blocks, 1); }

  std::vector<int64_t> elements;
  int64_t blocks = 0;
};

}  // namespace recollect::cuda
