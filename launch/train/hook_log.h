// Reads the output of a command from a pipe in a separate thread and writes the first MiB to a file, with a
// final line if there is more. The rest is read too and dropped, so that the command never blocks.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>
#include <thread>

#include "engine/io/descriptor.h"

namespace recollect {

class HookLog {
 public:
  static constexpr std::size_t kMost = std::size_t{1} << 20;  // bytes

  // With `goes_on` it appends to the file of an earlier attempt. If there can be no file, pipe or thread, the
  // output is lost.
  HookLog(const std::string& path, bool goes_on);
  ~HookLog() { finish(); }
  HookLog(const HookLog&) = delete;
  HookLog& operator=(const HookLog&) = delete;

  // The descriptor for the command's output; keep it until the command has started.
  Descriptor take_input() { return std::move(input_); }
  // The problem so far; "" if there is none.
  std::string problem() const;
  // Call it after the command has ended. Writes the remaining output.
  void finish();

 private:
  void read_all(const std::stop_token& stop);
  void keep(std::string_view text);

  const std::string path_;
  Descriptor file_, output_, input_;
  int error_ = 0;  // why nothing is written
  std::size_t room_ = kMost;
  std::atomic<bool> is_full_ = false;
  std::jthread reader_;
};

}  // namespace recollect
