// The logits of one row: its product with every row of the head.
#include <cmath>

#include "engine/ops/lm_head.h"
#include "engine/ops/reference/kernels.h"

namespace recollect::reference {
namespace {

template <typename T>
void lm_logits(const KernelArgs& args, const Attributes& attributes) {
  const double cap = logit_cap(attributes);
  const int64_t width = args.in[1].shape[1], last = args.in[2].as<int32_t>()[1] - 1;
  const T *x = args.in[0].as<T>() + last * width, *w = args.in[1].as<T>();
  for (int64_t v = 0; v < args.in[1].shape[0]; ++v) {
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += double(x[i]) * w[v * width + i];
    args.out[0].as<T>()[v] = static_cast<T>(cap > 0 ? cap * std::tanh(sum / cap) : sum);
  }
}

}  // namespace

void register_lm_logits(KernelTable& table) {
  add_kernel(table, "lm_logits", lm_logits<double>, lm_logits<float>);
}

}  // namespace recollect::reference
