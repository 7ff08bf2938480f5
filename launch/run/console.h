// What the launcher says and passes on, on its own two streams: whole lines, in the order in which they came.
// Writing never blocks; who reads slowly makes the ranks wait, and never the launcher. Where nobody reads any
// more the rest is dropped: training is worth more than its log. On a terminal a line takes the place of a progress bar, which
// the one who draws it leaves with the cursor where it begins.
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

  // The descriptor whose readiness write_some() waits for; -1 where all is written.
  int waits_for() const;
  void write_some();
  bool is_full() const;  // until some is written, nothing more should be read from the ranks

 private:
  struct Piece {
    Stream stream;
    std::string text;
  };
  const Descriptor& output(Stream stream) const { return outputs_[static_cast<int>(stream)]; }

  Descriptor outputs_[2];  // by Stream; likewise below
  bool may_draw_[2];
  std::deque<Piece> waiting_;
  std::size_t written_ = 0;  // of the first piece
  std::size_t bytes_ = 0;
};

}  // namespace recollect::launcher
