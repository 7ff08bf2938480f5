// A terminal that is drawn on as a whole, by ANSI's sequences, and is afterwards as it was: whatever ends the program, but for a
// signal that nobody can wait for.
#pragma once

#include <signal.h>
#include <termios.h>

#include <string>
#include <vector>

#include "engine/io/descriptor.h"
#include "launch/top/screen.h"

namespace recollect {

// Whether both ends are a terminal that moves its cursor.
bool is_terminal();
// Of standard output; 80 x 24 where it does not say.
ScreenSize terminal_size();
// NO_COLOR and the locale, as the environment has them.
ScreenStyle terminal_style();

enum class Pressed { kNothing, kQuit, kUp, kDown };

class Terminal {
 public:
  // From now on SIGINT, SIGTERM, SIGHUP, SIGTSTP and SIGWINCH are waited for, where they are not ignored.
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void draw(const std::vector<std::string>& lines) const;
  // For so long at most: until a key is pressed, a signal comes, or the window has another size. The end of standard input is
  // kQuit, and so is a signal that ends programs.
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
