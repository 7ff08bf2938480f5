// Adds a multiple of a narrow value to some columns of a wide one; and the gradient of that.
#include "engine/ops/reference/kernels.h"

namespace recollect::reference {
namespace {

template <typename T>
void add_scaled_columns(const KernelArgs& args, const Attributes& attributes) {
  const T* x = args.in[0].as<T>();
  const T* part = args.in[1].as<T>();
  T* y = args.out[0].as<T>();
  const int64_t width = args.in[0].shape[1], columns = args.in[1].shape[1],
                first = attributes.integer("first_column");
  const double scale = attributes.real("scale");
  for (int64_t i = 0; i < args.in[0].elements(); ++i) {
    const int64_t row = i / width, column = i % width - first;
    const bool inside = column >= 0 && column < columns;
    y[i] = inside ? static_cast<T>(double(x[i]) + scale * double(part[row * columns + column])) : x[i];
  }
}

template <typename T>
void scaled_columns(const KernelArgs& args, const Attributes& attributes) {
  const T* dy = args.in[0].as<T>();
  T* dpart = args.out[0].as<T>();
  const int64_t width = args.in[0].shape[1], columns = args.out[0].shape[1],
                first = attributes.integer("first_column");
  const double scale = attributes.real("scale");
  for (int64_t i = 0; i < args.out[0].elements(); ++i)
    dpart[i] = static_cast<T>(scale * double(dy[i / columns * width + first + i % columns]));
}

}  // namespace

void register_scaled_columns(KernelTable& table) {
  add_kernel(table, "add_scaled_columns", add_scaled_columns<double>, add_scaled_columns<float>);
  add_kernel(table, "scaled_columns", scaled_columns<double>, scaled_columns<float>);
}

}  // namespace recollect::reference
