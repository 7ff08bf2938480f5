#include "parallel/quantised_tensor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include "engine/core/dtype.h"
#include "engine/core/error.h"
#include "parallel/in_parallel.h"

namespace recollect {

namespace {

constexpr int64_t kNumbersAtOnce = int64_t{1} << 16;
constexpr float kSmallestSize = 1e-38f;  // what a size is taken for that is smaller, where it divides
constexpr DynamicMap kMap = DynamicMap::make(true);

// The table's entries in order, and the middles between them.
struct Ascending {
  std::array<uint8_t, 16> codes = {};
  std::array<float, 15> middles = {};
};

Ascending ascending(WeightFormat format) {
  constexpr std::array<uint8_t, 16> kFP4Order = {11, 10, 13, 12, 15, 14, 9, 0, 8, 1, 6, 7, 4, 5, 2, 3};
  Ascending table;
  for (std::size_t i = 0; i < 16; ++i)
    table.codes[i] = format == WeightFormat::kFP4 ? kFP4Order[i] : static_cast<uint8_t>(i);
  for (std::size_t i = 0; i < 15; ++i)
    table.middles[i] = (weight_entry(format, table.codes[i]) + weight_entry(format, table.codes[i + 1])) / 2;
  return table;
}

float largest_of(const float* numbers, int64_t count) {
  float most = 0;
  for (int64_t i = 0; i < count; ++i) most = std::max(most, std::abs(numbers[i]));
  return most;
}

float share(float number, float one_over_size) { return std::clamp(number * one_over_size, -1.0f, 1.0f); }

// The block's 64 numbers, two to a byte; its size.
float quantise_block(const float* numbers, const Ascending& table, uint8_t* codes) {
  const float size = largest_of(numbers, kWeightBlock), times = 1.0f / std::max(size, kSmallestSize);
  const auto code = [&](float number) {
    const float of_size = share(number, times);
    std::size_t place = 0;
    for (const float middle : table.middles) place += of_size > middle;
    return table.codes[place];
  };
  for (int64_t i = 0; i < kWeightBlock; i += 2)
    codes[i / 2] = static_cast<uint8_t>(code(numbers[i]) << 4 | code(numbers[i + 1]));
  return size;
}

// A row of 8 bits; its size.
float quantise_row(float* numbers, int64_t columns, uint8_t* codes) {
  for (int64_t c = 0; c < columns; ++c) numbers[c] = f16(numbers[c]);
  const float size = largest_of(numbers, columns), times = 1.0f / size * 127.0f;
  for (int64_t c = 0; c < columns; ++c)
    codes[c] = size == 0 ? uint8_t{0}
                         : static_cast<uint8_t>(static_cast<int8_t>(std::nearbyint(numbers[c] * times)));
  return size;
}

uint8_t nearest_size(float of_largest) {
  int low = 0, high = 255;  // of the middles, which of them are below it
  while (low < high) {
    const int middle = (low + high) / 2;
    if (of_largest > (kMap.entries[middle] + kMap.entries[middle + 1]) / 2)
      low = middle + 1;
    else
      high = middle;
  }
  return static_cast<uint8_t>(low);
}

void nest_sizes(QuantisedTensor& tensor) {
  const auto blocks = static_cast<std::size_t>(tensor.blocks());
  const double sum = std::accumulate(tensor.sizes.begin(), tensor.sizes.end(), 0.0);
  tensor.mean = static_cast<float>(sum / static_cast<double>(blocks));
  tensor.nested_codes.resize(blocks);
  std::vector<float> largest;
  for (std::size_t first = 0; first < blocks; first += kNestedBlock) {
    const std::size_t count = std::min<std::size_t>(kNestedBlock, blocks - first);
    for (std::size_t i = first; i < first + count; ++i) tensor.sizes[i] -= tensor.mean;
    const float most = largest_of(&tensor.sizes[first], static_cast<int64_t>(count)),
                times = 1.0f / std::max(most, kSmallestSize);
    for (std::size_t i = first; i < first + count; ++i)
      tensor.nested_codes[i] = nearest_size(share(tensor.sizes[i], times));
    largest.push_back(most);
  }
  tensor.sizes = std::move(largest);
}

}  // namespace

QuantisedTensor quantise_tensor(const std::string& name, const StoredRow& row, int64_t rows,
                                const ReadRows& read) {
  const bool int8 = row.format == WeightFormat::kInt8;
  const int64_t columns = row.columns, code_bytes = int8 ? columns : columns / 2;
  QuantisedTensor tensor{.format = row.format, .nested = row.nested, .rows = rows, .columns = columns};
  tensor.codes.resize(static_cast<std::size_t>(rows * code_bytes));
  tensor.sizes.resize(static_cast<std::size_t>(int8 ? rows : tensor.blocks()));
  const Ascending table = ascending(row.format);
  const int64_t together = std::clamp<int64_t>(kNumbersAtOnce / columns, 1, rows);
  in_parallel((rows + together - 1) / together, [&](int64_t part) {
    const int64_t first = part * together, count = std::min(together, rows - first);
    std::vector<float> numbers(static_cast<std::size_t>(count * columns));
    read(first, count, numbers.data());
    for (int64_t r = 0; r < count; ++r) {
      float* const of_row = numbers.data() + r * columns;
      uint8_t* const codes = tensor.codes.data() + (first + r) * code_bytes;
      const int64_t blocks = int8 ? 1 : row.blocks();
      float* const sizes = tensor.sizes.data() + (first + r) * blocks;
      for (int64_t b = 0; b < blocks; ++b)
        sizes[b] = int8 ? quantise_row(of_row, columns, codes)
                        : quantise_block(of_row + b * kWeightBlock, table, codes + b * kWeightBlock / 2);
    }
    for (const float number : numbers)
      if (!std::isfinite(number))
        throw Error(ExitCode::kInput,
                    name + " holds a number that is not finite" + (int8 ? " or too large for f16" : "") +
                        ", so that it cannot be quantised",
                    int8 ? "give a model whose weights are finite, or write lora.base: nf4"
                         : "give a model whose weights are finite");
  });
  if (tensor.nested) nest_sizes(tensor);
  return tensor;
}

void store_row(const QuantisedTensor& tensor, int64_t row, int64_t first_column, const StoredRow& part,
               std::byte* out) {
  const bool int8 = tensor.format == WeightFormat::kInt8;
  const int64_t first = row * tensor.columns + first_column;
  std::fill_n(out, part.bytes(), std::byte{0});
  std::memcpy(out, tensor.codes.data() + (int8 ? first : first / 2),
              static_cast<std::size_t>(int8 ? part.columns : part.columns / 2));
  std::byte* const behind = out + part.code_bytes();
  if (int8) {
    std::memcpy(behind, &tensor.sizes[static_cast<std::size_t>(row)], sizeof(float));
    return;
  }
  const int64_t block = first / kWeightBlock;
  if (!tensor.nested) {
    std::memcpy(behind, &tensor.sizes[static_cast<std::size_t>(block)],
                static_cast<std::size_t>(part.blocks()) * sizeof(float));
    return;
  }
  const auto nested = static_cast<std::size_t>(block / kNestedBlock),
             end = std::min(tensor.sizes.size(), nested + static_cast<std::size_t>(part.nested_sizes()));
  std::memcpy(behind, &tensor.mean, sizeof(float));
  std::memcpy(behind + sizeof(float), &tensor.sizes[nested], (end - nested) * sizeof(float));
  std::byte* const place = out + part.place_offset();
  *place = static_cast<std::byte>(block % kNestedBlock);
  std::memcpy(place + 1, &tensor.nested_codes[static_cast<std::size_t>(block)],
              static_cast<std::size_t>(part.blocks()));
}

void dequantise_row(const QuantisedTensor& tensor, int64_t row, float* out) {
  const bool int8 = tensor.format == WeightFormat::kInt8;
  for (int64_t c = 0; c < tensor.columns; ++c) {
    const int64_t at = row * tensor.columns + c;
    if (int8) {
      const auto whole = static_cast<float>(static_cast<int8_t>(tensor.codes[static_cast<std::size_t>(at)]));
      out[c] =
          separate_product(separate_product(whole, tensor.sizes[static_cast<std::size_t>(row)]), kInt8Share);
      continue;
    }
    const auto block = static_cast<std::size_t>(at / kWeightBlock);
    const int pair = tensor.codes[static_cast<std::size_t>(at / 2)];
    float size = tensor.nested ? 0 : tensor.sizes[block];
    if (tensor.nested)
      size = separate_sum(
          separate_product(kMap.entries[tensor.nested_codes[block]], tensor.sizes[block / kNestedBlock]),
          tensor.mean);
    out[c] = separate_product(weight_entry(tensor.format, at % 2 == 0 ? pair >> 4 : pair & 15), size);
  }
}

}  // namespace recollect
