#include "launch/train/rank_watch.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "engine/io/files.h"
#include "engine/io/json.h"
#include "engine/io/node.h"
#include "engine/io/standard_output.h"

namespace recollect {

namespace {

constexpr auto kToNotice = std::chrono::seconds(1);

using Json = nlohmann::ordered_json;

Json call_json(const CallLog::Entry& entry) {
  const auto named = std::min<std::size_t>(static_cast<std::size_t>(entry.group_size), CallLog::kNamedRanks);
  return {{"number", entry.number},
          {"step", entry.step},
          {"collective", entry.call.name()},
          {"op", std::string(entry.op.data())},
          {"bytes", entry.call.bytes},
          {"group_size", entry.group_size},
          {"group", std::vector<int32_t>(entry.group.begin(), entry.group.begin() + named)},
          {"begun", entry.begun},
          {"ended", entry.ended >= 0 ? Json(entry.ended) : Json()}};
}

Json status_json(const Communicator& world, const CallLog& log, ExitCode code, const std::string& failure) {
  const std::vector<CallLog::Entry> entries = log.entries();
  Json calls = Json::array();
  for (const CallLog::Entry& entry : entries) calls.push_back(call_json(entry));
  const auto open = std::find_if(entries.rbegin(), entries.rend(),
                                 [](const CallLog::Entry& entry) { return entry.ended < 0; });
  return {{"rank", world.rank()},
          {"ranks", world.size()},
          {"host", host_name()},
          {"process", ::getpid()},
          {"exit_code", static_cast<int>(code)},
          {"failure", failure},
          {"first_failure", world.stop_reason().value_or(failure)},
          {"step", log.step()},
          {"in", open == entries.rend() ? Json() : call_json(*open)},
          {"latest", entries.empty() ? Json() : calls.back()},
          {"calls", std::move(calls)}};
}

}  // namespace

RankStatus::RankStatus(Communicator& world, std::string folder)
    : world_(world),
      folder_(std::move(folder)),
      path_(fmt::format("{}/status.{}.json", folder_, world.rank())),
      log_(std::make_shared<CallLog>()) {
  world_.note_calls_in(log_);
}

void RankStatus::begin() {
  std::error_code none;
  std::filesystem::remove(path_, none);
  const std::lock_guard lock(mutex_);
  writes_ = true;
}

void RankStatus::write(ExitCode code, const std::string& failure) noexcept {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(writes_, false)) return;
  try {
    std::error_code none;
    std::filesystem::create_directories(folder_, none);
    const Json json = status_json(world_, *log_, code, failure);
    write_text_file(path_, json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  } catch (const std::exception&) {  // only the failure itself matters
  }
}

void RankWatch::add(RankStatus& status) {
  const std::lock_guard lock(mutex_);
  ranks_.push_back(&status);
}

void RankWatch::remove(RankStatus& status, ExitCode code, const std::string& failure) {
  const std::lock_guard lock(mutex_);
  std::erase(ranks_, &status);
  const bool is_news = !failure_ || failure_->code == ExitCode::kPeerLost;
  if (code != ExitCode::kOk && is_news) failure_ = {code, failure};
}

bool RankWatch::is_stopped() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const RankStatus* rank) { return rank->world().stop_reason().has_value(); });
}

void RankWatch::look() {
  if (!is_stopped()) {
    stopped_since_.reset();
    return;
  }
  const auto now = Clock::now();
  if (!stopped_since_) stopped_since_ = now;
  if (now - *stopped_since_ < kToNotice) return;
  const std::lock_guard lock(mutex_);
  for (RankStatus* rank : ranks_) {
    const std::string reason = rank->world().stop_reason().value_or("a rank stopped");
    rank->write(ExitCode::kPeerLost,
                "it did not come out of what it did when the run was given up: " + reason);
    warn("rank {}: still busy after the run was given up: {}", rank->world().rank(), reason);
  }
  if (failure_) warn("{}", failure_->text);
  ::_exit(static_cast<int>(failure_ ? failure_->code : ExitCode::kPeerLost));
}

void RankWatch::write_all(ExitCode code, const std::string& failure) const {
  const std::lock_guard lock(mutex_);
  for (RankStatus* rank : ranks_) rank->write(code, failure);
}

}  // namespace recollect
