// Keeps live.rankN.json (launch/report/live_rank.h) in the output folder while a rank trains. Between two steps, once a second:
// to look whether a second is over is all that it costs a step. Where it cannot be written there is none; the run never hears of it.
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
  // The file goes with the run, if it is still this one's.
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
  // Since it was written before.
  int64_t steps_ = 0;
  double seconds_ = 0, waited_ = 0, since_written_ = 0, exposed_before_ = 0;
};

}  // namespace recollect
