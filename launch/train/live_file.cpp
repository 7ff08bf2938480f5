#include "launch/train/live_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "engine/io/node.h"

namespace recollect {

namespace {

constexpr double kBetweenWrites = 1;     // seconds
constexpr std::size_t kLiveBytes = 768;  // size of the text, so that it never becomes shorter

double exposed_so_far(const ProgramCache& programs) {
  double seconds = joined_seconds(programs);
  for (int s = 0; s < kStreamCount; ++s) seconds += exposed_seconds(programs, static_cast<StreamId>(s));
  return seconds;
}

}  // namespace

LiveFile::LiveFile(const Config& config, const Session& session)
    : session_(session),
      path_(live_rank_path(config.output_dir, session.mesh().world().rank())),
      live_{.rank = session.mesh().world().rank(),
            .ranks = session.mesh().world().size(),
            .host = host_name(),
            .process = ::getpid(),
            .max_steps = config.training.max_steps} {
  text_.reserve(kLiveBytes);
}

LiveFile::~LiveFile() {
  struct stat mine {
  }, there{};
  if (file_ && ::fstat(file_.get(), &mine) == 0 && ::lstat(path_.c_str(), &there) == 0 &&
      mine.st_ino == there.st_ino && mine.st_dev == there.st_dev)
    ::unlink(path_.c_str());
}

void LiveFile::after_step(const StepResult& result) {
  live_.step = result.step;
  ++steps_;
  seconds_ += result.seconds;
  waited_ += result.waited;
  since_written_ += result.seconds;
  if (file_ && since_written_ < kBetweenWrites) return;
  write();
  steps_ = 0;
  seconds_ = waited_ = since_written_ = 0;
}

void LiveFile::write() {
  if (!file_)
    file_ = Descriptor{::open(path_.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666)};
  if (!file_) return;
  const MemoryLedger& needs = session_.programs().needs();
  const auto steps = static_cast<double>(steps_);
  const double exposed = exposed_so_far(session_.programs());
  live_.written = std::time(nullptr);
  live_.step_seconds = seconds_ / steps;
  live_.waiting = waited_ / steps;
  live_.exposed = std::max(0.0, exposed - exposed_before_) / steps;
  live_.device = needs.arena_bytes();
  live_.host_memory = needs.host_bytes;
  exposed_before_ = exposed;
  text_.clear();
  append_live_rank(live_, text_);
  while (text_.size() < kLiveBytes) text_.push_back(' ');
  [[maybe_unused]] const ssize_t written = ::pwrite(file_.get(), text_.data(), text_.size(), 0);
}

}  // namespace recollect
