// Makes the lines that `recollect top` shows for a run, within the given width and height. It knows nothing
// about terminals except the sequences for bold and colours.
#pragma once

#include <string>
#include <vector>

#include "launch/top/run_view.h"

namespace recollect {

struct ScreenSize {
  int width = 80, height = 24;
};

struct ScreenStyle {
  bool colours = false;  // colours and bold
  bool unicode = true;   // if false, the curve is left out
};

// `first_rank` is the first rank to show if not all fit.
std::vector<std::string> screen_lines(const RunView& run, const ScreenSize& size, const ScreenStyle& style,
                                      std::size_t first_rank = 0);

}  // namespace recollect
