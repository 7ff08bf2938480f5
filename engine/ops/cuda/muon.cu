// Muon's kernels, each one pass over memory. Blocks make sums of squares, which are added in a fixed order.
#include "engine/ops/muon.h"

#include "engine/ops/cuda/kernels.h"
#include "engine/ops/cuda/workspaces.h"
#include "engine/runtime/cuda/element.h"
#include "engine/runtime/cuda/reduce.h"

namespace recollect::cuda {

namespace {

constexpr int kThreads = kPassThreads;

__global__ void __launch_bounds__(kThreads)
    directions(const MuonSettings s, const double* factor, const float* gradient, int64_t elements,
               float* buffer, float* direction, double* sums) {
  const bool changes = !isnan(*factor);
  const auto clip = static_cast<float>(*factor), momentum = static_cast<float>(s.momentum);
  const int64_t step = gridDim.x * int64_t{kThreads};
  double sum = 0;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < elements; i += step) {
    float d = 0;
    if (changes) {
      float b = buffer[i];
      d = muon_direction(gradient[i] * clip, momentum, s.nesterov, b);
      buffer[i] = b;
    }
    direction[i] = d;
    sum += static_cast<double>(d) * d;
  }
  sum = reduce_block<Sum>(sum, 0.0);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads) add_squares(const double* sums, int64_t count, double* square) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) sum += sums[i];
  sum = reduce_block<Sum>(sum, 0.0);
  if (threadIdx.x == 0) *square = sum;
}

__global__ void __launch_bounds__(kThreads) combine(const MuonSettings s, const float* a, const float* b,
                                                    const double* square, int64_t elements, float* to) {
  const double divisor = square ? norm_of(s, *square) : 1.0;
  const auto alpha = static_cast<float>(s.alpha / divisor), beta = static_cast<float>(s.beta / divisor);
  const int64_t step = gridDim.x * int64_t{kThreads};
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < elements; i += step)
    to[i] = alpha * a[i] + (b ? beta * b[i] : 0.0f);
}

template <typename A>
__global__ void __launch_bounds__(kThreads)
    step_along(const MuonSettings s, const double* schedule, const double* factor, const float* direction,
               int64_t elements, float* master, A* param) {
  if (isnan(*factor)) return;
  const double given = *schedule * s.rate_scale;
  const auto decay = static_cast<float>(given * s.weight_decay),
             rate = static_cast<float>(given * s.adjustment);
  const int64_t step = gridDim.x * int64_t{kThreads};
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < elements; i += step) {
    const float w = muon_moved(master[i], direction[i], decay, rate);
    master[i] = w;
    if (param) store<1>(param + i, Floats<1>{{w}});
  }
}

void require_floats(const OpView& view, int input, const char* kind) {
  if (view.in(input).dtype != DType::kF32)
    throw Error(ExitCode::kConfiguration,
                std::string("the cuda backend has ") + kind + " of f32 gradients only");
}

class MuonDirection final : public Kernel {
 public:
  explicit MuonDirection(const OpView& view)
      : s_(view.attributes()),
        begin_(s_.first_row * view.in(1).shape[1]),
        elements_(s_.rows * view.in(1).shape[1]),
        bytes_(muon_direction_bytes(view)) {
    require_floats(view, 1, "muon_direction");
  }

  std::size_t workspace_bytes() const override { return bytes_; }

  void run(const KernelArgs& args) override {
    double* const sums = reinterpret_cast<double*>(args.workspace);
    const int64_t blocks = pass_blocks(elements_);
    launch(directions, grid_of(blocks), dim3(kThreads), 0, args.stream, s_, args.in[0].as<double>(),
           args.in[1].as<float>() + begin_, elements_, args.out[0].as<float>() + begin_,
           args.out[1].as<float>(), sums);
    launch(add_squares, dim3(1), dim3(kThreads), 0, args.stream, sums, blocks, args.out[2].as<double>());
  }

 private:
  MuonSettings s_;
  int64_t begin_, elements_;
  std::size_t bytes_;
};

class Combine final : public Kernel {
 public:
  explicit Combine(const OpView& view) : s_(view.attributes()) { require_floats(view, 0, "combine"); }

  void run(const KernelArgs& args) override {
    const bool two = args.in.size() > 1 && args.in[1].defined(),
               divided = args.in.size() > 2 && args.in[2].defined();
    const int64_t elements = args.in[0].elements();
    launch(combine, grid_of(pass_blocks(elements)), dim3(kThreads), 0, args.stream, s_,
           args.in[0].as<float>(), two ? args.in[1].as<float>() : nullptr,
           divided ? args.in[2].as<double>() : nullptr, elements, args.out[0].as<float>());
  }

 private:
  MuonSettings s_;
};

template <typename A>
class Muon final : public Kernel {
 public:
  explicit Muon(const OpView& view)
      : s_(view.attributes()),
        cast_(view.attributes().integer("cast") != 0),
        begin_(s_.first_row * view.out(0).shape[1]) {}

  void run(const KernelArgs& args) override {
    const int64_t elements = args.in[2].elements();
    launch(step_along<A>, grid_of(pass_blocks(elements)), dim3(kThreads), 0, args.stream, s_,
           args.in[0].as<double>(), args.in[1].as<double>(), args.in[2].as<float>(), elements,
           args.out[0].as<float>() + begin_, cast_ ? args.out[1].as<A>() + begin_ : nullptr);
  }

 private:
  MuonSettings s_;
  bool cast_;
  int64_t begin_;
};

}  // namespace

void register_muon(KernelTable& table) {
  table.add("muon_direction",
            [](const OpView& view) -> KernelPointer { return std::make_unique<MuonDirection>(view); });
  table.add("combine", [](const OpView& view) -> KernelPointer { return std::make_unique<Combine>(view); });
  table.add("muon", [](const OpView& view) {
    require_floats(view, 2, "muon");
    const bool cast = view.attributes().integer("cast") != 0;
    return with_activation_type(
        cast ? view.out(1).dtype : DType::kF32, "muon",
        [&]<typename A>() -> KernelPointer { return std::make_unique<Muon<A>>(view); });
  });
}

}  // namespace recollect::cuda
