#include "engine/data/number_list.h"

#include <algorithm>
#include <bit>

namespace recollect {

void NumberList::push_back(uint64_t number) {
  last_[count_++] = number;
  if (count_ == kNumbers) close_block();
}

void NumberList::close_block() {
  const auto [least, most] = std::minmax_element(last_.begin(), last_.end());
  const std::size_t bits = static_cast<std::size_t>(std::bit_width(*most - *least));
  const std::size_t first = words_.size();
  blocks_.push_back({.smallest = *least, .first = first, .bits = bits});
  for (std::size_t word = 0; word < bits; ++word) words_.push_back(0);
  for (std::size_t i = 0; i < kNumbers && bits > 0; ++i) {
    const uint64_t more = last_[i] - *least;
    const std::size_t word = first + i * bits / 64, shift = i * bits % 64;
    words_[word] |= more << shift;
    if (shift + bits > 64) words_[word + 1] |= more >> (64 - shift);
  }
  count_ = 0;
}

uint64_t NumberList::operator[](std::size_t i) const {
  if (i >= blocks_.size() * kNumbers) return last_[i - blocks_.size() * kNumbers];
  const Block& block = blocks_[i / kNumbers];
  if (block.bits == 0) return block.smallest;
  const std::size_t at = i % kNumbers * block.bits;
  const std::size_t word = block.first + at / 64, shift = at % 64;
  uint64_t more = words_[word] >> shift;
  if (shift + block.bits > 64) more |= words_[word + 1] << (64 - shift);
  return block.smallest + (block.bits == 64 ? more : more & ((uint64_t{1} << block.bits) - 1));
}

std::size_t NumberList::bytes() const {
  return sizeof(*this) + blocks_.size() * sizeof(Block) + words_.size() * sizeof(uint64_t);
}

}  // namespace recollect
