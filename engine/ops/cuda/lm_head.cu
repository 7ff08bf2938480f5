// The language-model head with cross-entropy, chunk_rows rows of logits at a time. For each chunk: logits = x
// * w^T go into the workspace; a kernel computes the losses and replaces the logits by their gradient in
// place; two products make dx and add to dw. The full logits [tokens, vocabulary] never exist. Which kernels
// run does not depend on the targets' values, because only the device knows them. If the vocabulary is
// sharded over ranks, the maximum and the sums of each row are reduced over the ranks in between.
#include "engine/ops/cuda/columns.h"
#include "engine/ops/cuda/cross_entropy.h"
#include "engine/ops/cuda/faster.h"
#include "engine/ops/cuda/gemm.h"
#include "engine/ops/cuda/kernels.h"
#include "engine/ops/cuda/loss_sum.h"
#include "engine/ops/cuda/workspaces.h"
#include "engine/ops/lm_head.h"

namespace recollect::cuda {

namespace {

// The largest row in bytes that a block may keep in shared memory: two such blocks fit on a Hopper
// multiprocessor.
constexpr std::size_t kMostKept = std::size_t{112} << 10;

__global__ void __launch_bounds__(kLossThreads) rescale_sums(RowStatistics statistics, int64_t count) {
  const int64_t i = blockIdx.x * int64_t{kLossThreads} + threadIdx.x;
  if (i >= count) return;
  statistics.sum[i] *= __expf(statistics.own_max[i] - statistics.max[i]);
}

// The three matrix products of a chunk of `rows` rows.
struct ChunkProducts {
  ChunkProducts(const HeadShapes& shapes, Libraries* libraries)
      : logits(shapes.logits, libraries), dx(shapes.dx, libraries), dw(shapes.dw, libraries) {}

  Gemm logits, dx, dw;
};

template <typename A, int N>
class LmHeadLoss : public Kernel {
 public:
  LmHeadLoss(const OpView& view, VocabularyReduction* vocabulary, Libraries* libraries)
      : vocabulary_(vocabulary),
        libraries_(libraries),
        at_(view, vocabulary != nullptr),
        tokens_(at_.tokens),
        width_(at_.width),
        vocabulary_size_(view.attributes().integer("vocabulary_size")),
        chunk_(at_.chunk),
        gradient_(view.attributes().integer("gradient") != 0),
        overwrites_(view.attributes().has("overwrite")),
        bias_(at_.bias),
        gradients_(view),
        loss_(tokens_, 1, vocabulary_size_) {
    part_.cap = static_cast<float>(logit_cap(view.attributes()));
    part_.first = view.attributes().integer("first_row");
    part_.rows = at_.rows;
    part_.predicted = std::clamp<int64_t>(vocabulary_size_ - part_.first, 0, part_.rows);
    const auto products = [&](int64_t rows) {
      return std::make_unique<ChunkProducts>(at_.shapes(rows), libraries);
    };
    whole_ = products(chunk_);
    if (tokens_ % chunk_) rest_ = products(tokens_ % chunk_);
  }

  std::size_t workspace_bytes() const override { return at_.bytes(); }

  bool overwrites_to_prepare() const override { return true; }
  void prepare(const KernelArgs& args) override {
    loss_.prepare();
    for (ChunkProducts* products : {whole_.get(), rest_.get()}) {
      if (!products) continue;
      std::byte* logits = args.workspace;
      products->logits.prepare(args.in[0].data, args.in[1].data, logits, scratch(args), args.stream);
      if (!gradient_) continue;
      products->dx.prepare(logits, args.in[1].data, args.out[1].data, scratch(args), args.stream);
      if (gradients_.weight != kNone)
        products->dw.prepare(logits, args.in[0].data, out(args, gradients_.weight).data, scratch(args),
                             args.stream);
    }
    if constexpr (N > 1) keeps_ = keeps_rows(args);
  }

  void run(const KernelArgs& args) override {
    float* losses = losses_at(args);
    for (int64_t first = 0; first < tokens_; first += chunk_)
      chunk(args, first, std::min(chunk_, tokens_ - first), losses + first);
    loss_.run(losses, args.in[2].as<int32_t>(), args.in[3].as<double>(), args.out[0].as<double>(),
              args.accumulate, args.stream);
  }

  void check(const RunState&) override {
    const LossSum::BadTarget bad = loss_.bad_target();
    if (bad.number == 0) return;
    throw Error(ExitCode::kInput, "target " + std::to_string(bad.target) + " of token " +
                                      std::to_string(bad.number - 1) + " is outside the vocabulary of " +
                                      std::to_string(vocabulary_size_));
  }

 private:
  static const Tensor& out(const KernelArgs& args, int index) {
    return args.out[static_cast<std::size_t>(index)];
  }
  std::size_t row_bytes() const { return sizeof(A) * part_.rows; }
  float* losses_at(const KernelArgs& args) const {
    return reinterpret_cast<float*>(args.workspace + at_.logit_bytes() + at_.statistics_bytes());
  }
  std::byte* scratch(const KernelArgs& args) const { return args.workspace + at_.scratch_at(); }
  Targets targets(const KernelArgs& args) const { return {args.in[2].as<int32_t>(), vocabulary_size_}; }

