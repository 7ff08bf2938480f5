// The update rules with states of one byte per number: one pass over memory, one block at a time in the
// first-level cache. The nearest entry of a number is found by a table look-up with the upper half of its
// bits, which leaves two candidates, and one comparison of the lower half. Compiled without fused
// multiply-add, so that every instruction set gives the same bits.
#include "engine/ops/quantised_states.h"

#include <omp.h>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include <cmath>

#include "engine/ops/cpu/block_rounding.h"
#include "engine/ops/cpu/kernels.h"
#include "engine/ops/optimizer.h"

namespace recollect::cpu {

namespace {

constexpr int64_t kBlocksTogether = 16;  // blocks of a thread

// The compiler turns gathers into single loads unless it knows the processor, so AVX-512 is explicit.
template <typename T>
void look_up(const T* table, const int32_t* indices, int64_t count, T* out) {
  static_assert(sizeof(T) == 4);
  int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= count; i += 16)
    _mm512_storeu_si512(out + i, _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), 0xffff,
                                                             _mm512_loadu_si512(indices + i), table, 4));
#endif
  for (; i < count; ++i) out[i] = table[indices[i]];
}

// A table indexed by the upper 16 bits of a number's magnitude, first for positive numbers, then for negative
// ones. Magnitudes below the first index are nearest to zero.
struct EntryTable {
  static constexpr int kLowest = 0x3400, kCount = 0x3f80 - kLowest + 1;
  static constexpr int32_t kNoBoundary = 0xffff;  // no lower half is larger

  // Each element has the entry of its smallest magnitudes in its low 8 bits. The bits above hold the largest
  // lower half that still belongs to that entry; larger ones belong to the next entry away from zero.
  int32_t of_size[2 * kCount] = {};

  static constexpr EntryTable make(const DynamicMap& map, int zero) {
    EntryTable table;
    for (const bool negative : {false, true}) table.fill(map, zero, negative);
    return table;
  }

 private:
  constexpr void fill(const DynamicMap& map, int zero, bool negative) {
    int entry = zero;
    for (int key = 0; key < kCount; ++key) {
      const auto first = static_cast<uint32_t>(key + kLowest) << 16;
      const uint32_t end = end_of(map, entry, negative);
      const bool is_here = end >> 16 == first >> 16;
      of_size[key + (negative ? kCount : 0)] =
          entry | (is_here ? static_cast<int32_t>(end & 0xffff) : kNoBoundary) << 8;
      if (is_here) entry += negative ? -1 : 1;
    }
  }
  // Returns the largest magnitude that still belongs to `entry`.
  static constexpr uint32_t end_of(const DynamicMap& map, int entry, bool negative) {
    if (entry == (negative ? 0 : 255)) return 0x7f7fffffu;
    if (negative) return std::bit_cast<uint32_t>(-map.boundaries[entry - 1]) - 1;
    return std::bit_cast<uint32_t>(map.boundaries[entry]);
  }
};

// Quantises numbers of both signs, or only non-negative ones.
template <bool kSigned>
struct Quantiser {
  static constexpr DynamicMap kMap = DynamicMap::make(kSigned);
  static constexpr EntryTable kTable = EntryTable::make(kMap, kSigned ? 127 : 0);

  static void read(const uint8_t* entries, float size, int64_t count, float* moments) {
    alignas(64) int32_t indices[kQuantisedBlock];
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) indices[i] = entries[i];
    look_up(kMap.entries.data(), indices, count, moments);
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) moments[i] *= size;
  }

  // Returns the table index for the bits of a number.
  static int32_t key(int32_t bits) {
    const int32_t size = std::min(std::max((bits & 0x7fffffff) >> 16, EntryTable::kLowest),
                                  EntryTable::kLowest + EntryTable::kCount - 1) -
                         EntryTable::kLowest;
    return kSigned ? size + (bits >> 31 & EntryTable::kCount) : size;
  }
  static int32_t entry(int32_t bits, int32_t found) {
    const int32_t beyond = (bits & 0xffff) > found >> 8, negative = kSigned ? bits >> 31 : 0;
    return (found & 0xff) + (beyond ^ negative) - negative;
  }

  // Quantises a block and returns its largest magnitude.
  static float write(const float* moments, int64_t count, uint8_t* entries) {
    float largest = 0;
#pragma omp simd reduction(max : largest)
    for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::fabs(moments[i]));
    const float divisor = largest > 0 ? largest : 1.0f;
    alignas(64) int32_t bits[kQuantisedBlock], keys[kQuantisedBlock], found[kQuantisedBlock];
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      bits[i] = std::bit_cast<int32_t>(moments[i] / divisor);
      keys[i] = key(bits[i]);
    }
    look_up(kTable.of_size, keys, count, found);
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) entries[i] = static_cast<uint8_t>(entry(bits[i], found[i]));
    return largest;
  }
};

