#include "launch/report/follow_run.h"

#include <signal.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <vector>

#include "engine/core/error.h"
#include "engine/core/printable.h"
#include "engine/io/files.h"
#include "engine/io/standard_output.h"
#include "launch/report/html_page.h"
#include "launch/report/run_folder.h"
#include "launch/report/run_stage.h"

namespace recollect {

namespace {

using Clock = std::chrono::steady_clock;
using Run = std::vector<RankReport>;

constexpr timespec kLook{1, 0};
constexpr auto kBetweenPages = std::chrono::seconds(5);
constexpr auto kUntilAnotherAttempt = std::chrono::seconds(20);  // until a launcher restarts the ranks

// The complete parts of a run's folder so far.
class Followed {
 public:
  explicit Followed(const std::string& folder) : folder_(folder), metrics_(folder) {}

  // Returns whether anything is new.
  bool read() {
    const bool metrics = metrics_.read();
    return read_reports() || metrics;
  }
  bool has_reports() const { return !run_.empty(); }
  void write(const std::string& page, bool goes_on) const {
    const std::vector<Run> runs{run_};
    const std::vector<TrainingCurves> curves{metrics_.curves()};
    write_text_file(page, html_page(runs, {.curves = curves, .live = goes_on ? std::time(nullptr) : 0}));
  }
  // Throws kInput if the files are incomplete although the run has ended.
  void read_last() {
    metrics_.read();
    run_ = read_run(folder_);
  }

 private:
  using Time = std::filesystem::file_time_type;

  // Ranks write their reports one after the other, each atomically. If some are missing, they are read later.
  bool read_reports() {
    const std::vector<Time> times = times_of_reports();
    if (times.empty() || times == times_) return false;
    try {
      run_ = read_run(folder_);
      times_ = times;
      return true;
    } catch (const Error& error) {
      if (error.code() != ExitCode::kInput) throw;
      return false;
    }
  }
  std::vector<Time> times_of_reports() const {
    std::vector<Time> times;
    std::error_code error;
    for (int rank = 0; rank < (run_.empty() ? 1 : run_.front().ranks); ++rank) {
      const Time time =
          std::filesystem::last_write_time(fmt::format("{}/memory.rank{}.json", folder_, rank), error);
      if (!error) times.push_back(time);
    }
    return times;
  }

  const std::string folder_;
  MetricsFile metrics_;
  Run run_;
  std::vector<Time> times_;
};

// While an object of this class lives, SIGINT and SIGTERM do not end the program; wait() receives them.
class Stop {
 public:
  Stop() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals_, &before_);
  }
  ~Stop() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  Stop(const Stop&) = delete;
  Stop& operator=(const Stop&) = delete;

  // Returns whether a signal came within the time.
  bool wait(const timespec& time) const { return ::sigtimedwait(&signals_, nullptr, &time) > 0; }

 private:
  sigset_t signals_{}, before_{};
};

// Decides how long to wait for the launcher to restart a run that has died.
class Patience {
 public:
  bool is_over(RunStage state) {
    const Clock::time_point now = Clock::now();
    if (state != RunStage::kWaits) latest_ = now;
    return state == RunStage::kWaits ? now - latest_ > kUntilAnotherAttempt : state != RunStage::kGoesOn;
  }

 private:
  Clock::time_point latest_ = Clock::now();  // when there was last no reason to wait
};

}  // namespace

void follow_run(const std::string& folder, const std::string& page) {
  const Stop stop;
  Followed run(folder);
  Patience patience;
  bool said = false, has_page = false, is_new = true, stopped = false;
  Clock::time_point written;
  while (!stopped && !patience.is_over(stage_of_run(folder))) {
    is_new = run.read() || is_new;
    if (!said && run.has_reports())
      say("the run goes on: {} is written again every {} seconds until it ends, and reads itself anew\n",
          printable(page), kBetweenPages.count());
    else if (!said)
      say("the run has not reported yet: waiting for {}/memory.rank0.json\n", printable(folder));
    said = true;
    if (run.has_reports() && is_new && (!has_page || Clock::now() - written >= kBetweenPages)) {
      run.write(page, true);
      written = Clock::now();
      has_page = true;
      is_new = false;
    }
    stopped = stop.wait(kLook);
  }
  if (!stopped || !run.has_reports()) run.read_last();
  run.write(page, false);
  say("{}\nwrote {}\n", stopped ? "stopped: the page is of the run so far" : "the run has ended",
      printable(page));
}

}  // namespace recollect
