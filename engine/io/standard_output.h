// What a run says on the terminal. Training is worth more than its log: where nobody reads any more, or the
// disk behind a redirection is full, the words are lost and nothing else.
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

// A line of a step allocates nothing.
void say_formatted(fmt::string_view format, fmt::format_args args);

template <typename... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  say_formatted(format, fmt::make_format_args(args...));
}

// On standard error, behind the program's name. A progress bar on the same line goes: the cursor stands where it begins.
template <typename... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  std::string text = "recollect: " + fmt::format(format, std::forward<Args>(args)...);
  if (may_draw_on(STDERR_FILENO)) text += kEraseToEndOfLine;
  put_text(stderr, text += '\n');
}

}  // namespace recollect
