// Terminal output of a run. Training is worth more than its log: if the reader has gone, or the disk of a
// redirection is full, the text is lost and training continues.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "engine/io/terminal.h"

namespace recollect {

void put_text(std::FILE* stream, std::string_view text) noexcept;

// Prints without allocating memory, so that a step's line allocates nothing.
void say_formatted(fmt::string_view format, fmt::format_args args);

template <typename... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  say_formatted(format, fmt::make_format_args(args...));
}

// Prints on standard error, after the program's name. It erases a progress bar on the same line, where the
// cursor stands at the beginning.
template <typename... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  std::string text = "recollect: " + fmt::format(format, std::forward<Args>(args)...);
  if (may_draw_on(STDERR_FILENO)) text += kEraseToEndOfLine;
  put_text(stderr, text += '\n');
}

}  // namespace recollect