// A is the dtype of the parameter's copy, or of the parameter that is stochastically rounded.
template <typename A, typename Rule>
class QuantisedUpdate : public Kernel {
 public:
  explicit QuantisedUpdate(const OpView& view)
      : threads_(omp_get_max_threads()),
        settings_(view.attributes()),
        cast_(view.attributes().integer("cast") != 0),
        rounding_(view) {}

  void run(const KernelArgs& args) override {
    const double clip = *args.in[1].as<double>();
    if (std::isnan(clip)) return;
    const auto numbers = step_numbers<float>(args.in[0].as<double>(), clip, settings_);
    const RoundKeys keys = rounding_.keys(*args.state);
    const int64_t rows = args.in[2].shape[0], blocks = quantised_blocks(args.in[2].shape[1]);
    parallel_grains(threads_, rows * blocks, kBlocksTogether, [&](int64_t first, int64_t last, int) {
      for (int64_t block = first; block < last; ++block)
        update(numbers, keys, args, block / blocks, block % blocks);
    });
  }

 private:
  static constexpr int kMoments = Rule::kMoments;
  struct Block {
    alignas(64) float w[kQuantisedBlock], m[kQuantisedBlock], v[kQuantisedBlock];
  };

  static void move(const StepNumbers<float> s, const float* g, int64_t count, Block& b) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      if constexpr (kMoments > 1)
        Rule::update(s, g[i], b.w[i], b.m[i], b.v[i]);
      else
        Rule::update(s, g[i], b.w[i], b.m[i]);
    }
  }

  void update(const StepNumbers<float>& numbers, const RoundKeys& keys, const KernelArgs& args, int64_t row,
              int64_t of_row) const {
    const int64_t columns = args.in[2].shape[1], column = of_row * kQuantisedBlock,
                  at = row * columns + column, count = std::min(kQuantisedBlock, columns - column),
                  size = row * quantised_blocks(columns) + of_row;
    Block b;
    rounding_.read(args.out[0], at, count, b.w);
    Quantiser<true>::read(args.out[1].as<uint8_t>() + at, args.out[2].as<float>()[size], count, b.m);
    if constexpr (kMoments > 1)
      Quantiser<false>::read(args.out[3].as<uint8_t>() + at, args.out[4].as<float>()[size], count, b.v);
    move(numbers, args.in[2].as<float>() + at, count, b);
    args.out[2].as<float>()[size] = Quantiser<true>::write(b.m, count, args.out[1].as<uint8_t>() + at);
    if constexpr (kMoments > 1)
      args.out[4].as<float>()[size] = Quantiser<false>::write(b.v, count, args.out[3].as<uint8_t>() + at);
    rounding_.write(b.w, keys, row, column, count, args.out[0], at);
    if (cast_) write_each(args.out[1 + 2 * kMoments].as<A>() + at, count, [&](int64_t i) { return b.w[i]; });
  }

  int threads_;
  UpdateSettings settings_;
  bool cast_;
  BlockRounding rounding_;
};

template <typename Rule>
void add_quantised(KernelTable& table, const char* kind) {
  table.add(kind, [kind](const OpView& view) {
    if (view.in(2).dtype != DType::kF32) with_activation_type(DType::kF64, kind, []<typename A>() {});
    const bool cast = view.attributes().integer("cast") != 0;
    return with_activation_type(
        cast ? view.out(1 + 2 * Rule::kMoments).dtype : DType::kF32, kind,
        [&]<typename A>() -> KernelPointer { return std::make_unique<QuantisedUpdate<A, Rule>>(view); });
  });
}

}  // namespace

void register_quantised_states(KernelTable& table) {
  add_quantised<AdamwRule>(table, "adamw8bit");
  add_quantised<LionRule>(table, "lion8bit");
}

}  // namespace recollect::cpu
