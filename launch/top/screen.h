// The lines that `recollect top` shows of a run: no wider and no more than there is room for. Knows nothing of terminals but
// how words are made bold.
#pragma once

#include <string>
#include <vector>

#include "launch/top/run_view.h"

namespace recollect {

struct ScreenSize {
  int width = 80, height = 24;
};

struct ScreenStyle {
  bool colours = false;  // and bold
  bool unicode = true;   // else the curve is left out
};

// `first_rank`: of those that are shown, where not all have room.
std::vector<std::string> screen_lines(const RunView& run, const ScreenSize& size, const ScreenStyle& style,
                                      std::size_t first_rank = 0);

}  // namespace recollect
