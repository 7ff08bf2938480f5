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
  if (i >= blocks() * kNumbers) return last_[i - blocks() * kNumbers];
  const Block& block = this->block(i / kNumbers);
  if (block.bits == 0) return block.smallest;
  const std::size_t at = i % kNumbers * block.bits;
  const std::size_t word = block.first + at / 64, shift = at % 64;
  uint64_t more = this->word(word) >> shift;
  if (shift + block.bits > 64) more |= this->word(word + 1) << (64 - shift);
  return block.smallest + (block.bits == 64 ? more : more & ((uint64_t{1} << block.bits) - 1));
}

void NumberList::write(IndexWriter& to) const {
  static_assert(sizeof(Block) == 2 * sizeof(uint64_t));
  const auto write_one = [&](const Block& block) {
    to.words({reinterpret_cast<const uint64_t*>(&block), sizeof block / sizeof(uint64_t)});
  };
  to.number(blocks());
  to.number(shared_ ? shared_words_.size() : words_.size());
  to.number(count_);
  for (std::size_t i = 0; i < blocks(); ++i) write_one(block(i));
  if (shared_) to.words(shared_words_);
  for (const uint64_t word : words_) to.number(word);
  to.words(last_);
}

void NumberList::read(IndexReader& from) {
  const uint64_t blocks = from.number(), words = from.number(), count = from.number();
  if (count > kNumbers) throw OtherIndex();
  const auto pairs = from.words(blocks * (sizeof(Block) / sizeof(uint64_t)));
  *this = NumberList();
  shared_blocks_ = {reinterpret_cast<const Block*>(pairs.data()), blocks};
  shared_words_ = from.words(words);
  std::ranges::copy(from.words(kNumbers), last_.begin());
  count_ = count;
  shared_ = from.memory();
}

std::size_t NumberList::bytes() const {
  return sizeof(*this) + shared_blocks_.size_bytes() + shared_words_.size_bytes() +
         blocks_.size() * sizeof(Block) + words_.size() * sizeof(uint64_t);
}

}  // namespace recollect
