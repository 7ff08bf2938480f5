// Everything wrong with a text, collected in one pass and reported together, in the order of the text.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace recollect {

// Where a value came from: "file:line:column", "command line: key=value", or a path. Line 0 means that it is
// not in the configuration file.
struct Place {
  std::string text;
  int line = 0;
  int column = 0;
};

// A contradiction, and the keys that are part of it.
struct Finding {
  std::vector<std::string> keys;
  std::string message;
  // Other keys make the first key meaningless. If the first key is in the file and one of the others is on
  // the command line, the first key is ignored.
  bool gives_way = false;
};

class Problems {
 public:
  static constexpr std::size_t kMaxReported = 100;

  void add(const Place& place, const std::string& message);
  void append(const Problems& others);
  bool empty() const { return count_ == 0; }
  // Returns true if no further message will be shown, so that callers need not compose one.
  bool full() const { return entries_.size() >= kMaxReported; }
  // One "place: message" per line.
  std::string text() const;
  // Throws Error kConfiguration with text() if there is any problem.
  void raise(const std::string& hint = {}) const;

 private:
  struct Entry {
    int line;
    int column;
    std::string text;
  };
  std::vector<Entry> entries_;
  std::size_t count_ = 0;
};

}  // namespace recollect
