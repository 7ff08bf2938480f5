// Matrix products block by block, for what a `Product` multiplies blocks with.
//
// C is made of blocks of `kBlock` rows and columns. One operand is resident: a group of its lines (rows of A,
// columns of B), one pass deep, is packed once for all threads, some blocks at a time by whoever is free, and
// stays in their second-level caches. The other is streamed in strips, a few blocks wide: a thread that is free
// takes the next strip, packs a slice of its depth for itself and multiplies it with all resident lines. A pass
// of several slices keeps the strip's sums in the second level in between; between passes the sums are in C,
// where C is f32.
//
// The operand resides that is cheaper to keep than to stream: B where its columns are strided in memory,
// since strips of such would be read a few cache lines at a time; else the one with fewer lines. A pass is as
// deep as lets all lines reside at once, so that nothing is streamed twice, unless C would be visited too
// often.
//
// Which thread computes a block does not change its bits, since every block adds up its slices, and every
// slice its products, in order of depth; slices and passes are cut by the shape alone. Nor does the number of
// threads change the workspace: what a thread has to itself is on its stack.
#pragma once

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "engine/core/error.h"
#include "engine/ops/cpu/element.h"
#include "engine/ops/cpu/gemm.h"

namespace recollect::cpu {

template <typename Product>
class BlockGemm {
 public:
  explicit BlockGemm(const GemmSpec& spec)
      : spec_(spec),
        threads_(omp_get_max_threads()),
        left_resides_(spec.transpose_b && line_bytes(spec.k) * spec.m <= Product::kResidentBytes) {
    const int64_t lines = resident_lines();
    depth_ = depth_of_pass(spec);
    const int64_t most = std::clamp(Product::kResidentBytes / line_bytes(depth_), kBlock,
                                    depth_ > kSlice ? Product::kMostSummed : kMostLines) /
                         kBlock * kBlock;
    const int64_t groups = (lines + most - 1) / most;
    group_ = round_up((lines + groups - 1) / groups, kBlock);
    packed_at_once_ = std::clamp<int64_t>(group_ / kBlock / (2 * threads_), 1, kMostPacked);
    pack_tasks_ = (group_ / kBlock + packed_at_once_ - 1) / packed_at_once_;
    strips_ = (streamed_lines() + kStrip * kBlock - 1) / (kStrip * kBlock);
    parts_ = std::clamp<int64_t>(threads_ == 1 ? 1 : (4 * threads_ + strips_ - 1) / strips_, 1,
                                 std::max<int64_t>(1, group_ / kBlock / 4));
    keeps_sums_ = depth_ < spec.k && spec.out != DType::kF32;
    fetches_ahead_ = spec.m * spec.n * static_cast<int64_t>(sizeof(float)) >= kLarge;
  }

  std::size_t workspace_bytes() const { return resident_bytes() + sums_bytes(); }

  void run(const void* a, const void* b, void* c, const float* bias, bool accumulate,
           std::byte* workspace) const {
    require(!accumulate || spec_.accumulates, "a Gemm made without accumulation is asked to accumulate");
    const Call call{.a = static_cast<const Element*>(a),
                    .b = static_cast<const Element*>(b),
                    .c = c,
                    .bias = bias,
                    .accumulate = accumulate,
                    .resident = reinterpret_cast<Packed*>(workspace),
                    .sums = reinterpret_cast<float*>(workspace + resident_bytes())};
    if (threads_ == 1) return work(call);  // OpenMP would allocate a team of one
#pragma omp parallel num_threads(threads_)
    work(call);
  }

 private:
  using Element = typename Product::Element;
  using Packed = typename Product::Packed;

  static constexpr int64_t kBlock = Product::kBlock;  // rows and columns of C in registers
  static constexpr int64_t kStrip = Product::kStrip, kSlice = Product::kSlice;
  static constexpr int64_t kMostLines = 1024;             // resident at a time
  static constexpr int64_t kMostPacked = 4;               // resident blocks at once
  static constexpr int64_t kLine = 64 / sizeof(Element);  // of the caches
  static constexpr int64_t kLarge = 1 << 24;              // bytes of C from which on it is fetched ahead

