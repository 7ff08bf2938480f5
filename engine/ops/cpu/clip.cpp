// The norm of all gradients, and the factor that clips by it. The squared norm adds up fixed blocks in order,
// so it does not depend on the number of threads.
#include "engine/ops/clip.h"

#include <omp.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "engine/ops/cpu/element.h"
#include "engine/ops/cpu/kernels.h"

namespace recollect::cpu {

namespace {

constexpr int64_t kNormBlock = 1 << 15;

class SquaredNorm : public Kernel {
 public:
  explicit SquaredNorm(const OpView& view) : threads_(omp_get_max_threads()) {
    for (std::size_t i = 0; i < view.op.inputs.size(); ++i) {
      const int64_t elements = view.in(static_cast<int>(i)).shape.elements();
      begins_.push_back(blocks_);
      blocks_ += elements / kNormBlock + (elements % kNormBlock != 0);
    }
  }

  std::size_t workspace_bytes() const override {
    return sizeof(double) * static_cast<std::size_t>(std::max<int64_t>(blocks_, 1));
  }

  void run(const KernelArgs& args) override {
    double* partial = reinterpret_cast<double*>(args.workspace);
    parallel_ranges(threads_, blocks_, [&](int64_t first, int64_t last, int) {
      for (int64_t b = first; b < last; ++b) partial[b] = squares_of_block(args, b);
    });
    double sum = 0;
    for (int64_t b = 0; b < blocks_; ++b) sum += partial[b];
    *args.out[0].as<double>() = sum;
  }

 private:
  double squares_of_block(const KernelArgs& args, int64_t block) const {
    const auto behind = std::upper_bound(begins_.begin(), begins_.end(), block);
    const Tensor& in = args.in[static_cast<std::size_t>(behind - begins_.begin() - 1)];
    const int64_t first = (block - *std::prev(behind)) * kNormBlock;
    return squares(in.as<float>() + first, std::min(kNormBlock, in.elements() - first));
  }

  static double squares(const float* x, int64_t count) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * x[i];
    return sum;
  }

  int threads_;
  std::vector<int64_t> begins_;  // by input: its first block
  int64_t blocks_ = 0;
};

class ClipFactor : public Kernel {
 public:
  explicit ClipFactor(const Attributes& attributes) : attributes_(attributes) {}

  void run(const KernelArgs& args) override {
    const auto [norm, factor] = clip(ClipInputs(args.in, attributes_));
    *args.out[0].as<double>() = norm;
    *args.out[1].as<double>() = factor;
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

}  // namespace recollect::cpu
