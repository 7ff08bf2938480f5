// The launcher's stdout and stderr. It prints whole lines, in the order in which they came. Writing never
// blocks: a slow reader makes the ranks wait, but not the launcher. If the reader has gone, further output is
// dropped, because training matters more than its log. On a terminal a line overwrites the progress bar,
// whose drawer leaves the cursor at the begin of the bar.
#pragma once

#include <deque>
#include <string>

#include "engine/io/descriptor.h"
#include "launch/run/options.h"

namespace recollect::launcher {

class Console {
 public:
  Console();

  void line(Stream stream, std::string text);
  // A message of the launcher's own.
  void say(const std::string& text);

  // The descriptor to poll before write_some(); -1 if everything is written.
  int waits_for() const;
  void write_some();
  bool is_full() const;  // then do not read from the ranks until some is written

 private:
  struct Piece {
    Stream stream;
    std::string text;
  };
  const Descriptor& output(Stream stream) const { return outputs_[static_cast<int>(stream)]; }

  Descriptor outputs_[2];  // by Stream, like may_draw_
  bool may_draw_[2];
  std::deque<Piece> waiting_;
  std::size_t written_ = 0;  // bytes of the first piece
  std::size_t bytes_ = 0;
};

}  // namespace recollect::launcher
