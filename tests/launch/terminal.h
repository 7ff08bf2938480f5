// A terminal for tests: a pseudo-terminal in which the real program runs, and what somebody would see there. It knows the
// control sequences that the program uses, and fails the test for any other.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/launch/process.h"

namespace recollect::test {

// What a terminal shows. A line that is too long goes on in the next row; where the terminal becomes narrower, such lines
// are broken anew, as most terminals do, or cut off, as the others do.
class Screen {
 public:
  enum class Narrowed { kBreaksLines, kCutsLines };

  explicit Screen(int columns, Narrowed narrowed = Narrowed::kBreaksLines)
      : columns_(columns), narrowed_(narrowed) {}

  void write(std::string_view bytes);
  void resize(int columns);
  // Lines that were written longer than the terminal was wide.
  int too_long() const { return too_long_; }
  // Without spaces at their ends; the last one is where the cursor is.
  std::vector<std::string> lines() const;
  // The line of the cursor.
  std::string current() const { return lines()[line_]; }

 private:
  std::size_t row_begin() const;
  void put(char c);
  void obey(std::string_view sequence);

  int columns_;
  Narrowed narrowed_;
  std::vector<std::string> lines_{""};
  std::size_t line_ = 0, at_ = 0;  // of the cursor: the line, and the character in it
  bool is_behind_last_ = false;    // column, and still in that row
  std::string unfinished_;         // of a control sequence
  int too_long_ = 0;
};

// A program whose standard output and error are a terminal of its own.
class TerminalRun {
 public:
  using Clock = std::chrono::steady_clock;
  struct Piece {
    Clock::time_point at;
    std::string bytes;
  };

  TerminalRun(const Words& command, const std::string& folder, Environment environment, int columns,
              Screen::Narrowed narrowed = Screen::Narrowed::kBreaksLines);
  ~TerminalRun();

  // Reads what it writes for so long, or until it has ended.
  void watch(std::chrono::milliseconds time);
  // Until the bar is drawn so many times more; false where it ends before.
  bool watch_until_drawn(std::size_t more);
  // Until its end.
  Finished finish();
  // When all is read that the program has written; it may be about to write one more line of the former width.
  void resize(int columns);
  void signal(int signal);

  const Screen& screen() const { return screen_; }
  const std::vector<Piece>& pieces() const { return pieces_; }
  std::string bytes() const;
  // When a bar was whole: it has one percent sign, which nothing else has, and ends with a carriage return.
  std::vector<Clock::time_point> bars() const;

 private:
  int master_ = -1, slave_ = -1;
  Screen screen_;
  std::vector<Piece> pieces_;
  std::unique_ptr<Process> process_;
};

}  // namespace recollect::test
