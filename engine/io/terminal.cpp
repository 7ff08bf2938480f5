#include "engine/io/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

namespace recollect {

namespace {

// CI=false is how some runners tell a program to ignore them.
bool is_set(const char* name) {
  const char* const value = std::getenv(name);
  return value && *value != '\0' && std::string_view(value) != "false";
}

}  // namespace

bool wants_plain_lines() {
  const char* const terminal = std::getenv("TERM");
  return !terminal || std::string_view(terminal) == "dumb" || *terminal == '\0' || is_set("NO_COLOR") ||
         is_set("CI");
}

bool may_draw_on(int descriptor) { return ::isatty(descriptor) && !wants_plain_lines(); }

int columns_of(int descriptor) {
  constexpr int kUsual = 80;
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

}  // namespace recollect
