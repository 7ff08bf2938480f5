// The numbers of weights that are stored in fewer bits. A thread makes eight neighbours of a row at a time, of one block.
#include "engine/ops/quantised_weight.h"

#include "engine/ops/cuda/kernels.h"
#include "engine/runtime/cuda/element.h"

namespace recollect::cuda {

namespace {

constexpr int kThreads = 256, kEach = 8, kTurns = 8;

template <typename A>
__global__ void __launch_bounds__(kThreads)
    make_blocks(const std::byte* stored, A* y, const StoredRow of, int64_t rows) {
  RECOLLECT_SHARED(map, float[256]);
  RECOLLECT_SHARED(entries, float[16]);
  if (of.nested) map[threadIdx.x] = dynamic_entry(static_cast<int>(threadIdx.x), true);
  if (threadIdx.x == 0) {
#pragma unroll
    for (int code = 0; code < 16; ++code) entries[code] = weight_entry(of.format, code);
  }
  __syncthreads();
  const int64_t across = of.columns / kEach, row_bytes = of.bytes();
  for (int turn = 0; turn < kTurns; ++turn) {
    const int64_t unit = (blockIdx.x * int64_t{kTurns} + turn) * kThreads + threadIdx.x, row = unit / across;
    if (row >= rows) return;
    const int64_t column = unit % across * kEach;
    const std::byte* const from = stored + row * row_bytes;
    const float size = size_of_block(of, from, column / kWeightBlock, map);
    RECOLLECT_READS(from + column / 2, 4);
    const uint32_t codes = *reinterpret_cast<const uint32_t*>(from + column / 2);
    Floats<kEach> numbers;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int shift = i / 2 * 8 + (i % 2 == 0 ? 4 : 0);
      numbers[i] = separate_product(entries[codes >> shift & 15], size);
    }
    store<kEach>(y + row * of.columns + column, numbers);
  }
}

template <typename A>
__global__ void __launch_bounds__(kThreads)
    make_whole_numbers(const std::byte* stored, A* y, const StoredRow of, int64_t rows) {
  const int64_t across = (of.columns + kEach - 1) / kEach, row_bytes = of.bytes();
  const int64_t unit = blockIdx.x * int64_t{kThreads} + threadIdx.x, row = unit / across;
  if (row >= rows) return;
  const int64_t column = unit % across * kEach, left = of.columns - column;
  const std::byte* const from = stored + row * row_bytes;
  const float size = *reinterpret_cast<const float*>(from + of.code_bytes());
  RECOLLECT_READS(from + column, kEach);
  const uint64_t codes = *reinterpret_cast<const uint64_t*>(from + column);  // a row ends after its size
  Floats<kEach> numbers;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const auto whole = static_cast<float>(static_cast<int8_t>(codes >> (8 * i)));
    numbers[i] = separate_product(separate_product(whole, size), kInt8Share);
  }
  A* const to = y + row * of.columns + column;
  if (of.columns % kEach == 0) return store<kEach>(to, numbers);
  for (int i = 0; i < kEach && i < left; ++i) store_one(to + i, numbers[i]);
}

template <typename A>
class StoredRows : public Kernel {
 public:
  explicit StoredRows(const OpView& view)
      : rows_(view.out(0).shape[0]), of_(stored_row_of(view.attributes())) {}

  void run(const KernelArgs& args) override {
    const bool int8 = of_.format == WeightFormat::kInt8;
    const int64_t units = rows_ * ceil_div(of_.columns, int64_t{kEach}),
                  together = int8 ? kThreads : int64_t{kThreads} * kTurns;
    launch(int8 ? make_whole_numbers<A> : make_blocks<A>, grid_of(ceil_div(units, together)), dim3(kThreads),
           0, args.stream, static_cast<const std::byte*>(args.in[0].data), args.out[0].as<A>(), of_, rows_);
  }

 private:
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

}  // namespace recollect::cuda
