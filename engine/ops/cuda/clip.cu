// The norm of all gradients, and the factor that clips by it. Each block sums the squares of a part of fixed
// size in double, and one block adds the parts, so the sum has the same bits in every run.
#include "engine/ops/clip.h"
#include "engine/ops/cuda/kernels.h"
#include "engine/ops/cuda/workspaces.h"
#include "engine/runtime/cuda/element.h"
#include "engine/runtime/cuda/reduce.h"

namespace recollect::cuda {

namespace {

constexpr int kThreads = 256, kLastThreads = 1024;
constexpr int64_t kPart = SquaredNormCut::kPart;
constexpr int kTensors = 128;  // tensors of a launch: their addresses are kernel arguments

struct Tensors {
  const float* data[kTensors];
  int64_t elements[kTensors];
  int32_t first_block[kTensors];  // within the launch
  int32_t count = 0;
};

__global__ void __launch_bounds__(kThreads) sum_squares(const Tensors tensors, double* parts) {
  const int block = blockIdx.x;
  int low = 0, high = tensors.count;  // binary search for the tensor of this block
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (tensors.first_block[middle] <= block)
      low = middle;
    else
      high = middle;
  }
  const int64_t begin = (block - tensors.first_block[low]) * kPart;
  const float* data = tensors.data[low] + begin;
  const int64_t left = tensors.elements[low] - begin, count = left < kPart ? left : kPart;
  double sum = 0.0;
#pragma unroll 4
  for (int64_t i = threadIdx.x * 4; i + 4 <= count; i += kThreads * 4) {
    const Floats<4> x = load<4>(data + i);
#pragma unroll
    for (int e = 0; e < 4; ++e) sum += static_cast<double>(x[e]) * x[e];
  }
  const int64_t rest = count / 4 * 4 + threadIdx.x;
  if (rest < count) sum += static_cast<double>(data[rest]) * data[rest];
  sum = reduce_block<Sum>(sum, 0.0);
  if (threadIdx.x == 0) parts[block] = sum;
}

__global__ void __launch_bounds__(kLastThreads) sum_parts(const double* parts, int64_t count, double* out) {
  double sum = 0.0;
  for (int64_t i = threadIdx.x; i < count; i += kLastThreads) sum += parts[i];
  sum = reduce_block<Sum>(sum, 0.0);
  if (threadIdx.x == 0) *out = sum;
}

class SquaredNorm : public Kernel {
 public:
  explicit SquaredNorm(const OpView& view) : cut_(view) {
    for (std::size_t i = 0; i < view.op.inputs.size(); ++i)
      if (view.in(static_cast<int>(i)).dtype != DType::kF32)
        throw Error(ExitCode::kConfiguration, "the cuda backend has squared_norm of f32 gradients only");
  }

  std::size_t workspace_bytes() const override { return cut_.bytes(); }

  void run(const KernelArgs& args) override {
    double* parts = reinterpret_cast<double*>(args.workspace);
    int64_t done = 0;
    for (std::size_t first = 0; first < cut_.elements.size(); first += kTensors) {
      Tensors tensors{};
      int32_t blocks = 0;
      for (std::size_t i = first; i < std::min(first + kTensors, cut_.elements.size()); ++i) {
        tensors.data[tensors.count] = args.in[i].as<float>();
        tensors.elements[tensors.count] = cut_.elements[i];
        tensors.first_block[tensors.count++] = blocks;
        blocks += static_cast<int32_t>(ceil_div(cut_.elements[i], kPart));
      }
      launch(sum_squares, grid_of(blocks), dim3(kThreads), 0, args.stream, tensors, parts + done);
      done += blocks;
    }
    launch(sum_parts, dim3(1), dim3(kLastThreads), 0, args.stream, parts, done, args.out[0].as<double>());
  }

 private:
  SquaredNormCut cut_;
};

__global__ void __launch_bounds__(kWarp) clip_by_norm(ClipInputs in, double* norm, double* factor) {
  if (threadIdx.x > 0) return;
  const Clip result = clip(in);
  *norm = result.norm;
  *factor = result.factor;
}

class ClipFactor : public Kernel {
 public:
  explicit ClipFactor(const Attributes& attributes) : attributes_(attributes) {}

  void run(const KernelArgs& args) override {
    launch(clip_by_norm, dim3(1), dim3(kWarp), 0, args.stream, ClipInputs(args.in, attributes_),
           args.out[0].as<double>(), args.out[1].as<double>());
  }

 private:
  Attributes attributes_;
};

}  // namespace

void register_clip(KernelTable& table) {
  table.add("squared_norm",
            [](const OpView& view) -> KernelPointer { return std::make_unique<SquaredNorm>(view); });
  table.add("clip_factor", [](const OpView& view) -> KernelPointer {
    return std::make_unique<ClipFactor>(view.attributes());
  });
}

}  // namespace recollect::cuda
