#include "launch/run/failure.h"

#include <sys/wait.h>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "engine/core/duration.h"
#include "engine/core/error.h"
#include "engine/core/printable.h"
#include "engine/io/node.h"
#include "launch/run/signals.h"

namespace recollect::launcher {

namespace {

constexpr int kWidth = 80, kMostOthers = 16;

std::string time_text(std::chrono::system_clock::time_point time) {
  using namespace std::chrono;
  const auto milliseconds = duration_cast<std::chrono::milliseconds>(time.time_since_epoch()) % 1000;
  return fmt::format("{:%Y-%m-%d %H:%M:%S}.{:03}", fmt::localtime(system_clock::to_time_t(time)),
                     milliseconds.count());
}

// When `end` was seen, relative to the root cause. A rank that lost the root cause as a peer may be seen to
// end before it.
std::string seen(const RankEnd& end, const RankEnd& root) {
  return end.time < root.time ? duration_text(root.time - end.time) + " earlier"
                              : duration_text(end.time - root.time) + " later";
}

// A list of the other ranks that failed: those that the launcher told to end (`asked`), or the rest.
std::string list_others(const RankEnd& root, std::span<const RankEnd> ends, bool asked) {
  std::string others;
  int more = 0;
  for (const RankEnd& end : ends)
    if (&end != &root && end.asked == asked && end.status() != 0 && ++more <= kMostOthers)
      others += fmt::format("  rank {} (pid {}): {}, {}\n", end.rank, end.pid, end.text(), seen(end, root));
  if (more > kMostOthers) others += fmt::format("  and {} more\n", more - kMostOthers);
  return others;
}

}  // namespace

bool RankEnd::by_signal() const { return WIFSIGNALED(wait_status); }

int RankEnd::status() const { return by_signal() ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status); }

std::string RankEnd::text() const {
  return by_signal()
             ? fmt::format("{} (signal {})", signal_name(WTERMSIG(wait_status)), WTERMSIG(wait_status))
             : fmt::format("exit code {}", WEXITSTATUS(wait_status));
}

const RankEnd* root_cause(std::span<const RankEnd> ends) {
  const RankEnd* first = nullptr;
  for (const RankEnd& end : ends) {
    if (end.asked || end.status() == 0) continue;
    if (end.status() != static_cast<int>(ExitCode::kPeerLost)) return &end;
    if (!first) first = &end;
  }
  return first;
}

std::string failure_box(const RankEnd& root, std::span<const RankEnd> ends, const Relay& output,
                        const Relay& errors) {
  const std::string border = std::string(kWidth, '=') + "\n", rule = std::string(kWidth, '-') + "\n";
  std::string text =
      border + fmt::format("recollect run: rank {} FAILED: {}\n", root.rank, root.text()) + rule;
  text += fmt::format("root cause (first observed failure)\n  rank   {} (local rank {}), pid {}\n", root.rank,
                      root.rank, root.pid);
  text += fmt::format("  time   {}\n  host   {}\n", time_text(root.time), host_name());
  for (const Relay* relay : {&output, &errors})
    if (!relay->log_path().empty()) text += fmt::format("  log    {}\n", relay->log_path());
  const auto& lines = errors.tail().lines();
  if (lines.empty()) text += "  it wrote nothing to stderr\n";
  if (root.by_signal() && WTERMSIG(root.wait_status) == SIGKILL)
    text += "  the system kills so where memory ends: dmesg, or the job's own log, would say so\n";
  if (!lines.empty() && errors.is_shown())
    text += fmt::format("  what it wrote to stderr stands above, after {}\n", errors.prefix());
  if (!lines.empty() && !errors.is_shown()) {
    text += fmt::format("  its last {} line(s) on stderr:\n", lines.size());
    for (const std::string& line : lines) text += "    " + printable(line) + "\n";
  }
  const std::string also = list_others(root, ends, false), told = list_others(root, ends, true);
  if (!also.empty()) text += rule + "also failed\n" + also;
  if (!told.empty()) text += rule + "told to end\n" + told;
  return text + border;
}

}  // namespace recollect::launcher
