// Losses of class targets (cross-entropy) and of numeric targets (squared error, sigmoid cross-entropy), with
// their gradients with respect to the logits. For classes, a warp handles one row and column; for numbers, a
// block handles kLossRun elements.
#include "engine/ops/label_loss.h"

#include "engine/core/arena.h"
#include "engine/core/ignored_label.h"
#include "engine/ops/cuda/gelu.h"
#include "engine/ops/cuda/loss_sum.h"
#include "engine/ops/cuda/row_kernel.h"
#include "engine/ops/cuda/workspaces.h"
#include "engine/runtime/cuda/reduce.h"

namespace recollect::cuda {

namespace {

constexpr int kWarps = 8;  // of a block
constexpr int kThreads = 256;

template <typename A>
struct Classes {
  const A* logits;
  const int32_t* targets;
  const double* scale;
  int64_t count, classes, columns;  // of targets; of a row
};

// Softmax over the classes of one target: loss = log(sum(e^(x - max))) - (x[target] - max), dlogits = scale *
// (softmax - one_hot(target)). dlogits is null if no gradient is wanted, and may be the same memory as the
// logits.
template <typename A>
__global__ void __launch_bounds__(kWarp* kWarps)
    class_losses(Classes<A> in, float* __restrict__ losses, A* dlogits) {
  const int64_t at = blockIdx.x * int64_t{kWarps} + threadIdx.y;
  if (at >= in.count) return;
  const int64_t column = at % in.columns, first = at / in.columns * in.classes * in.columns + column;
  const A* x = in.logits + first;
  const int32_t target = in.targets[at];
  const bool counts = target >= 0 && target < in.classes;  // check() reports wrong targets later
  float max = -INFINITY, sum = 0.0f;
  for (int64_t j = threadIdx.x; j < in.classes; j += kWarp) max = fmaxf(max, load_one(x + j * in.columns));
  max = reduce_warp<Max>(max);
  for (int64_t j = threadIdx.x; j < in.classes; j += kWarp) sum += __expf(load_one(x + j * in.columns) - max);
  sum = reduce_warp<Sum>(sum);
  const float above = counts ? load_one(x + target * in.columns) - max : 0.0f;
  if (threadIdx.x == 0) losses[at] = counts ? logf(sum) - above : 0.0f;
  __syncwarp();  // dlogits may overwrite the target's logit only after all have read it
  if (!dlogits) return;
  A* dx = dlogits + first;
  const float scale = counts ? static_cast<float>(in.scale[column]) : 0.0f, share = 1.0f / sum;
  for (int64_t j = threadIdx.x; j < in.classes; j += kWarp) {
    const float probability = __expf(load_one(x + j * in.columns) - max) * share;
    store_one(dx + j * in.columns, counts ? scale * (probability - (j == target ? 1.0f : 0.0f)) : 0.0f);
  }
}

template <typename A>
class CrossEntropyLoss : public Kernel {
 public:
  explicit CrossEntropyLoss(const OpView& view)
      : count_(view.in(1).shape.elements()),
        classes_(view.attributes().integer("classes")),
        columns_(view.attributes().integer("columns")),
        gradient_(view.attributes().integer("gradient") != 0),
        bytes_(class_loss_bytes(view)),
        loss_(count_, columns_, classes_) {}
  std::size_t workspace_bytes() const override { return bytes_; }
  void prepare(const KernelArgs&) override { loss_.prepare(); }

  void run(const KernelArgs& args) override {
    const Classes<A> in{
        args.in[0].as<A>(), args.in[1].as<int32_t>(), args.in[2].as<double>(), count_, classes_, columns_};
    float* losses = reinterpret_cast<float*>(args.workspace);
    A* dlogits = gradient_ && args.state->training ? args.out[1].as<A>() : nullptr;
    launch(class_losses<A>, grid_of(ceil_div(count_, kWarps)), dim3(kWarp, kWarps), 0, args.stream, in,
           losses, dlogits);
    loss_.run(losses, in.targets, in.scale, args.out[0].as<double>(), args.accumulate, args.stream);
  }