  struct Call {
    const Element *a = nullptr, *b = nullptr;
    void* c = nullptr;
    const float* bias = nullptr;
    bool accumulate = false;
    Packed* resident = nullptr;              // two groups: one may be packed while the other is in use
    float* sums = nullptr;                   // of all blocks, between passes
    mutable std::atomic<int64_t> packed{0};  // of resident blocks some at a time, of all phases
    mutable std::atomic<int64_t> taken{0};   // parts of strips, likewise
  };

  // What a thread has to itself.
  struct alignas(64) Own {
    Packed slice[kStrip * kBlock * kSlice];              // of a strip, packed
    float sums[kStrip * kBlock * Product::kMostSummed];  // of a strip, between slices
  };

  // Packed lines of the resident operand, one pass deep: depths `from` to `to`.
  struct Group {
    int64_t line, blocks, from, to;
    Packed* packed;
  };

  // One block of C and where its depth begins and ends.
  struct Block {
    int64_t row, column, from, to;
    bool pass_begins, pass_ends;
    float* strip_sums;
  };

  // Alone says where a sum is cut, and so what bits it has: rows of a larger product are cut as that is.
  static int64_t depth_of_pass(const GemmSpec& spec) {
    const int64_t m = spec.whole_m > 0 ? spec.whole_m : spec.m;
    const int64_t lines = spec.transpose_b && line_bytes(spec.k) * m <= Product::kResidentBytes ? m : spec.n;
    const int64_t fitting = Product::kResidentBytes / (line_bytes(1) * lines) / kSlice * kSlice;
    const int64_t deepest = std::clamp(fitting, Product::kShallowest, Product::kDeepest);
    const int64_t passes = (spec.k + deepest - 1) / deepest;
    return round_up((spec.k + passes - 1) / passes, Product::kDepthStep);
  }

  static int64_t line_bytes(int64_t depth) { return static_cast<int64_t>(sizeof(Packed)) * depth; }
  int64_t resident_lines() const { return left_resides_ ? spec_.m : spec_.n; }
  int64_t streamed_lines() const { return left_resides_ ? spec_.n : spec_.m; }
  static int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }
  std::size_t resident_bytes() const { return sizeof(Packed) * 2 * group_ * depth_; }
  std::size_t sums_bytes() const {
    return keeps_sums_ ? sizeof(float) * round_up(spec_.m, kBlock) * round_up(spec_.n, kBlock) : 0;
  }

  // A phase is one group in one pass.
  void work(const Call& call) const {
    Own own;  // NOLINT(cppcoreguidelines-pro-type-member-init): each slice is packed before it is read
    const int64_t tasks = strips_ * parts_;
    [[maybe_unused]] const typename Product::Registers registers;
    int64_t phase = 0, task = call.taken++, part = call.packed++;
    for (int64_t depth = 0; depth < spec_.k; depth += depth_) {
      for (int64_t line = 0; line < resident_lines(); line += group_, ++phase) {
        const Group group{.line = line,
                          .blocks = (std::min(group_, resident_lines() - line) + kBlock - 1) / kBlock,
                          .from = depth,
                          .to = std::min(spec_.k, depth + depth_),
                          .packed = call.resident + phase % 2 * group_ * depth_};
        for (; part < (phase + 1) * pack_tasks_; part = call.packed++)
          pack_resident(call, group, part % pack_tasks_ * packed_at_once_);
#pragma omp barrier
        for (; task < (phase + 1) * tasks; task = call.taken++)
          strip(call, group, task % tasks / parts_, task % parts_, own);
      }
    }
  }

  // Whether a line's elements are apart in memory, and the lines beside each other.
  bool strided(bool left) const { return left ? spec_.transpose_a : !spec_.transpose_b; }

