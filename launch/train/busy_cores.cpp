#include "launch/train/busy_cores.h"

#include <omp.h>
#include <unistd.h>

#include <fmt/format.h>

#include "comm/bootstrap.h"

namespace recollect {

namespace {

constexpr std::chrono::milliseconds kBetweenMeasures{1000}, kUntilMoreIsKnown{100};
constexpr int kCalmLooks = 10;            // before threads spin again
constexpr double kLeastOfThreads = 0.02;  // seconds; less is ignored

}  // namespace

// While a thread waits because of other processes, one of their threads runs; while it waits because of the
// run itself, none does.
std::optional<CoreContention> contention(const CoreTimes& before, const CoreTimes& after, int processes) {
  const double running = after.running - before.running, waiting = after.waiting - before.waiting;
  if (running < 0 || waiting < 0 || running + waiting < kLeastOfThreads) return std::nullopt;
  const double others =
      after.of_machine - before.of_machine - processes * (after.of_process - before.of_process);
  return CoreContention{.waiting = waiting / (running + waiting), .by_others = others >= waiting / 2};
}

BusyCores::BusyCores(int team, int processes)
    : team_(team), processes_(processes), before_(clock_.read()), next_(Clock::now()) {}

std::string BusyCores::look() {
  const Clock::time_point now = Clock::now();
  if (!before_ || now < next_) return {};
  const std::optional<CoreTimes> after = clock_.read();
  const std::optional<CoreContention> found = after ? contention(*before_, *after, processes_) : std::nullopt;
  next_ = now + (found ? kBetweenMeasures : kUntilMoreIsKnown);
  if (found || !after || after->running < before_->running) before_ = after;
  return found ? adapt(*found) : std::string();
}

std::string BusyCores::adapt(const CoreContention& found) {
  calm_ = found.is_calm() ? calm_ + 1 : 0;
  if (calm_ >= kCalmLooks) passive_.end();
  if (!found.is_contested()) return {};
  if (team_ > 1) passive_.begin(team_);
  if (told_) return {};
  told_ = true;
  return sentence(found.waiting);
}

std::string BusyCores::sentence(double waiting) const {
  std::string text;
  if (const std::optional<MachineLoad> load = clock_.load())
    text = fmt::format("load {:.1f} ({} running now) on {} cores: ", load->average, load->now,
                       ::sysconf(_SC_NPROCESSORS_ONLN));
  text += fmt::format(
      "other processes compete with this run, whose threads stood {:.0f} % of their time without a core",
      100 * waiting);
  return text + (team_ == 1 || passive_.are_on() ? "; ranks wait passively" : "");
}

std::unique_ptr<BusyCores> watch_cores(const Config& config, const Communicator& world) {
  const bool several_here = config.parallelism.ranks_per_process > 1;
  if (config.device.backend == BackendKind::kCuda || waits_are_chosen() || (several_here && world.rank() > 0))
    return nullptr;
  const std::optional<RankEnvironment> who = discover_ranks();
  const int processes = who && who->size > 1 && !several_here ? who->local_size : 1;
  return std::make_unique<BusyCores>(omp_get_max_threads(), processes);
}

}  // namespace recollect
