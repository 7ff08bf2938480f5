// Adds a multiple of a narrow value to some columns of a wide one, and its gradient: one pass over memory.
#include "engine/ops/cpu/row_kernel.h"

namespace recollect::cpu {

namespace {

template <typename A>
class AddScaledColumns : public RowKernel {
 public:
  explicit AddScaledColumns(const OpView& view)
      : RowKernel(view),
        first_(view.attributes().integer("first_column")),
        columns_(view.in(1).shape[1]),
        scale_(static_cast<float>(view.attributes().real("scale"))) {}

  void run(const KernelArgs& args) override {
    const A *x = args.in[0].as<A>(), *part = args.in[1].as<A>();
    A* y = args.out[0].as<A>();
    parallel_ranges(threads_, rows_, [&](int64_t first, int64_t last, int) {
      for (int64_t r = first; r < last; ++r) {
        const A *from = x + r * width_, *added = part + r * columns_;
        A* to = y + r * width_;
        if (from != to) {
          std::copy(from, from + first_, to);
          std::copy(from + first_ + columns_, from + width_, to + first_ + columns_);
        }
        write_each(to + first_, columns_,
                   [&](int64_t c) { return load(from[first_ + c]) + scale_ * load(added[c]); });
      }
    });
  }

 private:
  int64_t first_, columns_;
  float scale_;
};

template <typename A>
class ScaledColumns : public RowKernel {
 public:
  explicit ScaledColumns(const OpView& view)
      : RowKernel(view),
        first_(view.attributes().integer("first_column")),
        columns_(view.out(0).shape[1]),
        scale_(static_cast<float>(view.attributes().real("scale"))) {}

  void run(const KernelArgs& args) override {
    const A* dy = args.in[0].as<A>();
    A* dpart = args.out[0].as<A>();
    parallel_ranges(threads_, rows_, [&](int64_t first, int64_t last, int) {
      for (int64_t r = first; r < last; ++r) {
        const A* from = dy + r * width_ + first_;
        write_each(dpart + r * columns_, columns_, [&](int64_t c) { return scale_ * load(from[c]); });
      }
    });
  }

 private:
  int64_t first_, columns_;
  float scale_;
};

}  // namespace

void register_scaled_columns(KernelTable& table) {
  add_kernel<AddScaledColumns>(table, "add_scaled_columns");
  add_kernel<ScaledColumns>(table, "scaled_columns");
}

}  // namespace recollect::cpu
