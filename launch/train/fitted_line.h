// A line of pieces, with two spaces between them, that fits where it is shown: the least important pieces go first. It
// allocates nothing while it is short, since every step makes one.
#pragma once

#include <array>
#include <cstddef>
#include <iterator>
#include <utility>

#include <fmt/format.h>

namespace recollect {

class FittedLine {
 public:
  static constexpr int kAlways = 0;  // such a piece never goes, and is cut where even that is too much

  // `importance`: kAlways, or the greater the sooner it goes.
  template <typename... Args>
  void add(int importance, fmt::format_string<Args...> format, Args&&... args) {
    if (count_ == pieces_.size()) return;
    const std::size_t begin = text_.size();
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    pieces_[count_++] = {importance, begin, text_.size(), true};
  }

  // Lets go what has no room in so many columns; 0: there is room for all.
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
  std::size_t most_ = 0;  // characters of the whole; 0: any number
};

}  // namespace recollect
