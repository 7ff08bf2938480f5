// A list of numbers that is appended to and read by index, in as few bits as they need: each block of 64 numbers stores its
// smallest one, and of the others how much larger they are, all in the same number of bits. What index data is made of
// (where lines begin, how long they are, which documents share a sample) takes one to three bytes a number so.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>

#include "engine/data/shared_index.h"

namespace recollect {

class NumberList {
 public:
  void push_back(uint64_t number);

  std::size_t size() const { return blocks() * kNumbers + count_; }
  bool empty() const { return size() == 0; }
  // `i` < size().
  uint64_t operator[](std::size_t i) const;
  uint64_t back() const { return (*this)[size() - 1]; }
  std::size_t bytes() const;  // of memory, that of others included where it is shared

  void write(IndexWriter& to) const;
  // Takes the place of all numbers: they stay in the reader's memory, and no further ones come.
  void read(IndexReader& from);

 private:
  static constexpr std::size_t kNumbers = 64;  // of a block
  // Its numbers less `smallest` are `bits` bits each, one after the other, from the word `first` on: so `bits` words.
  struct Block {
    uint64_t smallest;
    uint64_t first : 56;
    uint64_t bits : 8;
  };

  void close_block();

  const Block& block(std::size_t i) const { return shared_ ? shared_blocks_[i] : blocks_[i]; }
  uint64_t word(std::size_t i) const { return shared_ ? shared_words_[i] : words_[i]; }
  std::size_t blocks() const { return shared_ ? shared_blocks_.size() : blocks_.size(); }

  // Deques: a list that grows is not copied, so that it never takes twice its memory.
  std::deque<Block> blocks_;
  std::deque<uint64_t> words_;
  std::array<uint64_t, kNumbers> last_;  // numbers after those of the blocks
  std::size_t count_ = 0;                // of last_
  // In their place, of numbers that were read.
  std::span<const Block> shared_blocks_;
  std::span<const uint64_t> shared_words_;
  std::shared_ptr<const SharedMemory> shared_;
};

}  // namespace recollect
