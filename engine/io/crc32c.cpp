#include "engine/io/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace recollect {

namespace {

constexpr uint32_t kReversedPolynomial = 0x82f63b78;

// The change that each value of a byte makes to the remainder.
constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit)
      remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? kReversedPolynomial : 0);
    table[byte] = remainder;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = make_table();

uint32_t by_table(std::string_view bytes, uint32_t remainder) {
  for (const char c : bytes)
    remainder = (remainder >> 8) ^ kTable[(remainder ^ static_cast<unsigned char>(c)) & 0xff];
  return remainder;
}

#if defined(__x86_64__)
// The CRC instruction starts one step per cycle, but its result takes three cycles. So the bytes are divided
// into several consecutive lanes, which are processed in parallel.
constexpr std::size_t kCrcLanes = 4, kLaneBytes = 4096;

// What kLaneBytes zero bytes after it do to each byte of a remainder. Appending zeros is linear over XOR: the
// tables are computed bit by bit, and the effect on a byte is the XOR of the effects on its bits.
using ZerosTable = std::array<std::array<uint32_t, 256>, 4>;
constexpr ZerosTable make_zeros() {
  std::array<uint32_t, 32> bits{};  // the effect on each bit
  for (int bit = 0; bit < 32; ++bit) bits[bit] = uint32_t{1} << bit;
  const auto apply = [](const std::array<uint32_t, 32>& to, uint32_t remainder) {
    uint32_t sum = 0;
    for (int bit = 0; bit < 32; ++bit)
      if ((remainder >> bit & 1) != 0) sum ^= to[bit];
    return sum;
  };
  for (int bit = 0; bit < 32; ++bit)  // one zero byte
    bits[bit] = (bits[bit] >> 8) ^ kTable[bits[bit] & 0xff];
  for (std::size_t zeros = 1; zeros < kLaneBytes; zeros *= 2) {
    const std::array<uint32_t, 32> once = bits;
    for (uint32_t& bit : bits) bit = apply(once, bit);
  }
  ZerosTable table{};
  for (int byte = 0; byte < 4; ++byte)
    for (uint32_t value = 0; value < 256; ++value) table[byte][value] = apply(bits, value << (8 * byte));
  return table;
}

constexpr ZerosTable kZeros = make_zeros();

// Returns the remainder after kLaneBytes more zero bytes. by_lanes() uses it to join the lanes' remainders.
uint32_t behind_zeros(uint32_t r) {
  return kZeros[0][r & 0xff] ^ kZeros[1][r >> 8 & 0xff] ^ kZeros[2][r >> 16 & 0xff] ^ kZeros[3][r >> 24];
}

uint64_t word_at(const char* bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

__attribute__((target("sse4.2"))) uint32_t by_lanes(const char* bytes, uint32_t remainder) {
  std::array<uint64_t, kCrcLanes> lanes{remainder};
  for (std::size_t at = 0; at < kLaneBytes; at += sizeof(uint64_t))
    for (std::size_t lane = 0; lane < kCrcLanes; ++lane)
      lanes[lane] = _mm_crc32_u64(lanes[lane], word_at(bytes + lane * kLaneBytes + at));
  uint32_t all = 0;
  for (const uint64_t lane : lanes) all = behind_zeros(all) ^ static_cast<uint32_t>(lane);
  return all;
}

__attribute__((target("sse4.2"))) uint32_t by_instruction(std::string_view bytes, uint32_t remainder) {
  for (; bytes.size() >= kCrcLanes * kLaneBytes; bytes.remove_prefix(kCrcLanes * kLaneBytes))
    remainder = by_lanes(bytes.data(), remainder);
  uint64_t wide = remainder;
  while (bytes.size() >= sizeof(uint64_t)) {
    wide = _mm_crc32_u64(wide, word_at(bytes.data()));
    bytes.remove_prefix(sizeof(uint64_t));
  }
  return by_table(bytes, static_cast<uint32_t>(wide));
}
#endif

uint32_t remainder_of(std::string_view bytes, uint32_t before) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return by_instruction(bytes, before);
#endif
  return by_table(bytes, before);
}

}  // namespace

uint32_t crc32c(std::string_view bytes, uint32_t before) { return ~remainder_of(bytes, ~before); }

}  // namespace recollect
