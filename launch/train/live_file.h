// Writes live.rankN.json (launch/report/live_rank.h) to the output folder while a rank trains, once a second,
// between two steps. Other steps only check the time. If the file cannot be written, there is none, and the
// run does not notice.
#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "engine/io/descriptor.h"
#include "launch/report/live_rank.h"
#include "launch/train/session.h"

namespace recollect {

class LiveFile {
 public:
  LiveFile(const Config& config, const Session& session);
  // Removes the file, if it still belongs to this run.
  ~LiveFile();
  LiveFile(const LiveFile&) = delete;
  LiveFile& operator=(const LiveFile&) = delete;

  void after_step(const StepResult& result);

 private:
  void write();

  const Session& session_;
  const std::string path_;
  LiveRank live_;
  fmt::memory_buffer text_;
  Descriptor file_;
  // Since the last write.
  int64_t steps_ = 0;
  double seconds_ = 0, waited_ = 0, since_written_ = 0, exposed_before_ = 0;
};

}  // namespace recollect