  // Lines that are strided in memory are crossed depth by depth, as they lie there.
  void pack_resident(const Call& call, const Group& group, int64_t first) const {
    const int64_t last = std::min(first + packed_at_once_, group.blocks);
    const int64_t step = strided(left_resides_) ? Product::kDepthStep : depth_;
    for (int64_t k = group.from; k < group.to; k += step)
      for (int64_t i = first; i < last; ++i)
        pack(call, left_resides_, group.line + i * kBlock, k, std::min(k + step, group.to),
             group.packed + i * kBlock * depth_ + (k - group.from) * kBlock);
  }

  // A part of the resident blocks times those of a strip, one pass.
  void strip(const Call& call, const Group& group, int64_t index, int64_t part, Own& own) const {
    const int64_t line = index * kStrip * kBlock;
    const int64_t blocks = std::min(kStrip, (streamed_lines() - line + kBlock - 1) / kBlock);
    const int64_t first = group.blocks * part / parts_, last = group.blocks * (part + 1) / parts_;
    for (int64_t from = group.from; from < group.to; from += kSlice) {
      const int64_t to = std::min(from + kSlice, group.to);
      for (int64_t j = 0; j < blocks; ++j)
        pack(call, !left_resides_, line + j * kBlock, from, to, own.slice + j * kBlock * kSlice);
      // The same lines' next slice, or the first one of the strip that is likely to be next.
      const bool again = to < group.to;
      const int64_t next_line = again ? line : line + kStrip * kBlock, next = again ? to : group.from;
      for (int64_t i = first; i < last; ++i) {
        if constexpr (Product::kFetches)
          fetch(call, next_line, next, std::min(next + kSlice, group.to), i - first, last - first);
        for (int64_t j = 0; j < blocks; ++j) {
          const int64_t resident_line = group.line + i * kBlock, streamed_line = line + j * kBlock;
          const Packed* resident = group.packed + i * kBlock * depth_ + (from - group.from) * kBlock;
          const Packed* streamed = own.slice + j * kBlock * kSlice;
          const Block b{.row = left_resides_ ? resident_line : streamed_line,
                        .column = left_resides_ ? streamed_line : resident_line,
                        .from = from,
                        .to = to,
                        .pass_begins = from == group.from,
                        .pass_ends = to == group.to,
                        .strip_sums = own.sums + (i * kStrip + j) * kBlock * kBlock};
          block(call, b, left_resides_ ? resident : streamed, left_resides_ ? streamed : resident);
        }
      }
    }
  }

  // Brings part `part` of `parts` of a strip's slice from memory, while another one is worked on.
  void fetch(const Call& call, int64_t line, int64_t begin, int64_t end, int64_t part, int64_t parts) const {
    const bool left = !left_resides_, apart = strided(left);
    const Element* matrix = left ? call.a : call.b;
    const int64_t all = left ? spec_.m : spec_.n, last = std::min(line + kStrip * kBlock, all);
    if (line >= last) return;
    // Rows of memory and where they begin and end.
    const int64_t rows = apart ? end - begin : last - line, width = apart ? last - line : end - begin;
    const int64_t stride = apart ? all : spec_.k;
    const Element* from = matrix + (apart ? begin * all + line : line * spec_.k + begin);
    for (int64_t row = rows * part / parts; row < rows * (part + 1) / parts; ++row)
      for (int64_t i = 0; i < width; i += kLine) __builtin_prefetch(from + row * stride + i);
  }

  // A block of rows of A (`left`) or of columns of B from `line`, depths `begin` to `end`.
  void pack(const Call& call, bool left, int64_t line, int64_t begin, int64_t end, Packed* to) const {
    const Element* matrix = left ? call.a : call.b;
    const int64_t all = left ? spec_.m : spec_.n;
    const bool apart = strided(left);
    const Element* from = matrix + (apart ? begin * all + line : line * spec_.k + begin);
    Product::pack(from, apart ? all : spec_.k, apart, left, all - line, end - begin, to);
  }