  void chunk(const KernelArgs& args, int64_t first, int64_t count, float* losses) {
    // The host may test `training` here, because an evaluation is a separate program on the device.
    const bool gradient = gradient_ && args.state->training;
    ChunkProducts& products = count == chunk_ ? *whole_ : *rest_;
    A* logits = reinterpret_cast<A*>(args.workspace);
    const A* x = args.in[0].as<A>() + first * width_;
    products.logits.run(x, args.in[1].data, logits, bias_ ? args.in[4].data : nullptr, false, scratch(args),
                        args.stream);
    if (vocabulary_)
      divided(args, first, count, logits, losses, gradient);
    else
      whole(args, first, count, logits, losses, gradient);
    if (!gradient) return;
    products.dx.run(logits, args.in[1].data, args.out[1].as<A>() + first * width_, nullptr, false,
                    scratch(args), args.stream);
    const bool accumulate = (args.accumulate && !overwrites_) || first > 0;
    if (gradients_.weight != kNone)
      products.dw.run(logits, x, out(args, gradients_.weight).data, nullptr, accumulate, scratch(args),
                      args.stream);
    if (gradients_.bias != kNone)
      add_columns(logits, count, scratch(args), out(args, gradients_.bias).as<float>(), accumulate,
                  args.stream);
  }

  // Only a gradient reads the row a second time, so without one the row is not kept in shared memory.
  void whole(const KernelArgs& args, int64_t first, int64_t count, A* logits, float* losses, bool gradient) {
    if constexpr (N > 1)
      if (keeps_ && gradient) return losses_of<true>(args, first, count, logits, losses, true);
    losses_of<false>(args, first, count, logits, losses, gradient);
  }

  template <bool kKeeps>
  void losses_of(const KernelArgs& args, int64_t first, int64_t count, A* logits, float* losses,
                 bool gradient) {
    launch(losses_and_gradients<A, N, kKeeps>, grid_of(count), dim3(kLossThreads), kKeeps ? row_bytes() : 0,
           args.stream, logits, first, targets(args), part_, args.in[3].as<double>(), losses, gradient);
  }

  // Decides by timing if the kernel keeps a row in shared memory between its two passes. The second pass may
  // instead hit the L2 cache, and fewer blocks with rows fit on a multiprocessor. The name omits the rows of
  // a chunk, on which no bit depends.
  bool keeps_rows(const KernelArgs& args) {
    if (vocabulary_ || !gradient_ || row_bytes() > kMostKept ||
        !shares(losses_and_gradients<A, N, true>, kMostKept))  // once for all rows, whatever their size
      return false;
    const std::string name = "losses of rows of " + std::to_string(part_.predicted) + " of " +
                             std::to_string(part_.rows) + " " + std::string(name_of(kDTypeOf<A>)) + ", kept";
    A* logits = reinterpret_cast<A*>(args.workspace);
    return is_faster(
        libraries_, name, [&] { losses_of<true>(args, 0, chunk_, logits, losses_at(args), true); },
        [&] { losses_of<false>(args, 0, chunk_, logits, losses_at(args), true); }, args.stream);
  }

  // Adds the column sums of the logits' gradient to the gradient of the bias.
  void add_columns(const A* logits, int64_t count, std::byte* scratch, float* dbias, bool accumulate,
                   void* stream) const {
    float* partials = reinterpret_cast<float*>(scratch);
    run_walk(at_.sums, ColumnSumBody<A, N>{logits, part_.rows}, count, partials, stream);
    finish_sums(partials, at_.sums.blocks, part_.rows, dbias, accumulate, stream);
  }

  void divided(const KernelArgs& args, int64_t first, int64_t count, A* logits, float* losses,
               bool gradient) {
    float* own_max = reinterpret_cast<float*>(args.workspace + at_.logit_bytes());
    float *max = own_max + chunk_, *sums = max + chunk_;
    const RowStatistics statistics{own_max, max, sums, sums + count};
    launch(part_statistics<A, N>, grid_of(count), dim3(kLossThreads), 0, args.stream, logits, first,
           targets(args), part_, statistics);
    vocabulary_->max(max, count, args.stream);
    launch(rescale_sums, grid_of(ceil_div(count, kLossThreads)), dim3(kLossThreads), 0, args.stream,
           statistics, count);
    vocabulary_->sum(sums, 2 * count, args.stream);
    launch(part_gradients<A, N>, grid_of(count), dim3(kLossThreads), 0, args.stream, logits, first,
           targets(args), part_, statistics, args.in[3].as<double>(), losses, gradient);
  }

  VocabularyReduction* vocabulary_;
  Libraries* libraries_;
  HeadWorkspace at_;
  int64_t tokens_, width_, vocabulary_size_, chunk_;
  bool gradient_, overwrites_, bias_, keeps_ = false;
  HeadGradients gradients_;
  VocabularyPart part_;
  std::unique_ptr<ChunkProducts> whole_, rest_;
  LossSum loss_;
};

}  // namespace

void register_lm_head(KernelTable& table, VocabularyReduction* vocabulary, Libraries* libraries) {
  table.add("lm_head_loss", [vocabulary, libraries](const OpView& view) {
    return with_row_vectors(view.in(0).dtype, view.in(1).shape[0], "lm_head_loss",
                            [&]<typename A, int N>() -> KernelPointer {
                              return std::make_unique<LmHeadLoss<A, N>>(view, vocabulary, libraries);
                            });
  });
}

}  // namespace recollect::cuda
