// Everything wrong with a text, collected in one pass and reported together, in the order of the text.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace recollect {

// Where a value came from: "file:line:column", "command line: key=value", or a path. Line 0: not a place in
// the configuration file.
struct Place {
  std::string text;
  int line = 0;
  int column = 0;
};

// A contradiction, and the keys that are part of it.
struct Finding {
  std::vector<std::string> keys;
  std::string message;
  // The first key means nothing any more with what others say: where it stands in the file, and one of them on the command
  // line, it gives way.
  bool gives_way = false;
};

class Problems {
 public:
  static constexpr std::size_t kMaxReported = 100;

  void add(const Place& place, const std::string& message);
  void append(const Problems& others);
  bool empty() const { return count_ == 0; }
  // No further message will be shown: callers may save themselves the work of wording one.
  bool full() const { return entries_.size() >= kMaxReported; }
  // One "place: message" per line.
  std::string text() const;
  // Throws Error kConfiguration with `text()`, if there is anything.
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