  void block(const Call& call, const Block& b, const Packed* left, const Packed* right) const {
    const int64_t rows = std::min(kBlock, spec_.m - b.row), columns = std::min(kBlock, spec_.n - b.column);
    const bool whole = rows % Product::kRowStep == 0 && columns % Product::kColumnStep == 0;
    const bool in_c = spec_.out == DType::kF32;
    float* c = in_c ? static_cast<float*>(call.c) + b.row * spec_.n + b.column : nullptr;
    alignas(64) float local[kBlock * kBlock];
    // Where the sums are at the ends of passes.
    float* sums = local;
    int64_t stride = kBlock;
    if (in_c && whole) {
      sums = c;
      stride = spec_.n;
    } else if (keeps_sums_) {
      const int64_t panels = (spec_.n + kBlock - 1) / kBlock;
      sums = call.sums + (b.row / kBlock * panels + b.column / kBlock) * kBlock * kBlock;
    }
    if (!Product::kFetches && whole && fetches_ahead_ && (b.pass_ends || call.accumulate))
      fetch_next(call, b);
    const bool adds = b.from > 0 || (in_c && call.accumulate);
    if (in_c && !whole && b.pass_begins && adds) copy(c, spec_.n, rows, columns, sums, kBlock);
    const float* before = !b.pass_begins ? b.strip_sums : adds ? sums : nullptr;
    Product::multiply(left, strided(true), right, b.to - b.from, rows, columns, before,
                      b.pass_begins ? stride : kBlock, b.pass_ends ? sums : b.strip_sums,
                      b.pass_ends ? stride : kBlock);
    if (!b.pass_ends) return;
    if (spec_.bias && b.to == spec_.k) add_bias(call.bias + b.column, rows, columns, sums, stride);
    if (in_c && !whole) copy(sums, kBlock, rows, columns, c, spec_.n);
    if (!in_c && b.to == spec_.k) {
      bf16* to = static_cast<bf16*>(call.c) + b.row * spec_.n + b.column;
      for (int64_t i = 0; i < rows; ++i) narrow(sums + i * kBlock, columns, to + i * spec_.n);
    }
  }

  // The block of C after this one, unless it lies outside.
  void fetch_next(const Call& call, const Block& b) const {
    const int64_t row = left_resides_ ? b.row + kBlock : b.row,
                  column = left_resides_ ? b.column : b.column + kBlock;
    if (row + kBlock > spec_.m || column + kBlock > spec_.n) return;
    const float* next = static_cast<const float*>(call.c) + row * spec_.n + column;
    for (int64_t i = 0; i < kBlock; ++i)
      for (int64_t e = 0; e < kBlock; e += 16) __builtin_prefetch(next + i * spec_.n + e, 1);
  }

  static void copy(const float* from, int64_t from_stride, int64_t rows, int64_t columns, float* to,
                   int64_t to_stride) {
    for (int64_t i = 0; i < rows; ++i) std::copy_n(from + i * from_stride, columns, to + i * to_stride);
  }

  static void add_bias(const float* bias, int64_t rows, int64_t columns, float* sums, int64_t stride) {
    for (int64_t i = 0; i < rows; ++i)
#pragma omp simd
      for (int64_t e = 0; e < columns; ++e) sums[i * stride + e] += bias[e];
  }

  GemmSpec spec_;
  int threads_ = 1;
  bool left_resides_ = false;
  int64_t depth_ = 0;           // of one pass
  int64_t group_ = 0;           // lines resident at a time
  int64_t packed_at_once_ = 1;  // resident blocks by one thread
  int64_t pack_tasks_ = 0;      // of a group
  int64_t strips_ = 0;          // of the streamed operand
  int64_t parts_ = 1;           // of the resident blocks: where strips are few, threads share them
  bool keeps_sums_ = false;     // several passes whose sums cannot stay in C
  bool fetches_ahead_ = false;  // C is too large for the caches
};

}  // namespace recollect::cpu
