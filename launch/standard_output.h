// What a run says on the terminal. Training is worth more than its log: where nobody reads any more, or the
// disk behind a redirection is full, the words are lost and nothing else.
#pragma once

#include <cstdio>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace recollect {

inline void put_text(std::FILE* stream, const std::string& text) noexcept {
  std::fputs(text.c_str(), stream);
  std::fflush(stream);
}

template <typename... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  put_text(stdout, fmt::format(format, std::forward<Args>(args)...));
}

// On standard error, behind the program's name.
template <typename... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  put_text(stderr, "recollect: " + fmt::format(format, std::forward<Args>(args)...) + "\n");
}

}  // namespace recollect
