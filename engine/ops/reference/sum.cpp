// The sum of two values, and the column sums of one.
#include "engine/ops/reference/kernels.h"

namespace recollect::reference {
namespace {

template <typename T>
void add(const KernelArgs& args, const Attributes&) {
  const T* a = args.in[0].as<T>();
  const T* b = args.in[1].as<T>();
  T* y = args.out[0].as<T>();
  for (int64_t i = 0; i < args.in[0].elements(); ++i) y[i] = static_cast<T>(double(a[i]) + b[i]);
}

template <typename T>
void column_sum(const KernelArgs& args, const Attributes&) {
  sum_columns<T>(args.in[0], args.out[0], args.accumulate);
}

}  // namespace

void register_sum(KernelTable& table) {
  add_kernel(table, "add", add<double>, add<float>);
  add_kernel(table, "column_sum", column_sum<double>, column_sum<float>);
}

}  // namespace recollect::reference
