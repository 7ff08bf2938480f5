#include "engine/data/order.h"

#include <bit>

#include "engine/core/error.h"
#include "engine/core/philox.h"
#include "engine/data/dataset.h"

namespace recollect {
namespace {

constexpr uint32_t kRounds = 8;
constexpr uint32_t kFirstSite = 0x10;  // of kDataRandomLayer: one site per round

}  // namespace

SampleOrder::SampleOrder(int64_t size, uint64_t seed, bool shuffle)
    : size_(size), seed_(seed), shuffle_(shuffle) {
  require(size >= 1 && size <= int64_t{1} << 62, "a sample order needs between 1 and 2^62 samples");
  const int bits = std::bit_width(static_cast<uint64_t>(size - 1));
  half_bits_ = bits < 2 ? 1 : (bits + 1) / 2;
}

int64_t SampleOrder::at(int64_t epoch, int64_t position) const {
  require(position >= 0 && position < size_ && epoch >= 0, "a sample outside the order");
  if (!shuffle_) return position;
  // Walking the cycle until it is back inside [0, size) keeps the map a permutation of that range.
  uint64_t value = static_cast<uint64_t>(position);
  do value = permute(value, static_cast<uint64_t>(epoch));
  while (value >= static_cast<uint64_t>(size_));
  return static_cast<int64_t>(value);
}

// A Feistel network: each round changes one half by a function of the other, which is undone by doing it
// again, so the whole is a bijection whatever the function.
uint64_t SampleOrder::permute(uint64_t value, uint64_t epoch) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_, right = value & mask;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const auto words =
        philox4x32({static_cast<uint32_t>(right), static_cast<uint32_t>(epoch),
                    (kDataRandomLayer << 8) | (kFirstSite + round), static_cast<uint32_t>(epoch >> 32)},
                   static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32));
    const uint64_t mixed = left ^ (words[0] & mask);
    left = right;
    right = mixed;
  }
  return left << half_bits_ | right;
}

}  // namespace recollect
