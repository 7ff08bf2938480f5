#include "launch/top/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>

namespace recollect {

namespace {

// Sequences that switch to the alternate screen and hide the cursor, and that switch back.
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l", kLeave = "\x1b[?25h\x1b[?1049l";
constexpr std::string_view kHome = "\x1b[H", kRestOfLine = "\x1b[K", kRestOfScreen = "\x1b[J";

void put(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // the terminal is gone
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::string_view environment(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

}  // namespace

bool is_terminal() {
  const std::string_view kind = environment("TERM");
  return ::isatty(STDIN_FILENO) && ::isatty(STDOUT_FILENO) && !kind.empty() && kind != "dumb";
}

ScreenSize terminal_size() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {.width = size.ws_col, .height = size.ws_row};
}

ScreenStyle terminal_style() {
  std::string_view locale;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (locale.empty()) locale = environment(name);
  const auto has = [&](std::string_view part) { return locale.find(part) != std::string_view::npos; };
  return {.colours = is_terminal() && environment("NO_COLOR").empty(),
          .unicode = has("UTF-8") || has("utf8") || has("utf-8")};
}

Terminal::Terminal() {
  sigemptyset(&signals_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGWINCH}) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&signals_, signal);
  }
  ::tcgetattr(STDIN_FILENO, &before_);
  sigprocmask(SIG_BLOCK, &signals_, &blocked_before_);
  signal_file_ = Descriptor{::signalfd(-1, &signals_, SFD_CLOEXEC | SFD_NONBLOCK)};
  enter();
}

Terminal::~Terminal() {
  leave();
  sigprocmask(SIG_SETMASK, &blocked_before_, nullptr);
}

void Terminal::enter() const {
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
  put(kEnter);
}

void Terminal::leave() const {
  put(kLeave);
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
}

// Writes the whole screen in one call over the old text, so that nothing flickers. There is no line feed
// after the last line, because it would scroll the screen.
void Terminal::draw(const std::vector<std::string>& lines) const {
  std::string text(kHome);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    text += lines[i];
    text += kRestOfLine;
    if (i + 1 < lines.size()) text += "\r\n";
  }
  put(text.append(kRestOfScreen));
}

Pressed Terminal::wait(int milliseconds) {
  std::array<pollfd, 2> files{{{STDIN_FILENO, POLLIN, 0}, {signal_file_.get(), POLLIN, 0}}};
  if (::poll(files.data(), files.size(), milliseconds) <= 0) return Pressed::kNothing;
  if (files[1].revents != 0) return take_signal();
  return take_keys();
}

Pressed Terminal::take_signal() {
  signalfd_siginfo came{};
  if (::read(signal_file_.get(), &came, sizeof came) != sizeof came) return Pressed::kNothing;
  switch (static_cast<int>(came.ssi_signo)) {
    case SIGWINCH:
      return Pressed::kNothing;
    case SIGTSTP:  // another program has the terminal until SIGCONT
      leave();
      ::raise(SIGSTOP);
      enter();
      return Pressed::kNothing;
    default:
      return Pressed::kQuit;
  }
}

Pressed Terminal::take_keys() const {
  std::array<char, 64> keys{};
  const ssize_t bytes = ::read(STDIN_FILENO, keys.data(), keys.size());
  if (bytes <= 0) return Pressed::kQuit;
  const std::string_view text(keys.data(), static_cast<std::size_t>(bytes));
  if (text.find_first_of("qQ") != std::string_view::npos) return Pressed::kQuit;
  if (text == "k" || text == "\x1b[A" || text == "\x1bOA") return Pressed::kUp;
  if (text == "j" || text == "\x1b[B" || text == "\x1bOB") return Pressed::kDown;
  return Pressed::kNothing;
}

}  // namespace recollect
