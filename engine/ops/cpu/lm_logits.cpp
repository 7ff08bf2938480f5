// Logits of one row, for generation. The head's weights are read once, and nothing is rounded below float.
#include <omp.h>

#include "engine/ops/cpu/kernels.h"
#include "engine/ops/cpu/row_product.h"
#include "engine/ops/cpu/simd_math.h"
#include "engine/ops/lm_head.h"

namespace recollect::cpu {

namespace {

template <typename A>
class LmLogits : public Kernel {
 public:
  explicit LmLogits(const OpView& view)
      : width_(view.in(1).shape[1]),
        cap_(static_cast<float>(logit_cap(view.attributes()))),
        product_(omp_get_max_threads(), view.in(1).shape[0], width_) {}

  void run(const KernelArgs& args) override {
    const int64_t last = args.in[2].as<int32_t>()[1] - 1;
    product_.run(args.in[0].as<A>() + last * width_, args.in[1].as<A>(), nullptr, args.out[0].as<float>());
    if (cap_ == 0) return;
    float* logits = args.out[0].as<float>();
#pragma omp simd
    for (int64_t v = 0; v < args.out[0].elements(); ++v) logits[v] = cap_ * fast_tanh(logits[v] / cap_);
  }

 private:
  int64_t width_;
  float cap_;
  RowProduct product_;
};

}  // namespace

void register_lm_logits(KernelTable& table) { add_kernel<LmLogits>(table, "lm_logits"); }

}  // namespace recollect::cpu
