// A line of parts, separated by two spaces, that is made to fit a width: the least important parts are
// dropped first. A short line allocates nothing, because every step makes one.
#pragma once

#include <array>
#include <cstddef>
#include <iterator>
#include <utility>

#include <fmt/format.h>

namespace recollect {

class FittedLine {
 public:
  static constexpr int kAlways = 0;  // never dropped, but cut if it alone is too long

  // `importance` is kAlways, or a number: larger numbers are dropped sooner.
  template <typename... Args>
  void add(int importance, fmt::format_string<Args...> format, Args&&... args) {
    if (count_ == pieces_.size()) return;
    const std::size_t begin = text_.size();
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    pieces_[count_++] = {importance, begin, text_.size(), true};
  }

  // Drops the parts that do not fit into this number of columns; 0 means no limit.
  void fit(std::size_t columns);
  std::size_t width() const;
  void write(fmt::memory_buffer& out) const;

 private:
  static constexpr std::size_t kMost = 32, kGap = 2;
  struct Piece {
    int importance = 0;
    std::size_t begin = 0, end = 0;
    bool stays = false;
  };

  fmt::memory_buffer text_;
  std::array<Piece, kMost> pieces_{};
  std::size_t count_ = 0;
  std::size_t most_ = 0;  // characters of the line; 0: no limit
};

}  // namespace recollect
