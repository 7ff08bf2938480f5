#include "launch/train/fitted_line.h"

#include <algorithm>
#include <string_view>

namespace recollect {

std::size_t FittedLine::width() const {
  std::size_t width = 0;
  for (std::size_t i = 0; i < count_; ++i)
    if (pieces_[i].stays) width += (width > 0 ? kGap : 0) + pieces_[i].end - pieces_[i].begin;
  return width;
}

void FittedLine::fit(std::size_t columns) {
  most_ = columns;
  while (columns > 0 && width() > columns) {
    Piece* least = nullptr;
    for (std::size_t i = 0; i < count_; ++i)
      if (pieces_[i].stays && (!least || pieces_[i].importance >= least->importance)) least = &pieces_[i];
    if (!least || least->importance == kAlways) return;
    least->stays = false;
  }
}

void FittedLine::write(fmt::memory_buffer& out) const {
  const std::size_t from = out.size();
  for (std::size_t i = 0; i < count_; ++i) {
    const Piece& piece = pieces_[i];
    if (!piece.stays) continue;
    if (out.size() > from) out.append(std::string_view("  "));
    out.append(std::string_view(text_.data() + piece.begin, piece.end - piece.begin));
  }
  if (most_ > 0 && out.size() - from > most_) out.resize(from + most_);
}

}  // namespace recollect
