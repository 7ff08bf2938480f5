// Copies one stream of one rank from its pipe to the console, to a file and to memory. The file receives the
// unchanged bytes. The console receives whole lines, each after the name of its rank; the parts between the
// carriage returns of a progress bar count as lines. A last line without an end mark is shown when the stream
// ends. A line of more than a mebibyte is shown in parts.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "launch/run/console.h"

namespace recollect::launcher {

// "[rank3]: ", before each line of that rank on the console.
std::string prefix_of(int rank);

// The last lines of a stream, for the failure report. Lines that a carriage return overwrote are dropped.
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
  // `log_path` is empty if the stream has no file. Throws kStorage if the file cannot be created.
  Relay(Descriptor pipe, int rank, Stream stream, bool shown, const std::string& log_path);

  int descriptor() const { return pipe_.get(); }
  bool is_open() const { return static_cast<bool>(pipe_); }
  // Reads available bytes from the pipe; closes the pipe at the end of the stream. Returns false if there was
  // nothing to read.
  bool read_some(Console& console);

  const std::string& log_path() const { return log_path_; }
  const Tail& tail() const { return tail_; }
  bool is_shown() const { return shown_; }
  // "[rank1]:", the prefix of its lines on the console.
  std::string_view prefix() const { return std::string_view(prefix_).substr(0, prefix_.size() - 1); }

 private:
  void keep(std::string_view bytes, Console& console);
  void split(std::string_view bytes, Console& console);
  void emit(std::string_view line, Console& console);

  Descriptor pipe_, log_;
  std::string prefix_, log_path_;
  Stream stream_;
  bool shown_;
  std::string partial_;       // an unfinished line
  std::size_t searched_ = 0;  // the first bytes of partial_ that are known to have no end mark
  Tail tail_;
};

}  // namespace recollect::launcher
