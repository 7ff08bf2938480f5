// One optimizer step of a parameter with 8-bit moments. Block by block, the moments are decoded with the
// dynamic maps and updated, their new scale is measured, and they are encoded again.
#include "engine/ops/quantised_states.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/ops/optimizer.h"
#include "engine/ops/reference/kernels.h"

namespace recollect::reference {
namespace {

// One moment of a whole parameter.
struct QuantisedMoment {
  QuantisedMoment(const KernelArgs& args, int number)
      : map(DynamicMap::make(number == 0)),
        entries(args.out[1 + 2 * number].as<uint8_t>()),
        sizes(args.out[2 + 2 * number].as<float>()) {}

  std::vector<double> read(int64_t first, int64_t count, int64_t block) const {
    std::vector<double> moments;
    for (int64_t i = first; i < first + count; ++i)
      moments.push_back(static_cast<double>(map.entries[entries[i]] * sizes[block]));
    return moments;
  }
  void write(const std::vector<double>& moments, int64_t first, int64_t block) const {
    float largest = 0;
    for (const double m : moments) largest = std::max(largest, std::fabs(static_cast<float>(m)));
    sizes[block] = largest;
    for (std::size_t i = 0; i < moments.size(); ++i)
      entries[first + static_cast<int64_t>(i)] = static_cast<uint8_t>(
          nearest_entry(map.boundaries.data(), share_of(static_cast<float>(moments[i]), largest)));
  }

  DynamicMap map;
  uint8_t* entries;
  float* sizes;
};

template <typename T, typename Rule>
void update_quantised(const KernelArgs& args, const Attributes& attributes) {
  constexpr int kMoments = Rule::kMoments;
  const double clip = args.in[1].as<double>()[0];
  if (std::isnan(clip)) return;
  const auto numbers = step_numbers<double>(args.in[0].as<double>(), clip, UpdateSettings(attributes));
  const bool cast = attributes.integer("cast") != 0;
  const int64_t rows = args.in[2].shape[0], columns = args.in[2].shape[1], blocks = quantised_blocks(columns);
  std::vector<QuantisedMoment> moments;
  for (int i = 0; i < kMoments; ++i) moments.emplace_back(args, i);
  for (int64_t block = 0; block < rows * blocks; ++block) {
    const int64_t column = block % blocks * kQuantisedBlock, first = block / blocks * columns + column,
                  count = std::min(kQuantisedBlock, columns - column);
    std::vector<std::vector<double>> states;
    for (const QuantisedMoment& moment : moments) states.push_back(moment.read(first, count, block));
    for (int64_t i = 0; i < count; ++i) {
      const double gradient = args.in[2].as<T>()[first + i];
      double master = args.out[0].as<T>()[first + i];
      if constexpr (kMoments > 1)
        Rule::update(numbers, gradient, master, states[0][i], states[1][i]);
      else
        Rule::update(numbers, gradient, master, states[0][i]);
      args.out[0].as<T>()[first + i] = static_cast<T>(master);
      if (cast) args.out[1 + 2 * kMoments].as<T>()[first + i] = static_cast<T>(master);
    }
    for (int i = 0; i < kMoments; ++i) moments[i].write(states[i], first, block);
  }
}

template <typename Rule>
void add_quantised(KernelTable& table, const char* op) {
  add_kernel(table, op, update_quantised<double, Rule>, update_quantised<float, Rule>);
}

}  // namespace

void register_quantised_states(KernelTable& table) {
  add_quantised<AdamwRule>(table, "adamw8bit");
  add_quantised<LionRule>(table, "lion8bit");
}

}  // namespace recollect::reference
