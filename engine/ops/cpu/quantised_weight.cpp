// The numbers of weights that are stored in fewer bits: of a block the sixteen that there can be are made first.
#include "engine/ops/quantised_weight.h"

#include <omp.h>

#include <array>

#include "engine/ops/cpu/kernels.h"

namespace recollect::cpu {

namespace {

constexpr DynamicMap kSizes = DynamicMap::make(true);

// A is the dtype of what is made.
template <typename A>
class StoredRows : public Kernel {
 public:
  explicit StoredRows(const OpView& view)
      : threads_(omp_get_max_threads()), rows_(view.out(0).shape[0]), of_(stored_row_of(view.attributes())) {}

  void run(const KernelArgs& args) override {
    const auto* const stored = static_cast<const std::byte*>(args.in[0].data);
    A* const made = args.out[0].as<A>();
    parallel_ranges(threads_, rows_, [&](int64_t first, int64_t last, int) {
      for (int64_t r = first; r < last; ++r) {
        const std::byte* const row = stored + r * of_.bytes();
        if (of_.format == WeightFormat::kInt8)
          make_whole_numbers(row, made + r * of_.columns);
        else
          make_blocks(row, made + r * of_.columns);
      }
    });
  }

 private:
  void make_whole_numbers(const std::byte* row, A* to) const {
    const auto* const codes = reinterpret_cast<const int8_t*>(row);
    const float size = *reinterpret_cast<const float*>(row + of_.code_bytes());
    write_each(to, of_.columns, [&](int64_t c) { return static_cast<float>(codes[c]) * size * kInt8Share; });
  }

  void make_blocks(const std::byte* row, A* to) const {
    const auto* codes = reinterpret_cast<const uint8_t*>(row);
    for (int64_t block = 0; block < of_.blocks(); ++block) {
      const float size = size_of_block(of_, row, block, kSizes.entries.data());
      std::array<A, 16> numbers;
      for (int code = 0; code < 16; ++code) store(&numbers[code], weight_entry(of_.format, code) * size);
      for (int64_t i = 0; i < kWeightBlock / 2; ++i, ++codes) {
        *to++ = numbers[*codes >> 4];
        *to++ = numbers[*codes & 15];
      }
    }
  }

  int threads_;
  int64_t rows_;
  StoredRow of_;
};

}  // namespace

void register_quantised_weight(KernelTable& table) {
  table.add(std::string(kStoredRows), [](const OpView& view) {
    return with_activation_type(view.out(0).dtype, "dequantise_rows", [&]<typename A>() -> KernelPointer {
      return std::make_unique<StoredRows<A>>(view);
    });
  });
}

}  // namespace recollect::cpu
