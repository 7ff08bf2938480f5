#include "engine/io/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace recollect {

namespace {

constexpr uint32_t kReversedPolynomial = 0x82f63b78;

// What each byte does to the remainder.
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
// The processor's own instruction, eight bytes at a time.
__attribute__((target("sse4.2"))) uint32_t by_instruction(std::string_view bytes, uint32_t remainder) {
  uint64_t wide = remainder;
  while (bytes.size() >= sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof(word));
    wide = _mm_crc32_u64(wide, word);
    bytes.remove_prefix(sizeof(word));
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
