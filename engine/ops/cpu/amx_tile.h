// Matrix tiles of Intel AMX, and the two shapes in which operands of bf16 products are packed for them. Only
// for files that have tested RECOLLECT_AMX. A tile is 16 rows of 64 bytes; packed tiles are contiguous.
//
//   left operand   16 rows x 32 of depth: row i, depth k at [i][k]
//   right operand  32 of depth x 16 columns: depth k, column j at [k / 2][j][k % 2]
#pragma once

#if defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__linux__)
#define RECOLLECT_AMX 1

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "engine/core/dtype.h"
#include "engine/ops/cpu/depth_pairs.h"

namespace recollect::cpu::amx {

inline constexpr int64_t kRows = 16, kDepth = 32;  // of a left tile
inline constexpr int64_t kTile = kRows * kDepth;   // bf16 elements in a tile
inline constexpr int64_t kPrefetch = 64;           // columns ahead, where rows are read 32 columns at a time

// Asks the kernel for the tile registers. False where it or the processor refuses.
inline bool available() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

struct alignas(64) TileLayout {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
// Not on the stack: GCC 12 knows only of the first eight bytes that _tile_loadconfig reads, and may write the
// others after it.
inline constexpr TileLayout kWholeTiles;

// Whole tiles in all eight registers of the calling thread, for as long as this object lives.
class TileRegisters {
 public:
  TileRegisters() { _tile_loadconfig(&kWholeTiles); }
  ~TileRegisters() { _tile_release(); }
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;
};

inline void store_tile(const __m512i (&rows)[16], bf16* to) {
  for (int i = 0; i < 16; ++i) _mm512_storeu_si512(to + i * kDepth, rows[i]);
}

// 32 rows of depth (zero beyond `depth`) of 32 columns, as depth pairs of the first and of the last 16
// columns.
inline void load_pairs(const bf16* from, int64_t stride, int64_t depth, int64_t columns, __m512i (&low)[16],
                       __m512i (&high)[16]) {
  const __mmask32 mask = first_lanes(columns);
  for (int i = 0; i < 16; ++i) {
    const bf16* row = from + 2 * i * stride;
    _mm_prefetch(row + kPrefetch, _MM_HINT_T1);
    _mm_prefetch(row + stride + kPrefetch, _MM_HINT_T1);
    const __m512i even = 2 * i < depth ? _mm512_maskz_loadu_epi16(mask, row) : _mm512_setzero_si512();
    const __m512i odd =
        2 * i + 1 < depth ? _mm512_maskz_loadu_epi16(mask, row + stride) : _mm512_setzero_si512();
    interleave(even, odd, low[i], high[i]);
  }
}

// Packs 32 lines, rows of a left operand or columns of a right one, as pairs of tiles for every 32 of depth.
// Element (line, k) stands at from[line * stride + k], or where the lines are `strided` at from[k * stride +
// line]. What lies beyond `lines` and `depth` is zero.
inline void pack(const bf16* from, int64_t stride, bool strided, bool left, int64_t lines, int64_t depth,
                 bf16* to) {
  __m512i low[16], high[16];
  for (int64_t k = 0; k < depth; k += kDepth, to += 2 * kTile) {
    if (strided) {
      load_pairs(from + k * stride, stride, depth - k, lines, low, high);
    } else {
      load_rows(from + k, stride, lines, depth - k, low);
      load_rows(from + k + kRows * stride, stride, lines - kRows, depth - k, high);
    }
    // Strided lines come as depth pairs, as right tiles have them; contiguous ones as left tiles have them.
    if (strided == left) {
      transpose_pairs(low);
      transpose_pairs(high);
    }
    store_tile(low, to);
    store_tile(high, to + kTile);
  }
}

// GCC does not know that loading a tile reads memory: this keeps earlier stores before it.
inline void settle_memory() { asm volatile("" ::: "memory"); }

// Four tiles of sums, 0 1 over 2 3, in registers 0 to 3.
inline void clear_sums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}
inline void load_sums(const float* from, int64_t stride) {
  settle_memory();
  const int64_t bytes = stride * static_cast<int64_t>(sizeof(float));
  _tile_loadd(0, from, bytes);
  _tile_loadd(1, from + kRows, bytes);
  _tile_loadd(2, from + kRows * stride, bytes);
  _tile_loadd(3, from + kRows * stride + kRows, bytes);
}
inline void store_sums(float* to, int64_t stride) {
  const int64_t bytes = stride * static_cast<int64_t>(sizeof(float));
  _tile_stored(0, to, bytes);
  _tile_stored(1, to + kRows, bytes);
  _tile_stored(2, to + kRows * stride, bytes);
  _tile_stored(3, to + kRows * stride + kRows, bytes);
}

// Adds 32 rows by 32 columns of a product to the sums: `steps` pairs of left tiles times pairs of right
// tiles.
inline void multiply(const bf16* left, const bf16* right, int64_t steps) {
  settle_memory();
  for (int64_t s = 0; s < steps; ++s, left += 2 * kTile, right += 2 * kTile) {
    _tile_loadd(4, left, 64);
    _tile_loadd(6, right, 64);
    _tile_loadd(7, right + kTile, 64);
    _tile_loadd(5, left + kTile, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
}

// The same with a left operand that is not packed: 32 rows, `stride` elements apart.
inline void multiply_rows(const bf16* left, int64_t stride, const bf16* right, int64_t steps) {
  settle_memory();
  const int64_t bytes = stride * static_cast<int64_t>(sizeof(bf16));
  for (int64_t s = 0; s < steps; ++s, left += kDepth, right += 2 * kTile) {
    _tile_loadd(4, left, bytes);
    _tile_loadd(6, right, 64);
    _tile_loadd(7, right + kTile, 64);
    _tile_loadd(5, left + kRows * stride, bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
}

}  // namespace recollect::cpu::amx

#endif
