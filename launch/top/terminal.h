// Draws a full screen on a terminal with ANSI sequences. The terminal is restored at every end of the
// program, except after signals that cannot be caught.
#pragma once

#include <signal.h>
#include <termios.h>

#include <string>
#include <vector>

#include "engine/io/descriptor.h"
#include "launch/top/screen.h"

namespace recollect {

// Whether standard input and output are a terminal that can move its cursor.
bool is_terminal();
// The size of the terminal at standard output; 80 x 24 if it is unknown.
ScreenSize terminal_size();
// The style that NO_COLOR and the locale in the environment allow.
ScreenStyle terminal_style();

enum class Pressed { kNothing, kQuit, kUp, kDown };

class Terminal {
 public:
  // From now on wait() receives SIGINT, SIGTERM, SIGHUP, SIGTSTP and SIGWINCH, unless they are ignored.
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void draw(const std::vector<std::string>& lines) const;
  // Waits until a key is pressed, a signal comes, the window changes its size, or the time is over. The end
  // of standard input and signals that end programs give kQuit.
  Pressed wait(int milliseconds);

 private:
  void enter() const;
  void leave() const;
  Pressed take_signal();
  Pressed take_keys() const;

  termios before_{};
  sigset_t signals_{}, blocked_before_{};
  Descriptor signal_file_;
};

}  // namespace recollect
