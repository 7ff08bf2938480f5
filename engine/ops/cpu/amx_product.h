// C is made of blocks of 32 x 32: four tile registers of sums, each loaded tile used twice. The operand with
// fewer lines (rows of A, columns of B) is resident: a group of its lines is packed once for all threads and
// stays in their second-level caches. Each thread streams its own lines of the other operand, in strips of
// 64: a slice of a strip is packed into the first-level cache and run against all resident lines, whose
// slices are then read from the second level once for both halves of the strip. The strip's sums wait in the
// second level for the next slice. A depth too great for this takes several passes.
//
// Which thread computes a block does not change its bits: every block adds up its depth in order.
#include "engine/ops/cpu/amx_gemm.h"

#include <omp.h>

#include <algorithm>

#include "engine/core/error.h"
#include "engine/ops/cpu/amx_tile.h"

namespace recollect::cpu {

#ifdef RECOLLECT_AMX

namespace {

constexpr int64_t kBlock = 32;               // rows and columns of C in registers
constexpr int64_t kStrip = 2;                // blocks side by side in a strip
constexpr int64_t kSlice = 256;              // depth of a strip in the first-level cache
constexpr int64_t kDeepest = 1024;           // of one pass
constexpr int64_t kResidentBytes = 1 << 20;  // in the second-level cache
constexpr int64_t kLarge = 1 << 24;          // bytes of C from which on it is fetched ahead

int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

}  // namespace

struct AmxGemm::Call {
  const bf16 *a, *b;
  void* c;
  const float* bias;
  bool accumulate;
  bf16* resident;  // two groups: one may be packed while the other is in use
  float* sums;     // of all blocks, between passes
  std::byte* own;  // of thread 0: a strip's packed slice, and its sums between slices
};

// Packed lines of the resident operand, one pass deep: depths `from` to `to`.
struct AmxGemm::Group {
  int64_t line, blocks, from, to;
  bf16* packed;
};

// One block of C and where its depth begins and ends.
struct AmxGemm::Block {
  int64_t row, column, from, to;
  bool pass_begins, pass_ends;
  float* strip_sums;
};

bool AmxGemm::suits(const GemmSpec& spec) { return spec.in == DType::kBF16 && amx::available(); }

AmxGemm::AmxGemm(const GemmSpec& spec)
    : spec_(spec), threads_(omp_get_max_threads()), left_resides_(spec.m <= spec.n) {
  const int64_t passes = (spec.k + kDeepest - 1) / kDeepest;
  depth_ = round_up((spec.k + passes - 1) / passes, kSlice);
  const int64_t lines = std::min(spec.m, spec.n);
  const int64_t most = std::max<int64_t>(kBlock, kResidentBytes / (2 * depth_) / kBlock * kBlock);
  const int64_t groups = (lines + most - 1) / most;
  group_ = round_up((lines + groups - 1) / groups, kBlock);
  const bool in_place = spec.out == DType::kF32 && !spec.bias && spec.m % kBlock == 0 && spec.n % kBlock == 0;
  keeps_sums_ = depth_ < spec.k && !in_place;
  fetches_ahead_ = spec.m * spec.n * static_cast<int64_t>(sizeof(float)) >= kLarge;
}

std::size_t AmxGemm::resident_bytes() const { return sizeof(bf16) * 2 * group_ * depth_; }
std::size_t AmxGemm::sums_bytes() const {
  return keeps_sums_ ? sizeof(float) * round_up(spec_.m, kBlock) * round_up(spec_.n, kBlock) : 0;
}
std::size_t AmxGemm::own_bytes() const {
  return kStrip * kBlock * (sizeof(bf16) * kSlice + sizeof(float) * group_);
}
std::size_t AmxGemm::workspace_bytes() const {
  return resident_bytes() + sums_bytes() + threads_ * own_bytes();
}

void AmxGemm::run(const void* a, const void* b, void* c, const float* bias, bool accumulate,
                  std::byte* workspace) const {
  require(!accumulate || spec_.accumulates, "a Gemm made without accumulation is asked to accumulate");
  const Call call{.a = static_cast<const bf16*>(a),
                  .b = static_cast<const bf16*>(b),
                  .c = c,
                  .bias = bias,
                  .accumulate = accumulate,
                  .resident = reinterpret_cast<bf16*>(workspace),
                  .sums = reinterpret_cast<float*>(workspace + resident_bytes()),
                  .own = workspace + resident_bytes() + sums_bytes()};
#pragma omp parallel num_threads(threads_)
  work(call);
}

void AmxGemm::work(const Call& call) const {
  const int64_t thread = omp_get_thread_num(), threads = omp_get_num_threads();
  const int64_t resident_lines = std::min(spec_.m, spec_.n);
  const int64_t streamed = (std::max(spec_.m, spec_.n) + kBlock - 1) / kBlock;
  const int64_t first = streamed * thread / threads, last = streamed * (thread + 1) / threads;
  const amx::TileRegisters registers;
  int64_t phase = 0;
  for (int64_t depth = 0; depth < spec_.k; depth += depth_) {
    for (int64_t line = 0; line < resident_lines; line += group_, ++phase) {
      Group group{.line = line,
                  .blocks = (std::min(group_, resident_lines - line) + kBlock - 1) / kBlock,
                  .from = depth,
                  .to = std::min(spec_.k, depth + depth_),
                  .packed = call.resident + phase % 2 * group_ * depth_};
      pack_resident(call, group, group.blocks * thread / threads, group.blocks * (thread + 1) / threads);
#pragma omp barrier
      for (int64_t block = first; block < last; block += kStrip)
        strip(call, group, block * kBlock, std::min(kStrip, last - block), call.own + thread * own_bytes());
    }
  }
}

// Lines that are strided in memory are crossed depth by depth, as they lie there.
void AmxGemm::pack_resident(const Call& call, const Group& group, int64_t first, int64_t last) const {
  const bool strided = left_resides_ ? spec_.transpose_a : !spec_.transpose_b;
  const int64_t step = strided ? amx::kDepth : depth_;
  for (int64_t k = group.from; k < group.to; k += step)
    for (int64_t i = first; i < last; ++i)
      pack(call, left_resides_, group.line + i * kBlock, k, std::min(k + step, group.to),
           group.packed + i * kBlock * depth_ + (k - group.from) * kBlock);
}

// All resident blocks times `blocks` streamed ones from line `line`, one pass.
void AmxGemm::strip(const Call& call, const Group& group, int64_t line, int64_t blocks,
                    std::byte* own) const {
  bf16* slice = reinterpret_cast<bf16*>(own);
  float* sums = reinterpret_cast<float*>(slice + kStrip * kBlock * kSlice);
  for (int64_t from = group.from; from < group.to; from += kSlice) {
    const int64_t to = std::min(from + kSlice, group.to);
    for (int64_t j = 0; j < blocks; ++j)
      pack(call, !left_resides_, line + j * kBlock, from, to, slice + j * kBlock * kSlice);
    for (int64_t i = 0; i < group.blocks; ++i)
      for (int64_t j = 0; j < blocks; ++j) {
        const int64_t resident_line = group.line + i * kBlock, streamed_line = line + j * kBlock;
        const bf16* resident = group.packed + i * kBlock * depth_ + (from - group.from) * kBlock;
        const bf16* streamed = slice + j * kBlock * kSlice;
        const Block b{.row = left_resides_ ? resident_line : streamed_line,
                      .column = left_resides_ ? streamed_line : resident_line,
                      .from = from,
                      .to = to,
                      .pass_begins = from == group.from,
                      .pass_ends = to == group.to,
                      .strip_sums = sums + (i * kStrip + j) * kBlock * kBlock};
        block(call, b, left_resides_ ? resident : streamed, left_resides_ ? streamed : resident);
      }
  }
}

// 32 rows of A (`left`) or columns of B from `line`, depths `begin` to `end`: pairs of tiles.
void AmxGemm::pack(const Call& call, bool left, int64_t line, int64_t begin, int64_t end, bf16* to) const {
  const bf16* matrix = left ? call.a : call.b;
  const int64_t all = left ? spec_.m : spec_.n;
  const bool strided = left ? spec_.transpose_a : !spec_.transpose_b;
  const bf16* from = matrix + (strided ? begin * all + line : line * spec_.k + begin);
  amx::pack(from, strided ? all : spec_.k, strided, left, all - line, end - begin, to);
}

void AmxGemm::block(const Call& call, const Block& b, const bf16* left, const bf16* right) const {
  const bool whole = b.row + kBlock <= spec_.m && b.column + kBlock <= spec_.n;
  const bool in_place = whole && spec_.out == DType::kF32 && !spec_.bias;
  alignas(64) float local[kBlock * kBlock];
  // Where the sums are between passes.
  float* sums = local;
  int64_t stride = kBlock;
  if (in_place) {
    sums = static_cast<float*>(call.c) + b.row * spec_.n + b.column;
    stride = spec_.n;
  } else if (keeps_sums_) {
    const int64_t panels = (spec_.n + kBlock - 1) / kBlock;
    sums = call.sums + (b.row / kBlock * panels + b.column / kBlock) * kBlock * kBlock;
  }
  if (in_place && fetches_ahead_ && (b.pass_ends || call.accumulate)) fetch_next(call, b);
  if (!b.pass_begins)
    amx::load_sums(b.strip_sums, kBlock);
  else if (b.from > 0 || (in_place && call.accumulate))
    amx::load_sums(sums, stride);
  else
    amx::clear_sums();
  amx::multiply(left, right, (b.to - b.from + amx::kDepth - 1) / amx::kDepth);
  if (!b.pass_ends) return amx::store_sums(b.strip_sums, kBlock);
  amx::store_sums(sums, stride);
  if (b.to == spec_.k && !in_place) finish(call, b.row, b.column, sums);
}

// The block of C after this one, unless it lies outside.
void AmxGemm::fetch_next(const Call& call, const Block& b) const {
  const int64_t row = left_resides_ ? b.row + kBlock : b.row,
                column = left_resides_ ? b.column : b.column + kBlock;
  if (row + kBlock > spec_.m || column + kBlock > spec_.n) return;
  const float* next = static_cast<const float*>(call.c) + row * spec_.n + column;
  for (int64_t i = 0; i < kBlock; ++i) {
    __builtin_prefetch(next + i * spec_.n, 1);
    __builtin_prefetch(next + i * spec_.n + kBlock / 2, 1);
  }
}

// Sums of one block, with bias or what C holds added, into C.
void AmxGemm::finish(const Call& call, int64_t row, int64_t column, const float* sums) const {
  const int64_t rows = std::min(kBlock, spec_.m - row), columns = spec_.n - column;
  const __mmask32 mask = amx::first_lanes(columns);
  const __mmask16 low_mask = static_cast<__mmask16>(mask), high_mask = static_cast<__mmask16>(mask >> 16);
  __m512 low_bias = _mm512_setzero_ps(), high_bias = low_bias;
  if (spec_.bias) {
    low_bias = _mm512_maskz_loadu_ps(low_mask, call.bias + column);
    high_bias = _mm512_maskz_loadu_ps(high_mask, call.bias + column + amx::kRows);
  }
  for (int64_t i = 0; i < rows; ++i) {
    __m512 low = _mm512_add_ps(_mm512_loadu_ps(sums + i * kBlock), low_bias);
    __m512 high = _mm512_add_ps(_mm512_loadu_ps(sums + i * kBlock + amx::kRows), high_bias);
    const int64_t at = (row + i) * spec_.n + column;
    if (spec_.out == DType::kF32) {
      float* c = static_cast<float*>(call.c) + at;
      if (call.accumulate) {
        low = _mm512_add_ps(low, _mm512_maskz_loadu_ps(low_mask, c));
        high = _mm512_add_ps(high, _mm512_maskz_loadu_ps(high_mask, c + amx::kRows));
      }
      _mm512_mask_storeu_ps(c, low_mask, low);
      _mm512_mask_storeu_ps(c + amx::kRows, high_mask, high);
    } else {
      const __m512i both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
      _mm512_mask_storeu_epi16(static_cast<bf16*>(call.c) + at, mask, both);
    }
  }
}

#else

struct AmxGemm::Call {};
struct AmxGemm::Group {};
struct AmxGemm::Block {};
bool AmxGemm::suits(const GemmSpec&) { return false; }
AmxGemm::AmxGemm(const GemmSpec& spec) : spec_(spec) {}
std::size_t AmxGemm::workspace_bytes() const { return 0; }
void AmxGemm::run(const void*, const void*, void*, const float*, bool, std::byte*) const {}

#endif

}  // namespace recollect::cpu
