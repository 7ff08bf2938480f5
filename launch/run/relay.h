// One stream of one rank, from its pipe to the console, to a file and to memory. The file receives the bytes
// as they are. The console receives lines, whole, each behind the name of its rank; the pieces between the
// carriage returns of a progress bar count as lines. A last line without an end is shown when the stream
// ends, and one of more than a mebibyte in parts.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "launch/run/console.h"

namespace recollect::launcher {

// "[rank3]: ", before each line of that rank on the console.
std::string prefix_of(int rank);

// The last lines, for whoever asks why. What a carriage return wrote over is forgotten.
class Tail {
 public:
  void add(std::string_view line);
  const std::deque<std::string>& lines() const { return lines_; }

 private:
  std::deque<std::string> lines_;
  bool overwritten_ = false;
};

class Relay {
 public:
  // `log_path` is empty for a stream that has no file. Error kStorage where it has one that cannot be made.
  Relay(Descriptor pipe, int rank, Stream stream, bool shown, const std::string& log_path);

  int descriptor() const { return pipe_.get(); }
  bool is_open() const { return static_cast<bool>(pipe_); }
  // Takes some of what is there; at the end of the stream closes the pipe.
  // False when there was nothing.
  bool read_some(Console& console);

  const std::string& log_path() const { return log_path_; }
  const Tail& tail() const { return tail_; }
  bool is_shown() const { return shown_; }
  // "[rank1]:", with which its lines begin on the console.
  std::string_view prefix() const { return std::string_view(prefix_).substr(0, prefix_.size() - 1); }

 private:
  void keep(std::string_view bytes, Console& console);
  void split(std::string_view bytes, Console& console);
  void emit(std::string_view line, Console& console);

  Descriptor pipe_, log_;
  std::string prefix_, log_path_;
  Stream stream_;
  bool shown_;
  std::string partial_;       // a line that has not ended
  std::size_t searched_ = 0;  // so much of it has no end
  Tail tail_;
};

}  // namespace recollect::launcher
