// Rotary position embedding: the table of cosines and sines, and the rotation of heads.
#include "engine/ops/rotary.h"

#include <cmath>

#include "engine/ops/reference/kernels.h"

namespace recollect::reference {
namespace {

template <typename S>
void fill_table(const Tensor& table, const int32_t* positions, const RotaryFrequencies& frequencies,
                int64_t length) {
  const int64_t half = table.shape[1] / 2;
  const double times = frequencies.attention_factor();
  for (int64_t at = 0; at < table.shape[0]; ++at) {
    const int64_t position = positions ? positions[at] : at;
    S* row = table.as<S>() + at * 2 * half;
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) * frequencies.of_pair(i, length);
      row[i] = static_cast<S>(times * std::cos(angle));
      row[half + i] = static_cast<S>(times * std::sin(angle));
    }
  }
}

// The op may have no inputs, so the output's dtype selects the instance.
void rotary_table(const KernelArgs& args, const Attributes& attributes) {
  const RotaryFrequencies frequencies(attributes);
  const int32_t* positions = present(args.in, 0) ? args.in[0].as<int32_t>() : nullptr;
  const int64_t length = present(args.in, 1) ? args.in[1].as<int32_t>()[0] : frequencies.length();
  if (args.out[0].dtype == DType::kF64)
    fill_table<double>(args.out[0], positions, frequencies, length);
  else
    fill_table<float>(args.out[0], positions, frequencies, length);
}

template <typename T>
void rotary(const KernelArgs& args, const Attributes& attributes) {
  const T* x = args.in[0].as<T>();
  T* y = args.out[0].as<T>();
  const int64_t tokens = args.in[0].shape[0], width = args.in[0].shape[1];
  const int64_t length = args.in[1].shape[0], turned = args.in[1].shape[1], half = turned / 2,
                size = attributes.integer("head_size");
  const int64_t rotated = attributes.integer("rotated_heads") * size;
  const double direction = attributes.integer("inverse") ? -1 : 1;
  for (int64_t t = 0; t < tokens; ++t) {
    const T* cosines = args.in[1].as<T>() + t % length * turned;
    const T* sines = cosines + half;
    for (int64_t head = t * width; head < t * width + rotated; head += size) {
      for (int64_t i = 0; i < half; ++i) {
        const double a = x[head + i], b = x[head + half + i], sine = direction * sines[i];
        y[head + i] = static_cast<T>(a * cosines[i] - b * sine);
        y[head + half + i] = static_cast<T>(b * cosines[i] + a * sine);
      }
      for (int64_t i = head + turned; i < head + size; ++i) y[i] = x[i];
    }
    for (int64_t i = t * width + rotated; i < (t + 1) * width; ++i) y[i] = x[i];
  }
}

}  // namespace

void register_rotary(KernelTable& table) {
  add_kernel(table, "rotary_table", rotary_table, rotary_table);
  add_kernel(table, "rotary", rotary<double>, rotary<float>);
}

}  // namespace recollect::reference
