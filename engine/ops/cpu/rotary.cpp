// Rotary positions: the table of cosines and sines, and the rotation of heads by it in one pass over memory.
#include "engine/ops/rotary.h"

#include <omp.h>

#include "engine/ops/cpu/row_kernel.h"

namespace recollect::cpu {

namespace {

class RotaryTable : public Kernel {
 public:
  explicit RotaryTable(const OpView& view)
      : threads_(omp_get_max_threads()),
        rows_(view.out(0).shape[0]),
        half_(view.out(0).shape[1] / 2),
        frequencies_(view.attributes()) {
    if (view.out(0).dtype != DType::kF32)
      throw Error(ExitCode::kConfiguration, "the cpu backend has no rotary_table in f64, only in f32",
                  "use device.backend: reference, or another training.precision");
  }

  void run(const KernelArgs& args) override {
    float* table = args.out[0].as<float>();
    const auto given = [&](std::size_t i) { return i < args.in.size() && args.in[i].defined(); };
    const int32_t* positions = given(0) ? args.in[0].as<int32_t>() : nullptr;
    const int64_t length = given(1) ? args.in[1].as<int32_t>()[0] : frequencies_.length();
    const double times = frequencies_.attention_factor();
    parallel_ranges(threads_, half_, [&](int64_t first, int64_t last, int) {
      for (int64_t i = first; i < last; ++i) {
        const double frequency = frequencies_.of_pair(i, length);
        for (int64_t row = 0; row < rows_; ++row) {
          const double angle = static_cast<double>(positions ? positions[row] : row) * frequency;
          table[row * 2 * half_ + i] = static_cast<float>(times * std::cos(angle));
          table[row * 2 * half_ + half_ + i] = static_cast<float>(times * std::sin(angle));
        }
      }
    });
  }

 private:
  int threads_;
  int64_t rows_, half_;
  RotaryFrequencies frequencies_;
};

template <typename A>
class Rotary : public RowKernel {
 public:
  explicit Rotary(const OpView& view)
      : RowKernel(view),
        length_(view.in(1).shape[0]),
        size_(view.attributes().integer("head_size")),
        turned_(view.in(1).shape[1]),
        rotated_(view.attributes().integer("rotated_heads") * size_),
        direction_(view.attributes().integer("inverse") ? -1.0f : 1.0f) {}

  void run(const KernelArgs& args) override {
    const A* x = args.in[0].as<A>();
    const float* table = args.in[1].as<float>();
    A* y = args.out[0].as<A>();
    parallel_ranges(threads_, rows_, [&](int64_t first, int64_t last, int) {
      for (int64_t r = first; r < last; ++r) {
        const A* from = x + r * width_;
        A* to = y + r * width_;
        const float* row = table + r % length_ * turned_;
        // The usual sizes are compile-time constants: loops of so few vectors would otherwise spend most of
        // their time on beginnings and ends.
        if (turned_ == 64)
          turn<32>(from, row, to);
        else if (turned_ == 128)
          turn<64>(from, row, to);
        else
          turn<0>(from, row, to);
        if (x == y) continue;
        for (int64_t head = 0; head < rotated_ && turned_ < size_; head += size_)
          std::copy(from + head + turned_, from + head + size_, to + head + turned_);
        std::copy(from + rotated_, from + width_, to + rotated_);
      }
    });
  }

 private:
  // Rotates all heads of a token; `kHalf`: half of a head's rotated elements, if known at compile time.
  template <int64_t kHalf>
  void turn(const A* from, const float* cosines, A* to) const {
    const int64_t half = kHalf > 0 ? kHalf : turned_ / 2;
    const float* sines = cosines + half;
    for (int64_t head = 0; head < rotated_; head += size_) {
      const A* x = from + head;
      write_both(to + head, to + head + half, half, [&](int64_t i, float& first, float& second) {
        const float a = load(x[i]), b = load(x[half + i]), sine = direction_ * sines[i];
        first = a * cosines[i] - b * sine;
        second = b * cosines[i] + a * sine;
      });
    }
  }

  int64_t length_, size_, turned_, rotated_;
  float direction_;
};

}  // namespace

void register_rotary(KernelTable& table) {
  table.add("rotary_table", [](const OpView& view) { return std::make_unique<RotaryTable>(view); });
  add_kernel<Rotary>(table, "rotary");
}

}  // namespace recollect::cpu