  void check(const RunState&) override {
    const LossSum::BadTarget bad = loss_.bad_target();
    if (bad.number > 0) throw no_such_class(bad.target, bad.number - 1, classes_, columns_);
  }

 private:
  int64_t count_, classes_, columns_;
  bool gradient_;
  std::size_t bytes_;
  LossSum loss_;
};

struct Squared {
  static __device__ float value(float x, float target) { return (x - target) * (x - target); }
  static __device__ float derivative(float x, float target) { return 2.0f * (x - target); }
};

// Cross-entropy of sigmoid(x), written so that no exponential can overflow.
struct Sigmoid {
  static __device__ float value(float x, float target) {
    return fmaxf(x, 0.0f) - x * target + log1pf(__expf(-fabsf(x)));
  }
  static __device__ float derivative(float x, float target) { return sigmoid(x) - target; }
};

// losses[b] is the sum over the elements of block b. Elements whose target is NaN are ignored. dlogits: see
// class_losses.
template <typename A, typename Form>
__global__ void __launch_bounds__(kThreads)
    number_losses(const A* logits, const float* __restrict__ targets, int64_t count, const double* scale,
                  float* __restrict__ losses, A* dlogits) {
  const int64_t first = blockIdx.x * int64_t{kLossRun},
                end = first + kLossRun < count ? first + kLossRun : count;
  const float s = static_cast<float>(*scale);
  float sum = 0.0f;
  for (int64_t i = first + threadIdx.x; i < end; i += kThreads) {
    const float x = load_one(logits + i), target = targets[i];
    const bool counts = !isnan(target);
    sum += counts ? Form::value(x, target) : 0.0f;
    if (dlogits) store_one(dlogits + i, counts ? s * Form::derivative(x, target) : 0.0f);
  }
  sum = reduce_block<Sum>(sum, 0.0f);
  if (threadIdx.x == 0) losses[blockIdx.x] = sum;
}

template <typename A, typename Form>
class ElementwiseLoss : public Kernel {
 public:
  explicit ElementwiseLoss(const OpView& view)
      : count_(view.in(0).shape.elements()),
        blocks_(loss_runs(view)),
        gradient_(view.attributes().integer("gradient") != 0),
        bytes_(number_loss_bytes(view)),
        loss_(blocks_, 1, 0) {}
  std::size_t workspace_bytes() const override { return bytes_; }
  void prepare(const KernelArgs&) override { loss_.prepare(); }

  void run(const KernelArgs& args) override {
    float* losses = reinterpret_cast<float*>(args.workspace);
    const double* scale = args.in[2].as<double>();
    A* dlogits = gradient_ && args.state->training ? args.out[1].as<A>() : nullptr;
    launch(number_losses<A, Form>, grid_of(blocks_), dim3(kThreads), 0, args.stream, args.in[0].as<A>(),
           args.in[1].as<float>(), count_, scale, losses, dlogits);
    loss_.run(losses, nullptr, scale, args.out[0].as<double>(), args.accumulate, args.stream);
  }

 private:
  int64_t count_, blocks_;
  bool gradient_;
  std::size_t bytes_;
  LossSum loss_;
};

KernelPointer make_elementwise_loss(const OpView& view) {
  return with_activation_type(view.in(0).dtype, "elementwise_loss", [&]<typename A>() -> KernelPointer {
    if (view.attributes().text("form") == "squared")
      return std::make_unique<ElementwiseLoss<A, Squared>>(view);
    return std::make_unique<ElementwiseLoss<A, Sigmoid>>(view);
  });
}

}  // namespace

void register_label_loss(KernelTable& table) {
  add_kernel<CrossEntropyLoss>(table, "cross_entropy_loss");
  table.add("elementwise_loss", make_elementwise_loss);
}

}  // namespace recollect::cuda
