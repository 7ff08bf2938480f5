#include "comm/nccl/session.h"

#include <algorithm>
#include <exception>
#include <thread>

#include "engine/core/duration.h"

namespace recollect::nccl {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr std::size_t kWords = 1024;
constexpr int kEagerPolls = 200;

template <typename Abort>
device::Watchdog::Settings complete(device::Watchdog::Settings settings, Abort abort,
                                    const Communicator& world) {
  settings.abort = abort;
  settings.stop_reason = [&world] { return world.stop_reason(); };
  return settings;
}

}  // namespace

Result Handle::status() {
  return with([this](Comm comm) {
    Result state = Result::kSuccess;
    const Result asked = api_.comm_get_async_error(comm, &state);
    return asked == Result::kSuccess ? state : asked;
  });
}

std::string Handle::last_error() {
  std::string text;
  with([&](Comm comm) {
    if (const char* said = api_.get_last_error(comm)) text = said;
    return Result::kSuccess;
  });
  return text;
}

std::string Handle::asynchronous_error() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || aborted_ || !comm_) return {};
  Result state = Result::kSuccess;
  const Result asked = api_.comm_get_async_error(comm_, &state);
  if (asked != Result::kSuccess) state = asked;
  if (state == Result::kSuccess || state == Result::kInProgress) return {};
  const char* detail = api_.get_last_error(comm_);
  return std::string("NCCL reports '") + api_.get_error_string(state) + "' (" + (detail ? detail : "") + ")";
}

void Handle::abort() noexcept {
  std::lock_guard lock(mutex_);
  if (comm_ && !aborted_) api_.comm_abort(comm_);
  aborted_ = true;
}

void Handle::destroy() noexcept {
  std::lock_guard lock(mutex_);
  if (comm_ && !aborted_) api_.comm_destroy(comm_);
  aborted_ = true;
}

uint64_t Handle::device_bytes() {
  uint64_t bytes = 0;
  with([&](Comm comm) {
    const bool told =
        comm && api_.comm_mem_stats && api_.comm_mem_stats(comm, kTotalMemory, &bytes) == Result::kSuccess;
    if (!told) bytes = 0;
    return Result::kSuccess;
  });
  return bytes;
}

ExitCode exit_code_of(Result result, const std::string& last_error) {
  if (last_error.find("out of memory") != std::string::npos) return ExitCode::kDeviceMemory;
  switch (result) {
    case Result::kInvalidUsage:
      return ExitCode::kConfiguration;
    case Result::kUnhandledCudaError:
    case Result::kSystemError:
    case Result::kRemoteError:
      return ExitCode::kPeerLost;
    default:
      return ExitCode::kInternal;
  }
}

Session::Session(Api api, std::shared_ptr<device::DeviceRuntime> runtime, Communicator& world,
                 device::Watchdog::Settings settings, bool threads)
    : api_(std::move(api)),
      runtime_(std::move(runtime)),
      world_(world),
      threads_(threads),
      words_(runtime_->make_words(kWords)),
      board_(world),
      watchdog_(board_, complete(
                            std::move(settings), [this](const std::string& why) { abort_all(why); }, world)) {
  watchdog_.start();
}

// A rank that ends with an Error takes the others along. A rank that has finished publishes its final
// progress.
Session::~Session() {
  if (std::uncaught_exceptions() > 0)
    watchdog_.fail("rank " + std::to_string(world_.rank()) + " stopped with an error");
  if (watchdog_.has_failed()) return;
  watchdog_.look(Clock::now());
  board_.leave();
}

Handle& Session::make_handle() {
  std::lock_guard lock(handles_mutex_);
  return *handles_.emplace_back(std::make_unique<Handle>(api_));
}

// Also aborts the host communicator: a thread that waits there has no other way to learn of the failure.
void Session::abort_all(const std::string& why) {
  world_.abort(why);
  std::vector<Handle*> handles;
  {
    std::lock_guard lock(handles_mutex_);
    for (const auto& handle : handles_) handles.push_back(handle.get());
  }
  // Each handle is aborted on its own thread: NCCL may wait for the graphs that use a handle, and those end
  // only when another handle's kernels are aborted.
  std::vector<std::thread> aborts;
  for (Handle* handle : handles) aborts.emplace_back([handle] { handle->abort(); });
  for (std::thread& abort : aborts) abort.join();
}

uint32_t* Session::take_word() {
  require(words_taken_ < kWords, "a rank makes at most " + std::to_string(kWords) + " groups on devices");
  return words_.get() + words_taken_++;
}

// Returns kInProgress if the time is up. Enqueuing takes NCCL some microseconds; connecting takes long, so
// polling slows down.
Result Session::await(Handle& handle, Result result) {
  const auto deadline = Clock::now() + watchdog_.timeout();
  microseconds pause(20);
  for (int polls = 0; result == Result::kInProgress && Clock::now() < deadline; ++polls) {
    if (polls < kEagerPolls) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, microseconds(2000));
    }
    watchdog_.throw_if_failed();
    result = handle.status();
  }
  return result;
}

bool Session::settles(Handle& handle, Result result) { return await(handle, result) == Result::kSuccess; }

void Session::settle_slowly(Handle& handle, Result result, const std::string& doing) {
  result = await(handle, result);
  if (result == Result::kSuccess) return;
  watchdog_.throw_if_failed();
  if (result == Result::kInProgress) {
    watchdog_.fail(doing + " of rank " + std::to_string(world_.rank()) + " did not finish within " +
                   duration_text(watchdog_.timeout()));
    watchdog_.throw_if_failed();
  }
  const std::string detail = handle.last_error();
  const std::string what = doing + " of rank " + std::to_string(world_.rank()) + ": NCCL says '" +
                           api_.get_error_string(result) + "' (" + detail + ")";
  watchdog_.fail(what);
  throw Error(exit_code_of(result, detail), what, "NCCL_DEBUG=INFO makes NCCL say more");
}

}  // namespace recollect::nccl
