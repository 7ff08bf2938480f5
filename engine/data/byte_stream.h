// A file as a parser reads it, byte by byte: a piece at a time is held, and lines are counted. A zero byte, which parsers
// take for the end, is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "engine/io/input_file.h"

namespace recollect {

class ByteStream {
 public:
  explicit ByteStream(const std::string& path);

  bool at_end() const { return at_ == piece_.size(); }
  char current() const { return piece_[at_]; }
  void advance() {
    lines_ += piece_[at_] == '\n';
    if (++at_ == piece_.size()) read_piece();
  }
  int64_t line() const { return lines_ + 1; }  // of what comes next

  // What is left, as an input iterator; a default one is its end.
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = char;

    Iterator() = default;
    explicit Iterator(ByteStream& stream) : stream_(&stream) {}
    char operator*() const { return stream_->current(); }
    Iterator& operator++() {
      stream_->advance();
      return *this;
    }
    Iterator operator++(int) {
      stream_->advance();
      return *this;
    }
    bool operator==(const Iterator& other) const { return is_end() == other.is_end(); }

   private:
    bool is_end() const { return !stream_ || stream_->at_end(); }
    ByteStream* stream_ = nullptr;
  };

 private:
  void read_piece();

  InputFile file_;
  uint64_t offset_ = 0;  // behind the piece
  std::vector<char> piece_;
  std::size_t at_ = 0;
  int64_t lines_ = 0;
};

}  // namespace recollect
