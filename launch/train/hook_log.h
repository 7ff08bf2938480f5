// What a command says, read from a pipe by a thread of its own and kept in a file: the first MiB of it, and a line that says so
// where there is more. The rest is read too, so that the command goes on as if all were kept.
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

  // `goes_on`: behind what an earlier attempt has said there. Where there can be no file, pipe or thread all is lost.
  HookLog(const std::string& path, bool goes_on);
  ~HookLog() { finish(); }
  HookLog(const HookLog&) = delete;
  HookLog& operator=(const HookLog&) = delete;

  // Where the command is to write to, until it has started.
  Descriptor take_input() { return std::move(input_); }
  // What went wrong so far, "" where nothing did.
  std::string problem() const;
  // When the command has ended: keeps what it has said until now.
  void finish();

 private:
  void read_all(const std::stop_token& stop);
  void keep(std::string_view text);

  const std::string path_;
  Descriptor file_, output_, input_;
  int error_ = 0;  // why nothing is kept
  std::size_t room_ = kMost;
  std::atomic<bool> is_full_ = false;
  std::jthread reader_;
};

}  // namespace recollect
